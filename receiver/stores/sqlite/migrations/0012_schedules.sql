-- Scheduled runs are deliveries that a worker makes. A column's check cannot be changed in place, so the table is
-- written anew (SQLite manual, ALTER TABLE).
CREATE TABLE kept (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT, -- grows in the order of commits; never used again
    key         TEXT    NOT NULL, -- no other row has it: the storing transaction asks
    type        TEXT    NOT NULL,
    job_id      TEXT,
    webhook_id  TEXT,
    success     INTEGER,
    received_at INTEGER NOT NULL, -- microseconds since 1970, UTC, as all moments here
    size        INTEGER NOT NULL,
    duplicates  INTEGER NOT NULL DEFAULT 0,
    origin      TEXT    NOT NULL DEFAULT 'sender' CHECK (origin IN ('sender', 'import', 'backfill', 'schedule')),
    pruned_at   INTEGER -- when its row in `bodies` was removed
) STRICT;

INSERT INTO kept SELECT
    seq, key, type, job_id, webhook_id, success, received_at, size, duplicates, origin, pruned_at
FROM deliveries;

-- The seqs go on behind the last one that was ever given, also where its delivery was pruned.
DELETE FROM sqlite_sequence WHERE name = 'kept';
INSERT INTO sqlite_sequence (name, seq) SELECT 'kept', seq FROM sqlite_sequence WHERE name = 'deliveries';

DROP TABLE deliveries;
ALTER TABLE kept RENAME TO deliveries;

CREATE INDEX deliveries_by_job ON deliveries (job_id, seq) WHERE job_id IS NOT NULL;
-- What ends a job, so that whether one has ended is seen without looking at its pages.
CREATE INDEX job_ends ON deliveries (job_id, seq)
    WHERE type GLOB '*.completed' OR type GLOB '*.failed' OR type GLOB '*.cancelled';
-- Few come by backfill, and a worker asks for each delivery whether its event did.
CREATE INDEX deliveries_backfilled ON deliveries (key) WHERE origin = 'backfill';
-- The runs of one handler lie together, in the order of time.
CREATE INDEX deliveries_scheduled ON deliveries (key) WHERE origin = 'schedule';

-- When each handler with a schedule runs next. `schedule` is how it is written in the code.
CREATE TABLE schedules (
    handler  TEXT    PRIMARY KEY,
    schedule TEXT    NOT NULL,
    next_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
