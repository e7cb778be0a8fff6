-- The ground: tenancy, intent and its history, jobs, writes and proofs, events.
-- Times are the database's own, through z9_now(), which tests may offset: no process's clock decides anything.

CREATE TABLE z9_clock (shift interval NOT NULL);
INSERT INTO z9_clock VALUES (interval '0');
CREATE FUNCTION z9_now() RETURNS timestamptz LANGUAGE sql VOLATILE AS
    $$ SELECT clock_timestamp() + (SELECT shift FROM z9_clock) $$;

-- One row: who we are. A restored database gets a new epoch, so that nothing from before it is believed.
CREATE TABLE installation (
    id text PRIMARY KEY,
    epoch integer NOT NULL DEFAULT 1,
    only_row boolean NOT NULL DEFAULT true UNIQUE CHECK (only_row)
);

CREATE TABLE projects (
    id text PRIMARY KEY,
    name text NOT NULL UNIQUE,
    quota jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT z9_now()
);

CREATE TABLE api_tokens (
    id text PRIMARY KEY,
    hash bytea NOT NULL UNIQUE,
    name text NOT NULL,
    project text REFERENCES projects (id),
    role text NOT NULL CHECK (role IN ('admin', 'owner', 'operator', 'member', 'viewer')),
    created_at timestamptz NOT NULL DEFAULT z9_now(),
    last_used_at timestamptz,
    revoked_at timestamptz,
    CHECK (project IS NOT NULL OR role = 'admin')
);

CREATE TABLE resources (
    id text PRIMARY KEY,
    kind text NOT NULL,
    project text REFERENCES projects (id),
    name text NOT NULL,
    -- intent: written by one store function
    spec jsonb NOT NULL,
    resolved jsonb NOT NULL DEFAULT '{}',
    intent_version bigint NOT NULL DEFAULT 1,
    phase text NOT NULL DEFAULT 'live' CHECK (phase IN ('live', 'deleting', 'deleted')),
    owner text REFERENCES resources (id),
    owner_key text,
    owner_version bigint,
    created_at timestamptz NOT NULL DEFAULT z9_now(),
    changed_at timestamptz NOT NULL DEFAULT z9_now(),
    deleted_at timestamptz,
    -- truth and verdict: written by one store function
    origin text NOT NULL DEFAULT 'managed' CHECK (origin IN ('managed', 'adopted')),
    applied_version bigint,
    applied_at timestamptz,
    observed jsonb,
    observed_at timestamptz,
    convergence text NOT NULL DEFAULT 'pending'
        CHECK (convergence IN ('pending', 'applying', 'pending_restart', 'applied', 'failed', 'deleting')),
    health text NOT NULL DEFAULT 'unknown'
        CHECK (health IN ('ok', 'degraded', 'drifted', 'oscillating', 'missing', 'duplicate', 'unknown')),
    observed_intent_version bigint,
    measured_at timestamptz,
    witness text,
    message jsonb,
    diffs jsonb NOT NULL DEFAULT '[]',
    -- what zone9 wrote down to find its own work again
    facts jsonb NOT NULL DEFAULT '{}',
    -- the loop's own
    fence bigint NOT NULL DEFAULT 0,
    wake_seq bigint NOT NULL DEFAULT 0,
    failures integer NOT NULL DEFAULT 0,
    given_up_version bigint,
    next_reconcile_at timestamptz,
    waiting_for text,
    CHECK ((project IS NULL) = (kind IN ('region', 'plan', 'image')))
);
CREATE UNIQUE INDEX resources_name ON resources (kind, coalesce(project, ''), name) WHERE phase <> 'deleted';
CREATE UNIQUE INDEX resources_child ON resources (owner, owner_key) WHERE phase <> 'deleted';
CREATE INDEX resources_due ON resources (next_reconcile_at) WHERE phase <> 'deleted' AND next_reconcile_at IS NOT NULL;
CREATE INDEX resources_listed ON resources (kind, project, id) WHERE phase <> 'deleted';
CREATE INDEX resources_waiting ON resources (waiting_for, next_reconcile_at) WHERE waiting_for IS NOT NULL;
CREATE INDEX resources_vm ON resources ((facts ->> 'vmid')) WHERE kind = 'server' AND phase <> 'deleted';

CREATE TABLE intent_history (
    resource text NOT NULL REFERENCES resources (id),
    version bigint NOT NULL,
    name text NOT NULL,
    spec jsonb NOT NULL,
    resolved jsonb NOT NULL,
    phase text NOT NULL,
    actor text NOT NULL,
    cause text NOT NULL,
    at timestamptz NOT NULL DEFAULT z9_now(),
    PRIMARY KEY (resource, version)
);

-- What a resource stands on: a network in use cannot be deleted.
CREATE TABLE edges (
    resource text NOT NULL REFERENCES resources (id),
    needs text NOT NULL REFERENCES resources (id),
    PRIMARY KEY (resource, needs)
);
CREATE INDEX edges_needs ON edges (needs);

CREATE TABLE jobs (
    id text PRIMARY KEY,
    kind text NOT NULL,
    resource text NOT NULL REFERENCES resources (id),
    project text,
    intent_version bigint NOT NULL,
    status text NOT NULL DEFAULT 'queued'
        CHECK (status IN ('queued', 'running', 'waiting', 'succeeded', 'failed', 'canceled', 'superseded')),
    actor text NOT NULL,
    needs text,
    attempt bigint NOT NULL DEFAULT 0,
    steps jsonb NOT NULL DEFAULT '[]',
    notes jsonb NOT NULL DEFAULT '[]',
    evidence jsonb,
    error jsonb,
    created_at timestamptz NOT NULL DEFAULT z9_now(),
    started_at timestamptz,
    finished_at timestamptz
);
CREATE INDEX jobs_open ON jobs (resource, intent_version) WHERE status IN ('queued', 'running', 'waiting');
CREATE INDEX jobs_listed ON jobs (project, id);
CREATE UNIQUE INDEX jobs_one_verify ON jobs (resource)
    WHERE kind = 'verify' AND status IN ('queued', 'running', 'waiting');

-- A terminal job never changes again, whatever drifts later.
CREATE FUNCTION z9_job_is_terminal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'job % is % and cannot change', OLD.id, OLD.status USING ERRCODE = 'check_violation';
END $$;
CREATE TRIGGER jobs_terminal BEFORE UPDATE ON jobs FOR EACH ROW
    WHEN (OLD.status IN ('succeeded', 'failed', 'canceled', 'superseded')) EXECUTE FUNCTION z9_job_is_terminal();

-- Committed before a write leaves; open until its outcome is known.
CREATE TABLE writes (
    id text PRIMARY KEY,
    resource text NOT NULL REFERENCES resources (id),
    job text REFERENCES jobs (id),
    intent_version bigint NOT NULL,
    fence bigint NOT NULL,
    step text NOT NULL,
    target text NOT NULL,
    node text NOT NULL,
    request jsonb NOT NULL,
    upid text,
    opened_at timestamptz NOT NULL DEFAULT z9_now(),
    closed_at timestamptz,
    outcome text CHECK (outcome IN ('done', 'failed', 'refused', 'not_sent', 'not_applied', 'replaced')),
    exit_text text,
    CHECK ((closed_at IS NULL) = (outcome IS NULL))
);
CREATE INDEX writes_open ON writes (resource) WHERE closed_at IS NULL;
CREATE INDEX writes_recent ON writes (resource, closed_at);

-- Write, read back: both halves of one write. Append-only.
CREATE TABLE proofs (
    id text PRIMARY KEY,
    resource text NOT NULL REFERENCES resources (id),
    job text,
    intent_version bigint NOT NULL,
    step text NOT NULL,
    request jsonb NOT NULL,
    upid text,
    exit_text text,
    read_back jsonb NOT NULL,
    digest text,
    read_at timestamptz NOT NULL,
    at timestamptz NOT NULL DEFAULT z9_now()
);
CREATE INDEX proofs_of ON proofs (resource, id);
CREATE FUNCTION z9_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'check_violation';
END $$;
CREATE TRIGGER proofs_append BEFORE UPDATE ON proofs FOR EACH ROW EXECUTE FUNCTION z9_append_only();
CREATE TRIGGER history_append BEFORE UPDATE ON intent_history FOR EACH ROW EXECUTE FUNCTION z9_append_only();

-- Numbers commit out of order, so readers stop below the oldest transaction still open (see events.py).
CREATE TABLE events (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    txid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    kind text NOT NULL,
    project text,
    resource text,
    data jsonb NOT NULL DEFAULT '{}',
    at timestamptz NOT NULL DEFAULT z9_now()
);
CREATE INDEX events_at ON events (at);
CREATE INDEX events_order ON events (txid, seq);

-- VMIDs by constraint: an id once used is never used again in its region.
CREATE TABLE vmids (
    region text NOT NULL REFERENCES resources (id),
    vmid integer NOT NULL,
    resource text REFERENCES resources (id),
    state text NOT NULL CHECK (state IN ('held', 'burnt')),
    why text NOT NULL DEFAULT '',
    at timestamptz NOT NULL DEFAULT z9_now(),
    PRIMARY KEY (region, vmid)
);

CREATE TABLE addresses (
    network text NOT NULL REFERENCES resources (id),
    address inet NOT NULL,
    resource text REFERENCES resources (id),
    state text NOT NULL CHECK (state IN ('held', 'resting', 'reserved')),
    why text NOT NULL DEFAULT '',
    at timestamptz NOT NULL DEFAULT z9_now(),
    PRIMARY KEY (network, address)
);
CREATE INDEX addresses_of ON addresses (resource);

-- Limits across workers (clones of one template and storage).
CREATE TABLE leases (
    name text NOT NULL,
    slot integer NOT NULL,
    holder text NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (name, slot)
);
CREATE INDEX leases_holder ON leases (holder);

CREATE TABLE secrets (
    id text PRIMARY KEY,
    sealed bytea NOT NULL,
    at timestamptz NOT NULL DEFAULT z9_now()
);

CREATE TABLE idempotency (
    token text NOT NULL,
    key text NOT NULL,
    body_hash bytea NOT NULL,
    status integer,
    headers jsonb,
    body bytea,
    job text,
    at timestamptz NOT NULL DEFAULT z9_now(),
    PRIMARY KEY (token, key)
);
CREATE INDEX idempotency_at ON idempotency (at);
