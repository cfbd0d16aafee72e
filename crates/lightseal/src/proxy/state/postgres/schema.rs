//! The tables, which the program makes.
//!
//! | table | what it has |
//! |---|---|
//! | `meta` | one row: the format, the cluster in which the tables were made, the fleet's secret, sealed; \
//!   whether a node has found that the database was rolled back |
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
use crate::proxy::state::key::StateKey;
use crate::proxy::state::row::RowId;
use tokio_postgres::Client;
use zeroize::Zeroizing;

/// The version of the tables. Another one is refused.
const FORMAT: i32 = 2;

/// The number under which the fleet's secret is sealed; no row has it.
pub(super) const SECRET: RowId = RowId::MAX;

/// Two processes that begin at once make the tables one after the other. The number is arbitrary.
const LOCK: &str = "SELECT pg_advisory_xact_lock(7382461950217734)";

/// `mark` has no second index and room in its pages, so that an update touches one page
/// (heap-only tuples).
const CREATE: &str = "
    CREATE SCHEMA IF NOT EXISTS lightseal;
    CREATE TABLE meta (
        one boolean PRIMARY KEY DEFAULT true CHECK (one),
        format integer NOT NULL,
        system_identifier bigint NOT NULL,
        secret bytea,
        rolled_back boolean NOT NULL DEFAULT false);
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
    CREATE INDEX state_slot ON state (slot);
    CREATE TABLE cid (cid bytea PRIMARY KEY, id bigint NOT NULL);
    CREATE INDEX cid_id ON cid (id);
    CREATE TABLE chain (
        peer bytea PRIMARY KEY,
        evidence bytea NOT NULL,
        presented date NOT NULL DEFAULT current_date);
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
        SELECT 2, system_identifier FROM pg_control_system();";

const FORGET: &str = "
    TRUNCATE mark, state, cid, chain, key;
    UPDATE meta SET secret = NULL, rolled_back = false,
        system_identifier = (SELECT system_identifier FROM pg_control_system());";

/// Makes the tables if there are none, and refuses those that are not this program's. With `forget`
/// everything that is in them is removed. Returns the fleet's secret.
///
/// # Errors
///
/// If the database fails, has a store of another version, key or cluster, or a node runs that must
/// not. Then nothing is changed.
pub(super) async fn prepare(
    client: &Client,
    key: &StateKey,
    newcomer: &Newcomer,
) -> Result<Result<Zeroizing<[u8; 32]>, Failure>, DatabaseError> {
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
) -> Result<Result<Zeroizing<[u8; 32]>, Failure>, DatabaseError> {
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
    let sealed = client.query_one("SELECT secret FROM meta", &[]).await?;
    let Some(sealed) = sealed.try_get::<_, Option<&[u8]>>(0)? else {
        let mut secret = Zeroizing::new([0; 32]);
        let sealed = getrandom::fill(&mut *secret).and_then(|()| key.seal(SECRET, &*secret));
        let sealed =
            sealed.map_err(|error| DatabaseError::new(format!("no randomness: {error}")))?;
        client.execute("UPDATE meta SET secret = $1", &[&sealed]).await?;
        return Ok(Ok(secret));
    };
    let opened = key.open(SECRET, sealed);
    match opened.as_deref().and_then(|opened| <[u8; 32]>::try_from(&opened[..]).ok()) {
        Some(secret) => Ok(Ok(Zeroizing::new(secret))),
        None => wrong("the fleet's secret is damaged; --forget starts afresh, with new handshakes"),
    }
}

/// Notes the key under which rows are sealed from now on, and refuses it if rows are sealed under a key
/// that is neither this one nor the former one. The fleet's secret is sealed anew if it has to be.
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
    let meta = client.query_one("SELECT secret FROM meta", &[]).await?;
    if let Some(sealed) = meta.try_get::<_, Option<&[u8]>>(0)?
        && !key.is_current(SECRET, sealed)
        && let Some(secret) = key.open(SECRET, sealed)
    {
        let anew = key.seal(SECRET, &secret);
        let anew = anew.map_err(|error| DatabaseError::new(format!("no randomness: {error}")))?;
        let update = "UPDATE meta SET secret = $1 WHERE secret = $2";
        client.execute(update, &[&anew, &sealed]).await?;
    }
    Ok(Ok(()))
}
