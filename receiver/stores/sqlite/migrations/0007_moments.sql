-- Each moment of a work item gets a column of its own, and no state goes without the moment that it needs.
CREATE TABLE work (
    id           INTEGER PRIMARY KEY AUTOINCREMENT, -- grows in the order of arrival, within a lane too
    delivery_seq INTEGER NOT NULL,
    handler      TEXT    NOT NULL,
    state        TEXT    NOT NULL
        CHECK (state IN ('waiting', 'queued', 'held', 'running', 'done', 'dead', 'skipped')),
    attempts     INTEGER NOT NULL, -- how many have been claimed
    uncounted    INTEGER NOT NULL DEFAULT 0, -- how many of them do not count against the schedule
    lost         INTEGER NOT NULL DEFAULT 0, -- how many ended with their worker
    deaths       INTEGER NOT NULL DEFAULT 0, -- how many of those are known to have started
    suspect      INTEGER NOT NULL DEFAULT 0, -- it may be what killed its workers
    started      INTEGER NOT NULL DEFAULT 0, -- running, and known to have started
    trigger      TEXT    NOT NULL, -- of the first attempt; the later ones are retries
    due_at       INTEGER CHECK ((due_at IS NOT NULL) = (state = 'waiting')), -- when it may be claimed
    lease_until  INTEGER CHECK ((lease_until IS NOT NULL) = (state = 'running')), -- when the lease ends
    recheck_at   INTEGER CHECK ((recheck_at IS NOT NULL) = (state = 'held')), -- when to look for its pages again
    hold_until   INTEGER, -- when a held item runs at the latest
    worker       TEXT, -- who holds the lease
    lane         TEXT,
    heads_lane   INTEGER NOT NULL DEFAULT 0, -- the others of its lane are queued behind it
    note         TEXT, -- what a held item waits for
    last_error   TEXT
) STRICT;

INSERT INTO work (
    id, delivery_seq, handler, state, attempts, uncounted, lost, deaths, suspect, started, trigger,
    due_at, lease_until, recheck_at, hold_until, worker, lane, heads_lane, note, last_error
)
SELECT
    id, delivery_seq, handler, state, attempts, uncounted, lost, deaths, suspect, begun, trigger,
    iif(state = 'waiting', due_at, NULL), iif(state = 'running', due_at, NULL), iif(state = 'held', due_at, NULL),
    hold_until, worker, lane, heads_lane, note, last_error
FROM work_items;

-- The ids go on behind the last one that was ever given, also where its item was pruned.
DELETE FROM sqlite_sequence WHERE name = 'work';
INSERT INTO sqlite_sequence (name, seq) SELECT 'work', seq FROM sqlite_sequence WHERE name = 'work_items';

DROP TABLE work_items;
ALTER TABLE work RENAME TO work_items;

CREATE INDEX work_by_delivery ON work_items (delivery_seq, state);
CREATE INDEX work_waiting ON work_items (handler, due_at) WHERE state = 'waiting';
CREATE INDEX work_suspects ON work_items (handler, due_at) WHERE state = 'waiting' AND suspect = 1;
CREATE INDEX work_held ON work_items (handler, recheck_at) WHERE state = 'held';
CREATE INDEX work_running ON work_items (lease_until, handler) WHERE state = 'running';
CREATE INDEX lane_queue ON work_items (handler, lane, id) WHERE state = 'queued';
-- No lane has two heads: that two of its items run at one time cannot even be written down.
CREATE UNIQUE INDEX lane_heads ON work_items (handler, lane) WHERE heads_lane = 1;
-- What failed is looked for among much more that did not.
CREATE INDEX work_failed ON work_items (handler, delivery_seq) WHERE state = 'dead' OR last_error IS NOT NULL;

-- What a handler asked for once, and may not do again before it lapses; NULL for never.
CREATE TABLE once_keys (
    handler    TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    asked_at   INTEGER NOT NULL,
    expires_at INTEGER,
    PRIMARY KEY (handler, key)
) STRICT, WITHOUT ROWID;

INSERT INTO once_keys SELECT handler, key, at, until FROM onces;
DROP TABLE onces;
