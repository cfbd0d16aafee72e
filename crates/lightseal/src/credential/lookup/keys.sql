-- Keys for `lightseal proxy server --psk-table` and `--allow-table`. Load it once, as the owner of the
-- database:
--
--     lightseal proxy key-table | psql DATABASE
--
-- The proxies call four functions and read no table, so that whoever takes over a proxy's account
-- gets what belongs to those identities that he knows, and no list.

BEGIN;

CREATE SCHEMA lightseal_keys;
SET LOCAL search_path = lightseal_keys;

-- Pre-shared keys. To revoke one, set `revoked` or delete the row.
CREATE TABLE psk (
    identity bytea PRIMARY KEY CHECK (octet_length(identity) BETWEEN 1 AND 256),
    key bytea NOT NULL CHECK (octet_length(key) BETWEEN 16 AND 128),
    revoked boolean NOT NULL DEFAULT false);

-- Public keys and names of certificates that are let in, in the form of access lists: `spki:` and
-- the SHA-256 hash of a public key, or `subject:` and a name. To revoke one, set `revoked` or delete
-- the row.
CREATE TABLE peer (
    identity text PRIMARY KEY CHECK (
        identity ~ '^(spki:[0-9a-f]{64}|subject:([!-$&-~]|%[0-9a-f]{2})+)$'
        AND octet_length(identity) <= 1024),
    revoked boolean NOT NULL DEFAULT false);

-- Identities that were changed, revoked or deleted, for a day, by their table. An empty identity is
-- all of them. `changed` is the transaction, and not a time: transactions become visible in another
-- order than that of their times.
CREATE TABLE change (
    changed xid8 NOT NULL DEFAULT pg_current_xact_id(),
    kind text NOT NULL,
    identity text NOT NULL,
    at timestamptz NOT NULL DEFAULT now());
CREATE INDEX ON change (changed);
CREATE INDEX ON change (at);

-- How an identity is noted there.
CREATE FUNCTION noted(identity bytea) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT encode(identity, 'hex') $$;
CREATE FUNCTION noted(identity text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT identity $$;

CREATE FUNCTION note_change() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = lightseal_keys, pg_temp AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        INSERT INTO change (kind, identity)
            SELECT TG_TABLE_NAME, noted(former.identity)
            FROM former LEFT JOIN latter USING (identity)
            WHERE former.* IS DISTINCT FROM latter.*;
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO change (kind, identity) SELECT TG_TABLE_NAME, noted(identity) FROM former;
    ELSE
        INSERT INTO change (kind, identity) VALUES (TG_TABLE_NAME, '');
    END IF;
    -- Nobody waits for another transaction that does the same.
    DELETE FROM change WHERE ctid IN (
        SELECT ctid FROM change WHERE at < now() - interval '1 day'
        LIMIT 10000 FOR UPDATE SKIP LOCKED);
    RETURN NULL;
END $$;

CREATE TRIGGER note_update AFTER UPDATE ON psk
    REFERENCING OLD TABLE AS former NEW TABLE AS latter
    FOR EACH STATEMENT EXECUTE FUNCTION note_change();
CREATE TRIGGER note_delete AFTER DELETE ON psk
    REFERENCING OLD TABLE AS former
    FOR EACH STATEMENT EXECUTE FUNCTION note_change();
CREATE TRIGGER note_truncate AFTER TRUNCATE ON psk
    FOR EACH STATEMENT EXECUTE FUNCTION note_change();
CREATE TRIGGER note_update AFTER UPDATE ON peer
    REFERENCING OLD TABLE AS former NEW TABLE AS latter
    FOR EACH STATEMENT EXECUTE FUNCTION note_change();
CREATE TRIGGER note_delete AFTER DELETE ON peer
    REFERENCING OLD TABLE AS former
    FOR EACH STATEMENT EXECUTE FUNCTION note_change();
CREATE TRIGGER note_truncate AFTER TRUNCATE ON peer
    FOR EACH STATEMENT EXECUTE FUNCTION note_change();

-- The keys of at most a thousand identities.
CREATE FUNCTION find(identities bytea[]) RETURNS TABLE (identity bytea, key bytea)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = lightseal_keys, pg_temp AS $$
    SELECT psk.identity, psk.key FROM psk
    WHERE psk.identity = ANY (identities) AND NOT psk.revoked AND cardinality(identities) <= 1000
$$;

-- Which of at most a thousand public keys and names are let in.
CREATE FUNCTION find_peers(identities text[]) RETURNS SETOF text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = lightseal_keys, pg_temp AS $$
    SELECT peer.identity FROM peer
    WHERE peer.identity = ANY (identities) AND NOT peer.revoked
        AND cardinality(identities) <= 1000
$$;

-- The identities whose keys have changed since a snapshot.
CREATE FUNCTION changes(since pg_snapshot) RETURNS SETOF bytea
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = lightseal_keys, pg_temp AS $$
    SELECT decode(change.identity, 'hex') FROM change
    WHERE change.changed >= pg_snapshot_xmin(since)
        AND NOT pg_visible_in_snapshot(change.changed, since) AND change.kind = 'psk'
$$;

-- The public keys and names that have changed since a snapshot.
CREATE FUNCTION peer_changes(since pg_snapshot) RETURNS SETOF text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = lightseal_keys, pg_temp AS $$
    SELECT change.identity FROM change
    WHERE change.changed >= pg_snapshot_xmin(since)
        AND NOT pg_visible_in_snapshot(change.changed, since) AND change.kind = 'peer'
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA lightseal_keys FROM PUBLIC;

-- Proxies are members of this role: GRANT lightseal_proxy_keys TO proxy;
DO $$
BEGIN
    CREATE ROLE lightseal_proxy_keys NOLOGIN;
EXCEPTION WHEN duplicate_object THEN
    NULL; -- Another database of this cluster has the tables, too.
END $$;
GRANT USAGE ON SCHEMA lightseal_keys TO lightseal_proxy_keys;
GRANT EXECUTE ON FUNCTION find(bytea[]), changes(pg_snapshot), find_peers(text[]),
    peer_changes(pg_snapshot) TO lightseal_proxy_keys;

COMMIT;
