-- Bodies lie apart from what listings and filters read, so that those stay dense however long bodies are.
CREATE TABLE deliveries (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT, -- grows in the order of commits; never used again
    key         TEXT    NOT NULL UNIQUE,
    type        TEXT    NOT NULL,
    job_id      TEXT,
    webhook_id  TEXT,
    success     INTEGER,
    received_at INTEGER NOT NULL, -- microseconds since 1970, UTC, as all moments here
    size        INTEGER NOT NULL,
    duplicates  INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX deliveries_by_job ON deliveries (job_id, seq) WHERE job_id IS NOT NULL;

CREATE TABLE bodies (
    seq     INTEGER PRIMARY KEY,
    headers TEXT NOT NULL, -- a JSON list of [name, value]
    body    BLOB NOT NULL
) STRICT;

CREATE TABLE quarantine (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    received_at INTEGER NOT NULL,
    reason      TEXT    NOT NULL,
    detail      TEXT    NOT NULL,
    key         TEXT,
    headers     TEXT    NOT NULL,
    body        BLOB    NOT NULL
) STRICT;

-- Single numbers: `probe` is the last write of a readiness check.
CREATE TABLE marks (
    name  TEXT    PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
