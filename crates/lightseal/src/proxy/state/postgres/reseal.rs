//! `lightseal proxy fleet reseal`: all rows of a fleet are sealed anew, under another key.
//!
//! Nodes open rows under either key meanwhile. A row that a node changes while it is sealed anew is left
//! to that node. The command can be ended and run again at any time: rows that are under the new key are
//! passed over.

use super::schema;
use super::session::{Session, bounded};
use super::sql;
use crate::database::{DatabaseError, OwnRuntime, StoreUrl};
use crate::failure::{Context, Failure};
use crate::proxy::fleet::slots::NodeNumber;
use crate::proxy::state::key::StateKey;
use crate::units::counted;
use clap::Args;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio_postgres::Client;

/// How many rows are sealed in one transaction.
const AT_ONCE: i64 = 1000;

/// How often the log says how far it has come.
const PROGRESS: Duration = Duration::from_secs(2);

#[derive(Clone, Debug, Args)]
pub(crate) struct ResealArgs {
    /// Database of the fleet.
    #[arg(long, value_name = "URL")]
    store: StoreUrl,
    /// File with the new key.
    #[arg(long, value_name = "FILE")]
    state_key: PathBuf,
    /// File with the key that is to be given up.
    #[arg(long, value_name = "FILE")]
    former_state_key: PathBuf,
}

/// What one look at all rows has found.
#[derive(Clone, Copy, Debug, Default)]
struct Pass {
    rows: u64,
    sealed: u64,
    /// Rows that open under neither key.
    damaged: u64,
    /// Rows that a node has changed meanwhile.
    left: u64,
}

/// Seals all rows under the new key, and says whether the former one is still needed.
///
/// # Errors
///
/// If the database fails, or its rows are sealed under other keys.
pub(crate) fn run(args: &ResealArgs) -> Result<(), Failure> {
    let name = format!("--store {}", args.store);
    let key = StateKey::read(&args.state_key, Some(&args.former_state_key))?;
    let runtime = OwnRuntime::new().context(&name)?;
    runtime.block_on(async {
        // No node: it changes nothing that depends on one.
        let session = Session::begin(&args.store, NodeNumber(0)).await.context(&name)?;
        let client = session.client();
        let known = bounded(schema::know_key(client, &key)).await.context(&name)?;
        known.context(&name)?.context(&name)?;
        let waits_for = still_sealing(client, &key).await.context(&name)?;
        let mut pass = seal_all(client, &key).await.context(&name)?;
        let sealed = pass.sealed;
        if pass.left > 0 && waits_for.is_empty() {
            pass = seal_all(client, &key).await.context(&name)?;
        }
        let (rows, anew) = (counted(pass.rows, "association"), counted(sealed, "association"));
        tracing::info!("{name}: {anew} of {rows} sealed anew");
        if pass.damaged > 0 {
            tracing::warn!("{name}: {} damaged", counted(pass.damaged, "association"));
        }
        if !waits_for.is_empty() {
            let nodes: Vec<_> = waits_for.iter().map(ToString::to_string).collect();
            println!(
                "the former key is still needed: nodes that seal under it: {}. Start them with the new key \
                 as --state-key, and run this again.",
                nodes.join(", ")
            );
            return Ok(());
        }
        if pass.left > 0 {
            println!("the former key may still be needed: run this again.");
            return Ok(());
        }
        let renewed = bounded(schema::give_up_former_key(client, &key)).await.context(&name)?;
        renewed.context(&name)?;
        println!(
            "the former key is not needed any more: remove it from the nodes' settings, and destroy it. \
             Backups and logs of the database that are older need it. In a minute or two the nodes \
             make cookies and tickets under a new secret."
        );
        Ok(())
    })
}

/// The nodes that seal under another key than the new one.
async fn still_sealing(client: &Client, key: &StateKey) -> Result<Vec<i16>, DatabaseError> {
    let mut nodes = Vec::new();
    for row in bounded(client.query(sql::SEALING, &[])).await?? {
        if row.try_get::<_, Option<&[u8]>>(1)? != Some(&key.check_value()[..]) {
            nodes.push(row.try_get(0)?);
        }
    }
    Ok(nodes)
}

async fn seal_all(client: &Client, key: &StateKey) -> Result<Pass, DatabaseError> {
    let (mut pass, mut after, mut said) = (Pass::default(), i64::MIN, Instant::now());
    loop {
        let rows = bounded(client.query(sql::SOME_STATES, &[&after, &AT_ONCE])).await??;
        let Some(last) = rows.last() else { return Ok(pass) };
        after = last.try_get(0)?;
        let (mut ids, mut former, mut anew) = (Vec::new(), Vec::new(), Vec::new());
        for row in &rows {
            let (id, sealed): (i64, &[u8]) = (row.try_get(0)?, row.try_get(1)?);
            pass.rows += 1;
            if key.is_current(id as u64, sealed) {
                continue;
            }
            let Some(state) = key.open(id as u64, sealed) else {
                pass.damaged += 1;
                continue;
            };
            let again = key.seal(id as u64, &state);
            let again = again.map_err(|_| DatabaseError::new("no randomness"))?;
            ids.push(id);
            former.push(sealed);
            anew.push(again);
        }
        if !ids.is_empty() {
            let done = bounded(client.execute(sql::RESEAL, &[&ids, &former, &anew])).await??;
            pass.sealed += done;
            pass.left += (ids.len() as u64).saturating_sub(done);
        }
        if said.elapsed() >= PROGRESS {
            said = Instant::now();
            tracing::info!("{} looked at, {} sealed anew", counted(pass.rows, "row"), pass.sealed);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::proxy::state::key::StateKey;

    #[test]
    fn a_row_is_opened_under_either_key_and_sealed_under_the_new_one() {
        let directory = testkit::program::TempDir::new();
        let paths = ["new", "old"].map(|name| directory.path(name));
        let [new, old] = paths.each_ref().map(std::path::Path::new);
        StateKey::make(new).unwrap();
        StateKey::make(old).unwrap();
        let former = StateKey::read(old, None).unwrap();
        let both = StateKey::read(new, Some(old)).unwrap();
        let alone = StateKey::read(new, None).unwrap();
        let sealed = former.seal(7, b"state").unwrap();
        assert!(!both.is_current(7, &sealed) && alone.open(7, &sealed).is_none());
        let state = both.open(7, &sealed).unwrap();
        let anew = both.seal(7, &state).unwrap();
        assert!(both.is_current(7, &anew) && former.open(7, &anew).is_none());
        assert_eq!(alone.open(7, &anew).unwrap().as_slice(), b"state");
        assert_eq!(both.former_check_value(), Some(former.check_value()));
        assert!(StateKey::read(new, Some(new)).is_err(), "that is one key");
    }
}
