-- Pre-shared keys for `lightseal proxy server --psk-table`. Load it once, as the owner of the
-- database:
--
--     lightseal proxy key-table | psql DATABASE
--
-- The proxies call two functions and read no table, so that whoever takes over a proxy's account
-- gets the keys of those identities that he knows, and no list.

BEGIN;

CREATE SCHEMA lightseal_keys;
SET LOCAL search_path = lightseal_keys;

-- The keys. To revoke one, set `revoked` or delete the row.
CREATE TABLE psk (
    identity bytea PRIMARY KEY CHECK (octet_length(identity) BETWEEN 1 AND 256),
    key bytea NOT NULL CHECK (octet_length(key) BETWEEN 16 AND 128),
    revoked boolean NOT NULL DEFAULT false);

-- Identities whose keys were changed, revoked or deleted, for a day. An empty identity is all of
-- them. `changed` is the transaction, and not a time: transactions become visible in another order
-- than that of their times.
CREATE TABLE change (
    changed xid8 NOT NULL DEFAULT pg_current_xact_id(),
    identity bytea NOT NULL,
    at timestamptz NOT NULL DEFAULT now());
CREATE INDEX ON change (changed);
CREATE INDEX ON change (at);

CREATE FUNCTION note_change() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = lightseal_keys, pg_temp AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        INSERT INTO change (identity)
            SELECT former.identity FROM former LEFT JOIN latter USING (identity)
            WHERE (former.key, former.revoked) IS DISTINCT FROM (latter.key, latter.revoked);
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO change (identity) SELECT identity FROM former;
    ELSE
        INSERT INTO change (identity) VALUES ('');
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

-- The keys of at most a thousand identities.
CREATE FUNCTION find(identities bytea[]) RETURNS TABLE (identity bytea, key bytea)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = lightseal_keys, pg_temp AS $$
    SELECT psk.identity, psk.key FROM psk
    WHERE psk.identity = ANY (identities) AND NOT psk.revoked AND cardinality(identities) <= 1000
$$;

-- The identities whose keys have changed since a snapshot.
CREATE FUNCTION changes(since pg_snapshot) RETURNS SETOF bytea
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = lightseal_keys, pg_temp AS $$
    SELECT change.identity FROM change
    WHERE change.changed >= pg_snapshot_xmin(since)
        AND NOT pg_visible_in_snapshot(change.changed, since)
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
GRANT EXECUTE ON FUNCTION find(bytea[]), changes(pg_snapshot) TO lightseal_proxy_keys;

COMMIT;
