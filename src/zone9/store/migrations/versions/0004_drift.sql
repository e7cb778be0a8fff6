-- Drift: what was last read back as asked, what differs from it since, who did it, and how it ended.

ALTER TABLE resources
    -- the values of our fields when truth last equalled intent, and when that was measured
    ADD COLUMN applied jsonb,
    ADD COLUMN applied_read_at timestamptz;

-- By the database's clock; `at` is by Proxmox's. Only the one can be compared with times of our own.
ALTER TABLE acts ADD COLUMN seen_at timestamptz NOT NULL DEFAULT z9_now();

-- One row for each time that a field was found changed from outside. `act` is the one that names who it was, once
-- known; the lists that tell of it may come after the drift was noticed, and even after it was set back.
CREATE TABLE drifts (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    resource text NOT NULL REFERENCES resources (id),
    field text NOT NULL,
    intent_version bigint NOT NULL,
    asked jsonb,
    applied jsonb,
    read jsonb,
    class text NOT NULL,
    traces text[] NOT NULL,
    region text,
    vmid integer,
    act text,
    who text,
    what text,
    acted_at timestamptz,
    noticed_at timestamptz NOT NULL,
    closed_at timestamptz,
    ending text CHECK (ending IN ('set_back', 'by_itself', 'asked', 'ended')),
    -- false once a person has said to go on after an oscillation
    counted boolean NOT NULL DEFAULT true,
    CHECK ((closed_at IS NULL) = (ending IS NULL))
);
CREATE UNIQUE INDEX drifts_open ON drifts (resource, field) WHERE closed_at IS NULL;
CREATE INDEX drifts_of ON drifts (resource, id);
CREATE INDEX drifts_unnamed ON drifts (region, vmid) WHERE who IS NULL;
