-- Bodies are apart from what listings and filters read, so that those stay dense however long bodies are.
CREATE TABLE deliveries (
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

CREATE INDEX deliveries_by_job ON deliveries (job_id, seq) WHERE job_id IS NOT NULL;
-- What ends a job, so that whether one has ended is seen without looking at its pages.
CREATE INDEX job_ends ON deliveries (job_id, seq)
    WHERE type GLOB '*.completed' OR type GLOB '*.failed' OR type GLOB '*.cancelled';
-- Few come by backfill, and a worker asks for each delivery whether its event did.
CREATE INDEX deliveries_backfilled ON deliveries (key) WHERE origin = 'backfill';
-- The scheduled runs of one handler are together, in the order of time.
CREATE INDEX deliveries_scheduled ON deliveries (key) WHERE origin = 'schedule';
-- Few deliveries end the check of a monitor, among the pages of many crawls.
CREATE INDEX monitor_checks ON deliveries (seq) WHERE type = 'monitor.check.completed';

-- A long body of a new delivery is in a file beside the database until it is moved into it.
CREATE TABLE bodies (
    seq     INTEGER PRIMARY KEY,
    headers TEXT NOT NULL, -- a JSON list of [name, value]
    body    BLOB NOT NULL, -- or its place in a file, of which the first 8 bytes name the file
    coding  INTEGER NOT NULL DEFAULT 0 -- 0 as it came, 1 deflated (RFC 1950), 2 in a file
) STRICT;

CREATE INDEX bodies_beside ON bodies (substr(body, 1, 8)) WHERE coding = 2;

-- An index of keys that follows later (delivery_keys.py): at once, it would take a page of the log for each delivery.
-- It holds all deliveries up to the mark `keyed`, and some after it. Two keys may have the same bytes here, so the row
-- of `deliveries` decides.
CREATE TABLE delivery_keys (
    key ANY     NOT NULL, -- as `index_key` writes it
    seq INTEGER NOT NULL,
    PRIMARY KEY (key, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE quarantine (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    received_at INTEGER NOT NULL,
    reason      TEXT    NOT NULL,
    detail      TEXT    NOT NULL,
    key         TEXT,
    headers     TEXT    NOT NULL,
    body        BLOB    NOT NULL
) STRICT;

CREATE TABLE work_items (
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
    last_error   TEXT,
    action_id    INTEGER -- the action that decided last about it: few items have one
) STRICT;

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
-- Work that is dead or skipped is rare. Pages list it, the newest first, and count it by handler.
CREATE INDEX work_dead ON work_items (id, handler, delivery_seq) WHERE state = 'dead';
CREATE INDEX work_skipped ON work_items (id, handler) WHERE state = 'skipped';
CREATE INDEX work_by_action ON work_items (action_id) WHERE action_id IS NOT NULL;

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

-- Attempts that ended with their worker or its lease are counted for whoever watches, and are few.
CREATE INDEX attempts_lost ON attempts (work_id) WHERE outcome = 'lost';

-- What operators decided about handlers, and when a handler with a rate may run next.
CREATE TABLE handlers (
    name        TEXT PRIMARY KEY,
    switch      TEXT NOT NULL DEFAULT 'on' CHECK (switch IN ('on', 'paused', 'disabled')),
    paced_until INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

-- Every handler that ever had a work item has a row, so that all items need not be searched for one that had none.
CREATE TRIGGER new_handler AFTER INSERT ON work_items
WHEN NOT EXISTS (SELECT 1 FROM handlers WHERE name = new.handler)
BEGIN
    INSERT INTO handlers (name) VALUES (new.handler);
END;

-- What a handler asked for once, and may not do again before it lapses; NULL for never.
CREATE TABLE once_keys (
    handler    TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    asked_at   INTEGER NOT NULL,
    expires_at INTEGER,
    PRIMARY KEY (handler, key)
) STRICT, WITHOUT ROWID;

-- When each handler with a schedule runs next. `schedule` is how it is written in the code.
CREATE TABLE schedules (
    handler  TEXT    PRIMARY KEY,
    schedule TEXT    NOT NULL,
    next_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- One row for each job, so that a listing does not go through the deliveries of all jobs. They follow later
-- (JobRows in log.py): jobs are what their deliveries up to the mark `summed` say.
CREATE TABLE jobs (
    last_seq INTEGER PRIMARY KEY, -- its last delivery up to the mark, which has its id
    first_at INTEGER NOT NULL,    -- when its first delivery came
    last_at  INTEGER NOT NULL,    -- when its last one up to the mark came
    end_type TEXT                 -- the type of the first delivery that ends it
) STRICT;

-- How many deliveries arrived in a minute, up to the mark `summed`. They follow later with the rows of `jobs`, and are
-- forgotten after two days.
CREATE TABLE arrival_minutes (
    minute INTEGER PRIMARY KEY, -- since 1970
    count  INTEGER NOT NULL
) STRICT;

-- How many attempts ended in a minute, by handler, outcome and power of two of their microseconds. They are counted in
-- the transaction that records the attempts, and forgotten after two days.
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
    seen_at    INTEGER NOT NULL, -- the worker says again and again that it lives
    limits     TEXT    NOT NULL DEFAULT '{}' -- of its handlers, as JSON
) STRICT, WITHOUT ROWID;

-- What people did, by the console or the command line. It is forgotten after 90 days.
CREATE TABLE actions (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    actor    TEXT    NOT NULL,
    verb     TEXT    NOT NULL,
    about    TEXT    NOT NULL,
    choice   TEXT    NOT NULL, -- the filter or the ids, as JSON
    planned  INTEGER NOT NULL,
    seen     INTEGER NOT NULL DEFAULT 0,
    changed  INTEGER NOT NULL DEFAULT 0,
    began_at INTEGER NOT NULL,
    seen_at  INTEGER NOT NULL, -- when it last came further
    ended_at INTEGER,
    error    TEXT
) STRICT;

-- Single numbers. Up to these seqs, deliveries are routed by a worker (`routed`), in the index of words (`indexed`), in
-- the index of keys (`keyed`) and in the rows of jobs (`summed`). What `keyed` will be when the keys that are moved now
-- have been is `keys_moving`, and `keys_place` and `keys_part` say how far that is (delivery_keys.py). `store` names the
-- files of bodies of this database, so that it takes no others for its own. The index of words itself is made when it
-- is switched on, as not every SQLite can make one.
CREATE TABLE marks (
    name  TEXT    PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO marks (name, value) VALUES
    ('routed', 0), ('indexed', 0), ('keyed', 0), ('summed', 0), ('keys_moving', 0), ('keys_place', 0), ('keys_part', 0),
    ('store', random() & 4294967295);
