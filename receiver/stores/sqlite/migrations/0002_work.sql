-- `routed` is the seq up to which deliveries have been looked at by a worker; what lies above is new.
INSERT INTO marks (name, value) VALUES ('routed', 0);

CREATE TABLE work_items (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    delivery_seq INTEGER NOT NULL,
    handler      TEXT    NOT NULL,
    state        TEXT    NOT NULL CHECK (state IN ('waiting', 'running', 'done', 'dead')),
    attempts     INTEGER NOT NULL, -- how many have begun
    lost         INTEGER NOT NULL DEFAULT 0, -- how many of them ended with their worker
    trigger      TEXT    NOT NULL, -- of the first attempt; the later ones are retries
    due_at       INTEGER NOT NULL, -- when it may be claimed: waiting, when it is due; running, when its lease ends
    worker       TEXT, -- who holds the lease
    last_error   TEXT
) STRICT;

CREATE INDEX work_by_delivery ON work_items (delivery_seq, state);

CREATE INDEX work_open ON work_items (handler, due_at) WHERE state IN ('waiting', 'running');

CREATE INDEX work_lost ON work_items (handler, due_at) WHERE state IN ('waiting', 'running') AND lost > 0;

CREATE TABLE attempts (
    work_id    INTEGER NOT NULL,
    number     INTEGER NOT NULL,
    trigger    TEXT    NOT NULL,
    started_at INTEGER, -- unknown for a lost one
    ended_at   INTEGER NOT NULL,
    outcome    TEXT    NOT NULL,
    error      TEXT,
    traceback  TEXT,
    overdue    INTEGER NOT NULL,
    PRIMARY KEY (work_id, number)
) STRICT, WITHOUT ROWID;
