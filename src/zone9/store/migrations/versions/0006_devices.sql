-- Who may pull: identities of appliances, the tokens by which they get one, and what an owner has to be told.

-- `change` rises with every change of a row, so that each process can read what is new to it.
CREATE SEQUENCE device_changes;
CREATE TABLE devices (
    id text PRIMARY KEY,
    resource text NOT NULL REFERENCES resources (id),
    product text NOT NULL,
    uuid text NOT NULL,
    secret_hash bytea NOT NULL UNIQUE,
    -- enrolled: it has not authenticated yet; frozen: two have claimed the same token; revoked: for good
    state text NOT NULL DEFAULT 'enrolled' CHECK (state IN ('enrolled', 'active', 'frozen', 'revoked')),
    change bigint NOT NULL DEFAULT nextval('device_changes'),
    enrolled_at timestamptz NOT NULL DEFAULT z9_now(),
    first_seen_at timestamptz,
    -- when its first config was reported as applied and proven
    proven_at timestamptz,
    ended_at timestamptz
);
CREATE INDEX devices_of ON devices (resource);
CREATE INDEX devices_change ON devices (change);

-- A token is kept as its hash and bound to one machine. `expires_at` counts from the start that was read back.
CREATE TABLE bootstrap_tokens (
    hash bytea PRIMARY KEY,
    resource text NOT NULL REFERENCES resources (id),
    product text NOT NULL,
    uuid text NOT NULL,
    state text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'used', 'frozen', 'void')),
    device text REFERENCES devices (id),
    minted_at timestamptz NOT NULL DEFAULT z9_now(),
    expires_at timestamptz NOT NULL,
    CHECK ((device IS NOT NULL) OR state IN ('open', 'void'))
);
CREATE INDEX bootstrap_tokens_of ON bootstrap_tokens (resource);

-- What somebody has to look at. An open alarm of the same kind about the same thing counts up and is no new row.
CREATE TABLE alarms (
    id text PRIMARY KEY,
    kind text NOT NULL,
    project text REFERENCES projects (id),
    resource text NOT NULL REFERENCES resources (id),
    text text NOT NULL,
    words jsonb NOT NULL DEFAULT '{}',
    times integer NOT NULL DEFAULT 1,
    first_at timestamptz NOT NULL DEFAULT z9_now(),
    last_at timestamptz NOT NULL DEFAULT z9_now(),
    acknowledged_at timestamptz,
    acknowledged_by text,
    CHECK ((acknowledged_at IS NULL) = (acknowledged_by IS NULL))
);
CREATE UNIQUE INDEX alarms_open ON alarms (resource, kind) WHERE acknowledged_at IS NULL;
CREATE INDEX alarms_project ON alarms (project, id);
