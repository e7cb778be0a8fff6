-- The record: who asked for what, each entry's hash over the one before it; and how long each version took.

-- `entry` is the text that the hash covers, so nothing of it can be changed beside the hash.
CREATE TABLE audit (
    seq bigint PRIMARY KEY,
    entry text NOT NULL,
    hash text NOT NULL,
    project text GENERATED ALWAYS AS (entry::jsonb ->> 'project') STORED
);
CREATE INDEX audit_of ON audit (project, seq);

-- Appends one entry. The lock is held to the end of the transaction, so entries commit in their order, without a gap.
CREATE FUNCTION z9_audit(what jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    before record;
    written text;
BEGIN
    PERFORM pg_advisory_xact_lock(8617202311);
    SELECT seq, hash INTO before FROM audit ORDER BY seq DESC LIMIT 1;
    written := (what || jsonb_build_object(
        'seq', coalesce(before.seq, 0) + 1,
        'at', to_char(z9_now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')))::text;
    INSERT INTO audit (seq, entry, hash) VALUES (
        coalesce(before.seq, 0) + 1, written,
        encode(sha256(convert_to(coalesce(before.hash, repeat('0', 64)) || E'\n' || written, 'UTF8')), 'hex'));
END $$;

CREATE FUNCTION z9_never_removed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'check_violation';
END $$;
CREATE TRIGGER audit_append BEFORE UPDATE OR DELETE ON audit FOR EACH ROW EXECUTE FUNCTION z9_never_removed();

-- Every new version is an entry, whoever wrote it: no caller can forget. At the end of the transaction, so that
-- the lock is held for as short as can be.
CREATE FUNCTION z9_audit_intent() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    about record;
    old jsonb;
BEGIN
    SELECT kind, project INTO about FROM resources WHERE id = NEW.resource;
    SELECT spec INTO old FROM intent_history WHERE resource = NEW.resource AND version = NEW.version - 1;
    PERFORM z9_audit(jsonb_build_object(
        'actor', NEW.actor, 'action', CASE WHEN NEW.version = 1 THEN 'create' ELSE NEW.cause END,
        'kind', about.kind, 'project', about.project, 'resource', NEW.resource, 'name', NEW.name,
        'intent_version', NEW.version,
        'changed', (SELECT coalesce(jsonb_object_agg(key, value), '{}') FROM jsonb_each(NEW.spec)
                    WHERE old IS NULL OR value IS DISTINCT FROM old -> key)));
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER history_audited AFTER INSERT ON intent_history DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION z9_audit_intent();

-- How long each version took from being asked for to being read back.
CREATE TABLE convergences (
    resource text NOT NULL,
    intent_version bigint NOT NULL,
    kind text NOT NULL,
    project text,
    region text,
    action text NOT NULL CHECK (action IN ('create', 'change', 'delete')),
    asked_at timestamptz NOT NULL,
    applied_at timestamptz NOT NULL,
    PRIMARY KEY (resource, intent_version)
);
CREATE INDEX convergences_at ON convergences (applied_at);

CREATE FUNCTION z9_converged() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- What exists nowhere but here is applied before its history is written: it has no row there yet, and none here.
    INSERT INTO convergences
    SELECT NEW.id, NEW.applied_version, NEW.kind, NEW.project,
           CASE WHEN NEW.kind = 'region' THEN NEW.id ELSE NEW.resolved ->> 'region' END,
           CASE WHEN NEW.phase = 'deleted' THEN 'delete' WHEN OLD.applied_version IS NULL THEN 'create' ELSE 'change' END,
           history.at, NEW.applied_at
    FROM intent_history AS history WHERE history.resource = NEW.id AND history.version = NEW.applied_version
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER resources_converged AFTER UPDATE OF applied_version ON resources FOR EACH ROW
    WHEN (NEW.applied_version IS DISTINCT FROM OLD.applied_version) EXECUTE FUNCTION z9_converged();

-- What was there before this migration: its history becomes the beginning of the record, oldest first.
DO $$
DECLARE
    one record;
BEGIN
    FOR one IN SELECT h.*, r.kind, r.project FROM intent_history h JOIN resources r ON r.id = h.resource
               ORDER BY h.at, h.resource, h.version LOOP
        PERFORM z9_audit(jsonb_build_object(
            'actor', one.actor, 'action', CASE WHEN one.version = 1 THEN 'create' ELSE one.cause END,
            'kind', one.kind, 'project', one.project, 'resource', one.resource, 'name', one.name,
            'intent_version', one.version, 'asked_at', one.at, 'taken_over', true));
    END LOOP;
END $$;
