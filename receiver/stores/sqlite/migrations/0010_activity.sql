-- How many attempts ended in a minute, by handler, outcome and power of two of their microseconds. They are counted
-- in the transaction that records the attempts, and forgotten after two days.
CREATE TABLE handler_minutes (
    minute  INTEGER NOT NULL, -- since 1970
    handler TEXT    NOT NULL,
    outcome TEXT    NOT NULL,
    bucket  INTEGER NOT NULL,
    count   INTEGER NOT NULL,
    PRIMARY KEY (minute, handler, outcome, bucket)
) STRICT, WITHOUT ROWID;

-- A row for each worker that runs. It shows who works; who may take whose leases is decided elsewhere.
CREATE TABLE workers (
    name       TEXT    PRIMARY KEY,
    machine    TEXT    NOT NULL,
    pid        INTEGER NOT NULL,
    version    TEXT    NOT NULL,
    started_at INTEGER NOT NULL,
    seen_at    INTEGER NOT NULL -- the worker says again and again that it lives
) STRICT, WITHOUT ROWID;
