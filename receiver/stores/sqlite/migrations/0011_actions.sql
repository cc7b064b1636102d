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

-- The action that decided last about a work item: few items have one.
ALTER TABLE work_items ADD COLUMN action_id INTEGER;
CREATE INDEX work_by_action ON work_items (action_id) WHERE action_id IS NOT NULL;

-- The limits of the worker's handlers, as JSON.
ALTER TABLE workers ADD COLUMN limits TEXT NOT NULL DEFAULT '{}';
