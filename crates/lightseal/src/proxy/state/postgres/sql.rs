//! The statements.

/// What holds for each connection. What is confirmed is durable, whatever the database's default is.
/// A transaction of a process that was paused in its midst must not hold the rows that another process
/// goes on with.
pub(super) const SETTINGS: &str = "
    SET synchronous_commit = on;
    SET default_transaction_isolation = 'read committed';
    SET default_transaction_read_only = off;
    SET idle_in_transaction_session_timeout = '2s';
    SET lock_timeout = '5s';
    SET search_path = lightseal;";

/// Which database this is, and how far it has come. A log of writes that was flushed never gets shorter,
/// except if the database is rolled back.
pub(super) const LOOK: &str = "
    SELECT (SELECT system_identifier FROM pg_control_system()),
           ('x' || substr(pg_walfile_name(pg_current_wal_flush_lsn()), 1, 8))::bit(32)::bigint,
           (pg_current_wal_flush_lsn() - '0/0')::bigint,
           coalesce((SELECT incarnation FROM node WHERE number = $1), 0),
           coalesce((SELECT beat FROM node WHERE number = $1), 0)";

/// Begins a run of a node.
pub(super) const ENTER: &str = "
    INSERT INTO node (number, incarnation, beat, leaves, address)
    VALUES ($1, nextval('incarnation'), 0, false, $2)
    ON CONFLICT (number) DO UPDATE SET incarnation = excluded.incarnation, beat = 0,
        leaves = false, address = excluded.address
    RETURNING incarnation";

/// The bytes of a mark: eight numbers, and a port.
pub(super) const MARK_COLUMNS: usize = 68;

/// The associations in some of a node's slots, the newest first, with what their peers have presented.
pub(super) const LOAD: &str = "
    SELECT id, version, send_epoch, send_below, deliver_epoch, deliver_below, skipped, service_port,
           sealed, evidence
    FROM slot JOIN state USING (slot) JOIN mark USING (id) LEFT JOIN chain USING (peer)
    WHERE slot.owner = $1 AND slot.slot = ANY ($2::smallint[])
    ORDER BY id DESC";

/// The nodes.
pub(super) const NODES: &str = "SELECT number, incarnation, beat, leaves, address FROM node";

/// The slots.
pub(super) const SLOTS: &str = "SELECT slot, owner, term FROM slot";

/// A beat of a node, unless another process runs as that node.
pub(super) const BEAT: &str = "
    UPDATE node SET beat = $3, leaves = $4 WHERE number = $1 AND incarnation = $2 AND beat < $3
    RETURNING number";

/// Moves slots that have not moved meanwhile.
pub(super) const MOVE: &str = "
    UPDATE slot SET owner = new.owner, term = slot.term + 1
    FROM unnest($1::smallint[], $2::smallint[], $3::bigint[], $4::smallint[])
        AS new(slot, former, term, owner)
    WHERE slot.slot = new.slot AND slot.owner IS NOT DISTINCT FROM new.former
        AND slot.term = new.term
    RETURNING slot.slot";

/// Lets a node live again that a database which was rolled back knows less of.
pub(super) const ENTER_AGAIN: &str = "
    INSERT INTO node (number, incarnation, beat, leaves, address) VALUES ($1, $2, $3, false, $4)
    ON CONFLICT (number) DO UPDATE SET incarnation = excluded.incarnation, beat = excluded.beat,
        leaves = false, address = excluded.address";

/// The numbers of runs go on behind this one.
pub(super) const NEXT_INCARNATION: &str =
    "SELECT setval('incarnation', $1) FROM incarnation WHERE last_value < $1";

/// The columns of `mark` as arrays, and who writes.
macro_rules! marks {
    ($more:literal) => {
        concat!(
            "WITH new AS (SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[],
                $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::integer[]",
            $more
        )
    };
}

/// Updates the marks of rows whose versions are the former ones.
macro_rules! update {
    () => {
        "UPDATE mark SET version = new.version, writer = $10, send_epoch = new.send_epoch,
            send_below = new.send_below, deliver_epoch = new.deliver_epoch,
            deliver_below = new.deliver_below, skipped = new.skipped, service_port = new.port
        FROM new WHERE mark.id = new.id AND mark.version = new.former RETURNING mark.id"
    };
}

pub(super) const UPDATE_MARKS: &str = concat!(
    marks!(
        ") AS new(id, former, version, send_epoch, send_below, deliver_epoch, deliver_below, skipped,
            port)) "
    ),
    update!()
);

pub(super) const UPDATE_STATES: &str = concat!(
    marks!(
        ", $11::bytea[]) AS new(id, former, version, send_epoch, send_below, deliver_epoch,
            deliver_below, skipped, port, sealed)), changed AS ("
    ),
    update!(),
    "), states AS (
        UPDATE state SET sealed = new.sealed FROM new JOIN changed USING (id)
        WHERE state.id = new.id),
    given AS (SELECT cid, id FROM unnest($12::bytea[], $13::bigint[]) AS given(cid, id)
        JOIN changed USING (id)),
    retired AS (DELETE FROM cid USING changed
        WHERE cid.id = changed.id AND cid.cid <> ALL ($12::bytea[])),
    cids AS (INSERT INTO cid SELECT cid, id FROM given
        ON CONFLICT (cid) DO UPDATE SET id = excluded.id WHERE cid.id <> excluded.id)
    SELECT id FROM changed"
);

pub(super) const INSERT: &str = concat!(marks!(
    ", $11::bytea[], $14::smallint[], $15::bytea[]) AS new(id, former, version, send_epoch,
            send_below, deliver_epoch, deliver_below, skipped, port, sealed, slot, peer)),
        changed AS (
            INSERT INTO mark SELECT id, version, $10, send_epoch, send_below, deliver_epoch,
                deliver_below, skipped, port FROM new
            ON CONFLICT DO NOTHING RETURNING id),
        states AS (
            INSERT INTO state SELECT id, slot, peer, sealed FROM new JOIN changed USING (id)),
        given AS (SELECT cid, id FROM unnest($12::bytea[], $13::bigint[]) AS given(cid, id)
            JOIN changed USING (id)),
        cids AS (INSERT INTO cid SELECT cid, id FROM given
            ON CONFLICT (cid) DO UPDATE SET id = excluded.id)
        SELECT id FROM changed"
));

pub(super) const REMOVE: &str = "
    WITH gone AS (
        DELETE FROM mark USING unnest($1::bigint[], $2::bigint[]) AS old(id, version)
        WHERE mark.id = old.id AND mark.version = old.version RETURNING mark.id),
    states AS (DELETE FROM state USING gone WHERE state.id = gone.id),
    cids AS (DELETE FROM cid USING gone WHERE cid.id = gone.id)
    SELECT id FROM gone";

pub(super) const CHAINS: &str = "
    INSERT INTO chain (peer, evidence) SELECT * FROM unnest($1::bytea[], $2::bytea[])
    ON CONFLICT (peer) DO UPDATE SET evidence = excluded.evidence, presented = current_date";

pub(super) const READ_BACK: &str =
    "SELECT id, version, writer FROM mark WHERE id = ANY ($1::bigint[])";
