-- Work items gain lanes, holding back, skipping, and the difference between having been claimed and having begun.
CREATE TABLE work (
    id           INTEGER PRIMARY KEY AUTOINCREMENT, -- grows in the order of arrival, within a lane too
    delivery_seq INTEGER NOT NULL,
    handler      TEXT    NOT NULL,
    state        TEXT    NOT NULL
        CHECK (state IN ('waiting', 'queued', 'held', 'running', 'done', 'dead', 'skipped')),
    attempts     INTEGER NOT NULL, -- how many have been claimed
    uncounted    INTEGER NOT NULL DEFAULT 0, -- how many of them do not count against the schedule
    lost         INTEGER NOT NULL DEFAULT 0, -- how many ended with their worker
    deaths       INTEGER NOT NULL DEFAULT 0, -- how many of those are known to have begun
    suspect      INTEGER NOT NULL DEFAULT 0, -- it may be what killed its workers
    begun        INTEGER NOT NULL DEFAULT 0, -- running, and known to have begun
    trigger      TEXT    NOT NULL, -- of the first attempt; the later ones are retries
    due_at       INTEGER NOT NULL, -- waiting: when it may be claimed; held: the next look; running: the lease's end
    worker       TEXT, -- who holds the lease
    lane         TEXT,
    heads_lane   INTEGER NOT NULL DEFAULT 0, -- the others of its lane are queued behind it
    hold_until   INTEGER, -- when a held item runs at the latest
    note         TEXT, -- what a held item waits for
    last_error   TEXT
) STRICT;

INSERT INTO work (
    id, delivery_seq, handler, state, attempts, uncounted, lost, suspect, trigger, due_at, worker, last_error
)
SELECT id, delivery_seq, handler, state, attempts, lost, lost, lost > 0, trigger, due_at, worker, last_error
FROM work_items;

DROP TABLE work_items;
ALTER TABLE work RENAME TO work_items;

CREATE INDEX work_by_delivery ON work_items (delivery_seq, state);
CREATE INDEX work_waiting ON work_items (handler, due_at) WHERE state = 'waiting';
CREATE INDEX work_suspects ON work_items (handler, due_at) WHERE state = 'waiting' AND suspect = 1;
CREATE INDEX work_held ON work_items (handler, due_at) WHERE state = 'held';
CREATE INDEX work_running ON work_items (due_at, handler) WHERE state = 'running';
CREATE INDEX lane_queue ON work_items (handler, lane, id) WHERE state = 'queued';
-- No lane has two heads: that two of its items run at one time cannot even be written down.
CREATE UNIQUE INDEX lane_heads ON work_items (handler, lane) WHERE heads_lane = 1;

-- What operators decided about handlers, and when a handler with a rate may run next.
CREATE TABLE handlers (
    name        TEXT PRIMARY KEY,
    switch      TEXT NOT NULL DEFAULT 'on' CHECK (switch IN ('on', 'paused', 'disabled')),
    paced_until INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

-- What a handler did once and must not do again.
CREATE TABLE onces (
    handler TEXT    NOT NULL,
    key     TEXT    NOT NULL,
    at      INTEGER NOT NULL,
    PRIMARY KEY (handler, key)
) STRICT, WITHOUT ROWID;
