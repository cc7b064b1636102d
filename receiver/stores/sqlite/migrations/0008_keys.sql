-- Keys get an index of their own, which follows behind (delivery_keys.py): it took a page of the log for each delivery.
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
    origin      TEXT    NOT NULL DEFAULT 'sender' CHECK (origin IN ('sender', 'import', 'backfill')),
    pruned_at   INTEGER -- when its row in `bodies` was removed
) STRICT;

INSERT INTO kept SELECT
    seq, key, type, job_id, webhook_id, success, received_at, size, duplicates, origin, pruned_at
FROM deliveries;

-- The seqs go on behind the last one that was ever given, also where its delivery was pruned.
DELETE FROM sqlite_sequence WHERE name = 'kept';
INSERT INTO sqlite_sequence (name, seq) SELECT 'kept', seq FROM sqlite_sequence WHERE name = 'deliveries';

-- Keys as `packed_key` writes them. It holds all deliveries up to the mark `keyed`, and some behind it.
CREATE TABLE delivery_keys (
    key ANY     PRIMARY KEY,
    seq INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO delivery_keys SELECT packed_key(key), seq FROM deliveries ORDER BY 1;
INSERT INTO marks (name, value) SELECT 'keyed', coalesce(max(seq), 0) FROM deliveries;

DROP TABLE deliveries;
ALTER TABLE kept RENAME TO deliveries;

CREATE INDEX deliveries_by_job ON deliveries (job_id, seq) WHERE job_id IS NOT NULL;
-- What ends a job, so that whether one has ended is seen without looking at its pages.
CREATE INDEX job_ends ON deliveries (job_id, seq)
    WHERE type GLOB '*.completed' OR type GLOB '*.failed' OR type GLOB '*.cancelled';
-- Few come by backfill, and a worker asks for each delivery whether its event did.
CREATE INDEX deliveries_backfilled ON deliveries (key) WHERE origin = 'backfill';
