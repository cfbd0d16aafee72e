//! The statements.

/// What holds for each connection. A transaction of a process that was paused in its midst must not
/// hold the rows that another process goes on with. The statements name few rows of large tables, which
/// are found by indexes; the database would rather read all rows where they are some ten thousand. Small
/// tables count as expensive then, and no statement is worth being compiled for that.
pub(super) const SETTINGS: &str = "
    SET synchronous_commit = on;
    SET default_transaction_isolation = 'read committed';
    SET default_transaction_read_only = off;
    SET idle_in_transaction_session_timeout = '2s';
    SET lock_timeout = '5s';
    SET enable_seqscan = off;
    SET jit = off;
    SET random_page_cost = 1.1;
    SET search_path = lightseal;";

/// The settings once more, for a transaction: a pooler between this program and the database may give
/// each transaction to another connection. What is confirmed is durable, whatever the database's default
/// is.
pub(super) const BEGIN: &str = "
    BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
    SET LOCAL synchronous_commit = on;
    SET LOCAL idle_in_transaction_session_timeout = '2s';
    SET LOCAL lock_timeout = '5s';
    SET LOCAL enable_seqscan = off;
    SET LOCAL jit = off;
    SET LOCAL random_page_cost = 1.1;
    SET LOCAL search_path = lightseal;";

/// Which database this is, how far it has come, and what node $1 has told it. On one timeline, a log of
/// writes that was flushed gets shorter only if the database is rolled back.
macro_rules! look {
    () => {
        "(SELECT system_identifier FROM pg_control_system()),
         ('x' || substr(pg_walfile_name(pg_current_wal_flush_lsn()), 1, 8))::bit(32)::bigint,
         (pg_current_wal_flush_lsn() - '0/0')::bigint,
         coalesce((SELECT incarnation FROM node WHERE number = $1), 0),
         coalesce((SELECT beat FROM node WHERE number = $1), 0),
         coalesce((SELECT writes FROM writer WHERE node = $1), 0),
         (SELECT rolled_back FROM meta)"
    };
}

pub(super) const LOOK: &str = concat!("SELECT ", look!());

/// Begins a run of a node. Sessions of earlier runs write nothing any more.
pub(super) const ENTER: &str = "
    WITH entered AS (
        INSERT INTO node (number, incarnation, beat, leaves, departed, address)
        VALUES ($1, nextval('incarnation'), 0, false, false, $2)
        ON CONFLICT (number) DO UPDATE SET incarnation = excluded.incarnation, beat = 0,
            leaves = false, departed = false, address = excluded.address
        RETURNING incarnation)
    INSERT INTO writer (node, incarnation, session, writes, seals)
        SELECT $1, incarnation, 0, 0, $3 FROM entered
    ON CONFLICT (node) DO UPDATE SET incarnation = excluded.incarnation,
        session = writer.session + 1, seals = excluded.seals
    RETURNING incarnation";

/// Begins a session that writes for run $2 of node $1. It waits for the transaction that the session
/// before may have under way, and lets none of its later ones take effect.
pub(super) const FENCE: &str = "
    UPDATE writer SET session = session + 1 WHERE node = $1 AND incarnation = $2 RETURNING session";

/// A transaction of session $2 begins to write, in the cluster $3. It fails if another session writes for
/// the node, or this is another cluster: what was sent after it has no effect then.
pub(super) const WRITES: &str = concat!(
    "WITH counted AS (
        UPDATE writer SET writes = writes + 1 WHERE node = $1 AND session = $2
            AND $3 = (SELECT system_identifier FROM pg_control_system())
        RETURNING writes)
    SELECT (SELECT max(writes) FROM counted), 1 / (SELECT count(*) FROM counted), ",
    look!()
);

/// The bytes of a mark: nine numbers, and a port.
pub(super) const MARK_COLUMNS: usize = 76;

/// Associations in some of a node's slots, of each slot the $4 newest with numbers below the one in $3,
/// with what their peers have presented. The limit lets the database find them by the index, however many there
/// are, and bounds what is in memory.
pub(super) const LOAD: &str = "
    SELECT id, version, writer, send_epoch, send_below, deliver_epoch, deliver_below, skipped,
           service_port, sealed, evidence, slot.slot
    FROM unnest($2::smallint[], $3::bigint[]) AS wanted(slot, below) JOIN slot USING (slot)
        CROSS JOIN LATERAL (
            SELECT id, peer, sealed FROM state
            WHERE state.slot = wanted.slot AND state.id < wanted.below
            ORDER BY id DESC LIMIT $4) AS newest
        JOIN mark USING (id) LEFT JOIN chain USING (peer)
    WHERE slot.owner = $1
    ORDER BY id DESC";

/// How many associations of each slot are read at once.
pub(super) const LOADED_AT_ONCE: i64 = 2048;

/// The nodes that have not departed.
pub(super) const NODES: &str =
    "SELECT number, incarnation, beat, leaves, address FROM node WHERE NOT departed";

/// The slots.
pub(super) const SLOTS: &str = "SELECT slot, owner, term FROM slot";

/// A beat of a node, unless another process runs as that node or the database knows less of it than beat
/// $5, which it has confirmed. It answers with what the database knew before.
pub(super) const BEAT: &str = concat!(
    "WITH beaten AS (
        UPDATE node SET beat = $3, leaves = $4, departed = false
        WHERE number = $1 AND incarnation = $2 AND beat < $3 AND beat >= $5 RETURNING beat)
    SELECT (SELECT count(*) FROM beaten), ",
    look!()
);

/// A node has departed, if it still is as it was seen.
pub(super) const DEPART: &str = "
    UPDATE node SET departed = true WHERE number = $1 AND incarnation = $2 AND beat = $3";

/// Moves slots that have not moved meanwhile.
pub(super) const MOVE: &str = "
    WITH locked AS (
        SELECT slot, owner, term FROM slot WHERE slot = ANY ($1::smallint[])
        ORDER BY slot FOR NO KEY UPDATE)
    UPDATE slot SET owner = new.owner, term = slot.term + 1
    FROM unnest($1::smallint[], $2::smallint[], $3::bigint[], $4::smallint[])
        AS new(slot, former, term, owner) JOIN locked USING (slot)
    WHERE slot.slot = new.slot AND locked.owner IS NOT DISTINCT FROM new.former
        AND locked.term = new.term
    RETURNING slot.slot";

/// Lets a node live again in a database that knows less of it.
pub(super) const ENTER_AGAIN: &str = "
    WITH again AS (
        INSERT INTO node (number, incarnation, beat, leaves, departed, address)
        VALUES ($1, $2, $3, true, false, $4)
        ON CONFLICT (number) DO UPDATE SET incarnation = excluded.incarnation,
            beat = excluded.beat, leaves = true, departed = false, address = excluded.address)
    INSERT INTO writer (node, incarnation, session, writes) VALUES ($1, $2, 0, $5)
    ON CONFLICT (node) DO UPDATE SET incarnation = excluded.incarnation,
        session = writer.session + 1, writes = greatest(writer.writes, excluded.writes)";

/// The numbers of runs go on behind this one.
pub(super) const NEXT_INCARNATION: &str =
    "SELECT setval('incarnation', $1) FROM incarnation WHERE last_value < $1";

/// All nodes learn that the database was rolled back.
pub(super) const CONDEMN: &str = "UPDATE meta SET rolled_back = true";

/// The columns of `mark` as arrays, and who writes.
macro_rules! marks {
    ($more:literal) => {
        concat!(
            "WITH new AS (SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[],
                $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::integer[]",
            $more
        )
    };
}

/// Updates the marks of rows that are as their writer knows them.
macro_rules! update {
    () => {
        "UPDATE mark SET version = new.version, writer = $11, send_epoch = new.send_epoch,
            send_below = new.send_below, deliver_epoch = new.deliver_epoch,
            deliver_below = new.deliver_below, skipped = new.skipped, service_port = new.port
        FROM new WHERE mark.id = new.id AND mark.version = new.former
            AND mark.writer = new.former_writer RETURNING mark.id"
    };
}

pub(super) const UPDATE_MARKS: &str = concat!(
    marks!(
        ") AS new(id, former, former_writer, version, send_epoch, send_below, deliver_epoch,
            deliver_below, skipped, port)) "
    ),
    update!()
);

pub(super) const UPDATE_STATES: &str = concat!(
    marks!(
        ", $12::bytea[]) AS new(id, former, former_writer, version, send_epoch, send_below,
            deliver_epoch, deliver_below, skipped, port, sealed)), changed AS ("
    ),
    update!(),
    "), states AS (
        UPDATE state SET sealed = new.sealed FROM new JOIN changed USING (id)
        WHERE state.id = new.id),
    given AS (SELECT cid, id FROM unnest($13::bytea[], $14::bigint[]) AS given(cid, id)
        JOIN changed USING (id)),
    retired AS (DELETE FROM cid USING changed
        WHERE cid.id = changed.id AND cid.cid <> ALL ($13::bytea[])),
    cids AS (INSERT INTO cid SELECT cid, id FROM given
        ON CONFLICT (cid) DO UPDATE SET id = excluded.id WHERE cid.id <> excluded.id)
    SELECT id FROM changed"
);

/// A row is inserted only in a slot of the node that writes, and that slot stays the node's until the
/// transaction ends: elsewhere the next owner would not know of the row.
pub(super) const INSERT: &str = concat!(marks!(
    ", $12::bytea[], $15::smallint[], $16::bytea[]) AS new(id, former, former_writer, version,
            send_epoch, send_below, deliver_epoch, deliver_below, skipped, port, sealed, slot, peer)),
        owned AS (SELECT slot FROM slot WHERE owner = $17 AND slot = ANY ($15::smallint[])
            ORDER BY slot FOR SHARE),
        changed AS (
            INSERT INTO mark SELECT id, version, $11, send_epoch, send_below, deliver_epoch,
                deliver_below, skipped, port FROM new JOIN owned USING (slot)
            ON CONFLICT DO NOTHING RETURNING id),
        states AS (
            INSERT INTO state SELECT id, slot, peer, sealed FROM new JOIN changed USING (id)),
        given AS (SELECT cid, id FROM unnest($13::bytea[], $14::bigint[]) AS given(cid, id)
            JOIN changed USING (id)),
        cids AS (INSERT INTO cid SELECT cid, id FROM given
            ON CONFLICT (cid) DO UPDATE SET id = excluded.id)
        SELECT id FROM changed"
));

pub(super) const REMOVE: &str = "
    WITH gone AS (
        DELETE FROM mark USING unnest($1::bigint[], $2::bigint[], $3::bigint[])
            AS old(id, version, writer)
        WHERE mark.id = old.id AND mark.version = old.version AND mark.writer = old.writer
        RETURNING mark.id),
    states AS (DELETE FROM state USING gone WHERE state.id = gone.id),
    cids AS (DELETE FROM cid USING gone WHERE cid.id = gone.id)
    SELECT id FROM gone";

pub(super) const CHAINS: &str = "
    INSERT INTO chain (peer, evidence) SELECT * FROM unnest($1::bytea[], $2::bytea[])
    ON CONFLICT (peer) DO UPDATE SET evidence = excluded.evidence, presented = current_date";

/// Looks at some of the chains that were not presented for 30 days, and removes those to which no row
/// refers. The others are looked at again after 30 days more, so that each look is at few rows. A peer
/// that resumes its sessions has not presented its chain for as long as they last; a node that refers to
/// it again has not forgotten it.
pub(super) const REMOVE_CHAINS: &str = "
    WITH old AS (
        SELECT peer, EXISTS (SELECT FROM state WHERE state.peer = chain.peer) AS needed
        FROM chain WHERE presented < current_date - 30
        ORDER BY presented LIMIT 1000 FOR NO KEY UPDATE SKIP LOCKED),
    kept AS (
        UPDATE chain SET presented = current_date FROM old
        WHERE chain.peer = old.peer AND old.needed),
    removed AS (
        DELETE FROM chain USING old WHERE chain.peer = old.peer AND NOT old.needed
        RETURNING chain.peer)
    SELECT (SELECT count(*) FROM old), (SELECT count(*) FROM removed)";

/// The nodes, and the check values of the keys under which they seal.
pub(super) const SEALING: &str = "
    SELECT node, seals FROM writer JOIN node ON number = node WHERE NOT departed ORDER BY node";

pub(super) const SOME_STATES: &str =
    "SELECT id, sealed FROM state WHERE id > $1 ORDER BY id LIMIT $2";

/// Replaces what no node has changed meanwhile.
pub(super) const RESEAL: &str = "
    UPDATE state SET sealed = new.anew
    FROM unnest($1::bigint[], $2::bytea[], $3::bytea[]) AS new(id, former, anew)
    WHERE state.id = new.id AND state.sealed = new.former";

pub(super) const READ_BACK: &str =
    "SELECT id, version, writer FROM mark WHERE id = ANY ($1::bigint[])";
