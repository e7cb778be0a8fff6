-- What the passes over a region know: where they are in its logs, every guest it lists, and who did what to which.

-- One row a region. `good_at`: when the last pass began whose silence about a VM means something; `frozen`: why the
-- newest pass is not such a one, in sentences by code.
CREATE TABLE sweeps (
    region text PRIMARY KEY REFERENCES resources (id),
    at timestamptz,
    good_at timestamptz,
    frozen jsonb NOT NULL DEFAULT '[]',
    passes bigint NOT NULL DEFAULT 0,
    requests integer NOT NULL DEFAULT 0,
    reads integer NOT NULL DEFAULT 0,
    seconds double precision NOT NULL DEFAULT 0,
    skew_seconds double precision,
    nodes integer NOT NULL DEFAULT 0,
    gaps bigint NOT NULL DEFAULT 0,
    -- where the log and the tasks were read to
    log_seen jsonb NOT NULL DEFAULT '{}',
    tasks_since bigint NOT NULL DEFAULT 0,
    running jsonb NOT NULL DEFAULT '{}',
    -- the rights that the last good pass was made with
    rights text,
    -- other rights, seen since then, which no self-test has found to be enough yet
    rights_seen text,
    rights_seen_at timestamptz
);

-- Every VM and container that a region lists, ours or not. Facts about a machine, never an intent.
CREATE TABLE guests (
    region text NOT NULL REFERENCES resources (id),
    vmid integer NOT NULL,
    type text NOT NULL CHECK (type IN ('qemu', 'lxc')),
    node text NOT NULL,
    name text,
    status text NOT NULL,
    tags text[] NOT NULL DEFAULT '{}',
    pool text,
    template boolean NOT NULL DEFAULT false,
    listed jsonb NOT NULL,
    project text REFERENCES projects (id),
    first_seen_at timestamptz NOT NULL DEFAULT z9_now(),
    changed_at timestamptz NOT NULL DEFAULT z9_now(),
    -- since which good pass it is not listed; evidence of absence, not its proof
    missing_since timestamptz,
    -- a full read is due: its row changed, somebody did something, or the log had a gap
    suspect boolean NOT NULL DEFAULT true,
    read_at timestamptz,
    digest text,
    uuid text,
    marker text,
    config jsonb,
    PRIMARY KEY (region, vmid)
);
CREATE INDEX guests_to_read ON guests (region, suspect DESC, read_at NULLS FIRST) WHERE missing_since IS NULL;
CREATE INDEX guests_uuid ON guests (region, uuid) WHERE missing_since IS NULL AND uuid IS NOT NULL;
CREATE INDEX guests_project ON guests (project) WHERE project IS NOT NULL;

-- What others did to guests, from Proxmox's tasks and cluster log. `touched` are names of config keys or a task's
-- type: values may be secrets and are not kept.
CREATE TABLE acts (
    region text NOT NULL REFERENCES resources (id),
    uid text NOT NULL,
    vmid integer NOT NULL,
    at timestamptz NOT NULL,
    who text NOT NULL,
    what text NOT NULL,
    touched text[] NOT NULL,
    PRIMARY KEY (region, uid)
);
CREATE INDEX acts_of ON acts (region, vmid, at);
CREATE INDEX acts_at ON acts (at);
