//! The tables, which the program makes.
//!
//! | table | what it has |
//! |---|---|
//! | `meta` | one row: the format, the cluster in which the tables were made; whether a node has found \
//!   that the database was rolled back |
//! | `secret` | the fleet's secrets, sealed, and from when each is used |
//! | `key` | the check values of the keys under which rows are sealed |
//! | `mark` | how far each association may have come, in clear; written often |
//! | `state` | all else of each association, sealed; the slot of its connection IDs; its peer |
//! | `cid` | which association has a connection ID |
//! | `chain` | the chain of certificates that each peer presented last |
//! | `slot` | which node owns each slot |
//! | `node` | the nodes of the fleet; written with each beat |
//! | `writer` | which session writes for each node, and how many transactions of that node have written |

use super::presence::Newcomer;
use super::sql;
use crate::database::DatabaseError;
use crate::failure::Failure;
use crate::proxy::state::fleet_keys::FleetSecret;
use crate::proxy::state::key::StateKey;
use crate::proxy::state::row::RowId;
use std::time::Duration;
use tokio_postgres::Client;
use zeroize::Zeroizing;

/// The version of the tables. Another one is refused.
const FORMAT: i32 = 3;

/// The number under which the fleet's first secret is sealed, and the second one under the number
/// before it; no row has them.
const SECRET: RowId = RowId::MAX;

/// How long before it is used a new secret is in the database: nodes that reach it know the secret by
/// then.
const NOTICE: Duration = Duration::from_secs(60);

/// For how many seconds after its successor is used a secret is kept: tickets may be valid for two
/// generations.
const KEPT: i64 = 15 * 24 * 3600;

/// Two processes that begin at once make the tables one after the other. The number is arbitrary.
const LOCK: &str = "SELECT pg_advisory_xact_lock(7382461950217734)";

/// `mark` has no second index and room in its pages, so that an update touches one page
/// (heap-only tuples).
pub(super) const CREATE: &str = "
    CREATE SCHEMA IF NOT EXISTS lightseal;
    CREATE TABLE meta (
        one boolean PRIMARY KEY DEFAULT true CHECK (one),
        format integer NOT NULL,
        system_identifier bigint NOT NULL,
        rolled_back boolean NOT NULL DEFAULT false);
    CREATE TABLE secret (
        number integer PRIMARY KEY,
        begins bigint NOT NULL,
        sealed bytea NOT NULL);
    CREATE TABLE key (check_value bytea PRIMARY KEY);
    CREATE TABLE mark (
        id bigint PRIMARY KEY,
        version bigint NOT NULL,
        writer bigint NOT NULL,
        send_epoch bigint NOT NULL,
        send_below bigint NOT NULL,
        deliver_epoch bigint NOT NULL,
        deliver_below bigint NOT NULL,
        skipped bigint NOT NULL,
        service_port integer NOT NULL) WITH (fillfactor = 70);
    CREATE TABLE state (
        id bigint PRIMARY KEY,
        slot smallint NOT NULL,
        peer bytea,
        sealed bytea NOT NULL);
    CREATE INDEX state_slot ON state (slot, id);
    CREATE INDEX state_peer ON state (peer) WHERE peer IS NOT NULL;
    CREATE TABLE cid (cid bytea PRIMARY KEY, id bigint NOT NULL);
    CREATE INDEX cid_id ON cid (id);
    CREATE TABLE chain (
        peer bytea PRIMARY KEY,
        evidence bytea NOT NULL,
        presented date NOT NULL DEFAULT current_date);
    CREATE INDEX chain_presented ON chain (presented);
    CREATE TABLE slot (
        slot smallint PRIMARY KEY,
        owner smallint,
        term bigint NOT NULL DEFAULT 0);
    INSERT INTO slot (slot) SELECT generate_series(0, 255);
    CREATE TABLE node (
        number smallint PRIMARY KEY,
        incarnation bigint NOT NULL,
        beat bigint NOT NULL,
        leaves boolean NOT NULL,
        departed boolean NOT NULL,
        address text NOT NULL) WITH (fillfactor = 50);
    CREATE TABLE writer (
        node smallint PRIMARY KEY,
        incarnation bigint NOT NULL,
        session bigint NOT NULL,
        writes bigint NOT NULL,
        seals bytea) WITH (fillfactor = 50);
    CREATE SEQUENCE incarnation AS bigint MAXVALUE 16777215;
    INSERT INTO meta (format, system_identifier)
        SELECT 3, system_identifier FROM pg_control_system();";

const FORGET: &str = "
    TRUNCATE mark, state, cid, chain, key, secret;
    UPDATE meta SET rolled_back = false,
        system_identifier = (SELECT system_identifier FROM pg_control_system());";

/// Makes the tables if there are none, and refuses those that are not this program's. With `forget`
/// everything that is in them is removed. Returns the fleet's secrets.
///
/// # Errors
///
/// If the database fails, has a store of another version, key or cluster, or a node runs that must
/// not. Then nothing is changed.
pub(super) async fn prepare(
    client: &Client,
    key: &StateKey,
    newcomer: &Newcomer,
) -> Result<Result<Vec<FleetSecret>, Failure>, DatabaseError> {
    client.batch_execute(sql::BEGIN).await?;
    let examined = examine(client, key, newcomer).await;
    let end = if matches!(examined, Ok(Ok(_))) { "COMMIT" } else { "ROLLBACK" };
    // After an error the connection may be broken, and that error says more than this one.
    let ended = client.batch_execute(end).await;
    let examined = examined?;
    ended?;
    Ok(examined)
}

async fn examine(
    client: &Client,
    key: &StateKey,
    newcomer: &Newcomer,
) -> Result<Result<Vec<FleetSecret>, Failure>, DatabaseError> {
    let forget = newcomer.forgets;
    let wrong = |why: &str| Ok(Err(Failure::new(why)));
    client.query_one(LOCK, &[]).await?;
    let found = client.query_one("SELECT to_regclass('lightseal.meta') IS NOT NULL", &[]).await?;
    if !found.try_get::<_, bool>(0)? {
        client.batch_execute(CREATE).await?;
    }
    let meta =
        "SELECT format, system_identifier = (SELECT system_identifier FROM pg_control_system())
                FROM meta";
    let meta = client.query_one(meta, &[]).await?;
    let (format, is_here): (i32, bool) = (meta.try_get(0)?, meta.try_get(1)?);
    if format != FORMAT {
        return wrong("another version of this program has made the tables");
    }
    if let Some(runs) = newcomer.who_runs(client).await? {
        return Ok(Err(runs));
    }
    if forget {
        client.batch_execute(FORGET).await?;
    } else if !is_here {
        return wrong(
            "the tables were copied from another database cluster, and another fleet may use their \
             associations; --forget starts afresh, with new handshakes",
        );
    }
    if let Err(failure) = know_key(client, key).await? {
        return Ok(Err(failure));
    }
    if let Some(secrets) = open_secrets(client, key).await? {
        if secrets.is_empty() {
            let first = add_secret(client, key, 0, 0).await?;
            return Ok(Ok(vec![first]));
        }
        return Ok(Ok(secrets));
    }
    wrong("the fleet's secrets are damaged; --forget starts afresh, with new handshakes")
}

const SECRETS: &str = "SELECT number, begins, sealed FROM secret ORDER BY number";

/// The fleet's secrets in the order of their numbers; `None` if one cannot be opened.
///
/// # Errors
///
/// If the database fails.
pub(super) async fn open_secrets(
    client: &Client,
    key: &StateKey,
) -> Result<Option<Vec<FleetSecret>>, DatabaseError> {
    let mut secrets = Vec::new();
    for row in client.query(SECRETS, &[]).await? {
        let (number, begins, sealed): (i32, i64, &[u8]) =
            (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let opened = key.open(place(number), sealed);
        let opened = opened.as_deref().and_then(|opened| <[u8; 32]>::try_from(&opened[..]).ok());
        let Some(secret) = opened.map(Zeroizing::new) else { return Ok(None) };
        secrets.push(FleetSecret { number, begins: begins.unsigned_abs(), secret });
    }
    Ok(Some(secrets))
}

/// The number under which a secret is sealed.
const fn place(number: i32) -> RowId {
    SECRET - number.unsigned_abs() as RowId
}

/// Draws a secret, which nodes use from this time on.
async fn add_secret(
    client: &Client,
    key: &StateKey,
    number: i32,
    begins: i64,
) -> Result<FleetSecret, DatabaseError> {
    let mut secret = Zeroizing::new([0; 32]);
    let sealed = getrandom::fill(&mut *secret).and_then(|()| key.seal(place(number), &*secret));
    let sealed = sealed.map_err(|error| DatabaseError::new(format!("no randomness: {error}")))?;
    let insert = "INSERT INTO secret VALUES ($1, $2, $3)";
    client.execute(insert, &[&number, &begins, &sealed]).await?;
    Ok(FleetSecret { number, begins: begins.unsigned_abs(), secret })
}

/// The former key is not needed any more: forgets it, and gives the fleet a new secret, which nobody
/// knows who has the former key and an old copy of the database. If the key was forgotten before,
/// nothing happens.
///
/// # Errors
///
/// If the database fails. Then nothing is changed.
pub(super) async fn give_up_former_key(
    client: &Client,
    key: &StateKey,
) -> Result<(), DatabaseError> {
    let Some(former) = key.former_check_value() else { return Ok(()) };
    client.batch_execute(sql::BEGIN).await?;
    let renewed = async {
        let forget = "DELETE FROM key WHERE check_value = $1";
        if client.execute(forget, &[&&former[..]]).await? == 0 {
            return Ok(());
        }
        // All nodes begin with the minute of their cookies.
        let next = "SELECT max(number) + 1,
                (extract(epoch FROM now())::bigint + $1 + 59) / 60 * 60 FROM secret";
        let next = client.query_one(next, &[&(NOTICE.as_secs() as i64)]).await?;
        add_secret(client, key, next.try_get(0)?, next.try_get(1)?).await.map(drop)
    };
    let renewed = renewed.await;
    let end = if renewed.is_ok() { "COMMIT" } else { "ROLLBACK" };
    let ended = client.batch_execute(end).await;
    renewed?;
    Ok(ended?)
}

/// Removes secrets under which nothing is made or accepted any more; the first one only if connection
/// IDs do not need it.
///
/// # Errors
///
/// If the database fails.
pub(super) async fn remove_secrets(
    client: &Client,
    scrambles_ids: bool,
) -> Result<(), DatabaseError> {
    let remove = "DELETE FROM secret WHERE number < (
            SELECT max(number) FROM secret WHERE begins < extract(epoch FROM now())::bigint - $1)
        AND NOT ($2 AND number = (SELECT min(number) FROM secret))";
    client.execute(remove, &[&KEPT, &scrambles_ids]).await?;
    Ok(())
}

/// Notes the key under which rows are sealed from now on, and refuses it if rows are sealed under a key
/// that is neither this one nor the former one. The fleet's secrets are sealed anew if they have to be.
///
/// # Errors
///
/// If the database fails, or there are rows under another key.
pub(super) async fn know_key(
    client: &Client,
    key: &StateKey,
) -> Result<Result<(), Failure>, DatabaseError> {
    let (current, former) = (key.check_value(), key.former_check_value());
    let mut is_known = false;
    for known in client.query("SELECT check_value FROM key", &[]).await? {
        let known = known.try_get::<_, &[u8]>(0)?;
        is_known |= known == current;
        if known != current && former.is_none_or(|former| known != former) {
            return Ok(Err(Failure::new(
                "it was made with another --state-key, which --former-state-key can name; --forget \
                 starts afresh, with new handshakes",
            )));
        }
    }
    if !is_known {
        client.execute("INSERT INTO key VALUES ($1)", &[&&current[..]]).await?;
    }
    for row in client.query(SECRETS, &[]).await? {
        let (number, sealed): (i32, &[u8]) = (row.try_get(0)?, row.try_get(2)?);
        let place = place(number);
        if key.is_current(place, sealed) {
            continue;
        }
        let Some(secret) = key.open(place, sealed) else { continue };
        let anew = key.seal(place, &secret);
        let anew = anew.map_err(|error| DatabaseError::new(format!("no randomness: {error}")))?;
        let update = "UPDATE secret SET sealed = $1 WHERE number = $2 AND sealed = $3";
        client.execute(update, &[&anew, &number, &sealed]).await?;
    }
    Ok(Ok(()))
}
