"""The SQL of those who write, by port. Rows travel together, as one JSON array or many to a statement.

Between two steps of a statement Python's interpreter lock is given away and taken again, which under load can
cost milliseconds; that is why nothing here runs row by row where a batch can be long.
"""

OPEN = "state IN ('waiting', 'queued', 'held', 'running')"

# --- DeliveryLog

LAST_SEQ = "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'deliveries'), 0)"

_DELIVERY_ROW = "(?, ?, ?, ?, ?, ?, ?, ?)"
_BODY_ROW = "(?, ?, ?)"


def insert_deliveries(rows: int) -> str:
    """Insert rows whose key is not stored; the others are passed over."""
    return (
        "INSERT INTO deliveries (seq, key, type, job_id, webhook_id, success, received_at, size) VALUES "
        + ", ".join([_DELIVERY_ROW] * rows)
        + " ON CONFLICT (key) DO NOTHING"
    )


def insert_bodies(rows: int) -> str:
    """Insert the headers and bodies of rows that were inserted."""
    return "INSERT INTO bodies (seq, headers, body) VALUES " + ", ".join([_BODY_ROW] * rows)


INSERTED_SINCE = "SELECT seq FROM deliveries WHERE seq > ?"

COUNT_DUPLICATE = "UPDATE deliveries SET duplicates = duplicates + 1 WHERE key = ? RETURNING seq"

KEPT = """
SELECT d.seq, d.size, b.body, b.coding FROM deliveries AS d LEFT JOIN bodies AS b ON b.seq = d.seq WHERE d.key = ?
"""

QUARANTINE = "INSERT INTO quarantine (received_at, reason, detail, key, headers, body) VALUES (?, ?, ?, ?, ?, ?)"

PROBE = """
INSERT INTO marks (name, value) VALUES ('probe', ?)
ON CONFLICT (name) DO UPDATE SET value = excluded.value
"""

# --- WorkQueue

ROUTED = "SELECT value FROM marks WHERE name = 'routed'"

ANY_BACKFILLED = "SELECT EXISTS (SELECT 1 FROM marks WHERE name = 'backfilled')"

MARK_BACKFILLED = "INSERT INTO marks (name, value) VALUES ('backfilled', 1) ON CONFLICT (name) DO NOTHING"

ADVANCE_ROUTED = "UPDATE marks SET value = ? WHERE name = 'routed' AND value = ?"

STORED = (
    "d.seq, d.key, d.type, d.job_id, d.webhook_id, d.success, d.received_at, d.duplicates, d.origin, "
    "b.headers, b.body, b.coding"
)

UNROUTED = f"""
SELECT d.size, {STORED}
FROM deliveries AS d JOIN bodies AS b ON b.seq = d.seq
WHERE d.seq > :after ORDER BY d.seq LIMIT :limit
"""

SWITCHES = "SELECT name, switch FROM handlers WHERE switch <> 'on'"

LANE_HEADS = """
SELECT w.handler, w.lane FROM json_each(:lanes) AS l
JOIN work_items AS w
    ON w.handler = json_extract(l.value, '$[0]') AND w.lane = json_extract(l.value, '$[1]') AND w.heads_lane = 1
"""

_WORK_ROW = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


def insert_work(rows: int) -> str:
    """Insert work items."""
    return (
        "INSERT INTO work_items (delivery_seq, handler, state, attempts, started, trigger, due_at, lease_until, "
        "recheck_at, hold_until, worker, lane, heads_lane, note) VALUES " + ", ".join([_WORK_ROW] * rows)
    )


_RECORDED_ROW = "(?, ?, ?, ?, ?, ?)"


def record_work(rows: int) -> str:
    """Insert work items that have run already."""
    return (
        "INSERT INTO work_items (delivery_seq, handler, state, attempts, trigger, last_error) VALUES "
        + ", ".join([_RECORDED_ROW] * rows)
    )


WITH_BODIES = """
SELECT seq FROM deliveries WHERE seq IN (SELECT value FROM json_each(?)) AND pruned_at IS NULL
"""

BACKFILLED = """
SELECT key FROM deliveries WHERE key IN (SELECT value FROM json_each(?)) AND origin = 'backfill'
"""

# Of all handlers: one that is not in this worker's code must not leave its work running for ever.
LEASES_ENDED = "SELECT id FROM work_items WHERE state = 'running' AND lease_until <= ? LIMIT ?"

LOSE_ATTEMPTS = """
INSERT INTO attempts (work_id, number, trigger, ended_at, outcome, error, overdue)
SELECT id, attempts, iif(attempts = 1, trigger, 'retry'), :now, 'lost', :error, 0
FROM work_items WHERE id IN (SELECT value FROM json_each(:ids))
"""

# Suspicious as in decisions.py; in an UPDATE every column still has its old value on the right.
LOSE = """
UPDATE work_items SET
    state = 'waiting', due_at = lease_until, lease_until = NULL, worker = NULL, started = 0, last_error = :error,
    uncounted = uncounted + 1, lost = lost + 1, deaths = deaths + started,
    suspect = (deaths + started >= 1 OR lost + 1 >= 2)
WHERE id IN (SELECT value FROM json_each(:ids))
"""

SKIPPABLE = """
SELECT EXISTS (SELECT 1 FROM work_items WHERE handler = :handler AND state = 'waiting')
    OR EXISTS (SELECT 1 FROM work_items WHERE handler = :handler AND state = 'queued')
    OR EXISTS (SELECT 1 FROM work_items WHERE handler = :handler AND state = 'held')
"""


def skip(state: str) -> str:
    """Skip work items of a handler that are in this state."""
    return f"""
    UPDATE work_items SET state = 'skipped', due_at = NULL, recheck_at = NULL, heads_lane = 0
    WHERE id IN (SELECT id FROM work_items WHERE handler = ? AND state = '{state}' LIMIT ?)
    """


RUNNING = "SELECT count(*) FROM work_items WHERE handler = ? AND state = 'running'"

PACED_UNTIL = "SELECT paced_until FROM handlers WHERE name = ?"

PACE = """
INSERT INTO handlers (name, paced_until) VALUES (?, ?)
ON CONFLICT (name) DO UPDATE SET paced_until = excluded.paced_until
"""

DUE = """
SELECT w.id, d.size FROM work_items AS w JOIN deliveries AS d ON d.seq = w.delivery_seq
WHERE w.handler = :handler AND w.state = 'waiting' AND w.due_at <= :now AND w.suspect = 0
ORDER BY w.due_at LIMIT :limit
"""

DUE_SUSPECTS = """
SELECT w.id, d.size FROM work_items AS w JOIN deliveries AS d ON d.seq = w.delivery_seq
WHERE w.handler = :handler AND w.state = 'waiting' AND w.suspect = 1 AND w.due_at <= :now
ORDER BY w.due_at LIMIT :limit
"""

CLAIM = """
UPDATE work_items SET
    state = 'running', due_at = NULL, lease_until = :until, worker = :worker, attempts = attempts + 1,
    started = id IN (SELECT value FROM json_each(:starting))
WHERE id IN (SELECT value FROM json_each(:ids))
"""

CLAIMED = f"""
SELECT w.id, w.handler, w.attempts, w.uncounted, w.deaths, w.trigger, {STORED}
FROM json_each(:ids) AS ids
JOIN work_items AS w ON w.id = ids.value
JOIN deliveries AS d ON d.seq = w.delivery_seq
JOIN bodies AS b ON b.seq = d.seq
ORDER BY ids.key
"""

MARK_STARTED = """
UPDATE work_items SET started = 1
WHERE id IN (SELECT value FROM json_each(:ids)) AND worker = :worker AND state = 'running'
"""

CLEAR_STARTED = """
UPDATE work_items SET started = 0
WHERE id IN (SELECT value FROM json_each(:ids)) AND worker = :worker AND state = 'running'
"""

RENEW = """
UPDATE work_items SET lease_until = :until
WHERE id IN (SELECT value FROM json_each(:ids)) AND worker = :worker AND state = 'running'
"""

HOLDERS = """
SELECT id, worker, attempts, lane FROM work_items
WHERE id IN (SELECT value FROM json_each(?)) AND state = 'running'
"""

# Most items end so, and this takes less time than SETTLE.
FINISH = """
UPDATE work_items SET
    state = 'done', lease_until = NULL, worker = NULL, started = 0, last_error = NULL, heads_lane = 0
WHERE id IN (SELECT value FROM json_each(?))
"""

SETTLE = """
UPDATE work_items SET
    state = s.state, due_at = s.due_at, lease_until = NULL, worker = NULL, started = 0,
    last_error = s.error, deaths = deaths + s.died,
    heads_lane = iif(s.state = 'waiting' OR (s.state = 'dead' AND s.holds_lane), heads_lane, 0)
FROM (
    SELECT
        json_extract(value, '$[0]') AS work_id, json_extract(value, '$[1]') AS state,
        json_extract(value, '$[2]') AS due_at, json_extract(value, '$[3]') AS error,
        json_extract(value, '$[4]') AS holds_lane, json_extract(value, '$[5]') AS died
    FROM json_each(?)
) AS s
WHERE work_items.id = s.work_id
"""

PROMOTE = """
UPDATE work_items SET state = 'waiting', heads_lane = 1, due_at = :now
WHERE id IN (
    SELECT (
        SELECT q.id FROM work_items AS q
        WHERE q.handler = l.handler AND q.lane = l.lane AND q.state = 'queued' ORDER BY q.id LIMIT 1
    )
    FROM (
        SELECT DISTINCT handler, lane FROM work_items
        WHERE id IN (SELECT value FROM json_each(:ids)) AND lane IS NOT NULL
    ) AS l
    WHERE NOT EXISTS (
        SELECT 1 FROM work_items AS h WHERE h.handler = l.handler AND h.lane = l.lane AND h.heads_lane = 1
    )
)
"""
"""Let the first of those queued in the lanes of these items head its lane, where no other does."""

_ATTEMPT_ROW = "(?, ?, ?, ?, ?, ?, ?, ?, ?)"


def insert_attempts(rows: int) -> str:
    """Insert attempts that have ended."""
    return (
        "INSERT INTO attempts (work_id, number, trigger, started_at, ended_at, outcome, error, traceback, overdue) "
        "VALUES " + ", ".join([_ATTEMPT_ROW] * rows)
    )


RELEASE_LEASES = """
UPDATE work_items SET
    state = 'waiting', due_at = :now, lease_until = NULL, worker = NULL, started = 0, attempts = attempts - 1
WHERE id IN (SELECT value FROM json_each(:ids)) AND worker = :worker AND state = 'running'
"""

EXPIRE_LEASES = "UPDATE work_items SET lease_until = :now WHERE state = 'running' AND worker = :worker"

SUSPECT_DUE = "SELECT 1 FROM work_items WHERE handler = ? AND state = 'waiting' AND suspect = 1 AND due_at <= ?"

NEXT_LEASE_END = "SELECT min(lease_until) FROM work_items WHERE state = 'running'"

NEXT_DUE = """
SELECT min(due_at) FROM work_items WHERE handler = ? AND state = 'waiting'
UNION ALL SELECT min(recheck_at) FROM work_items WHERE handler = ? AND state = 'held'
"""

HELD = """
SELECT w.recheck_at, w.id, w.handler, d.type, d.job_id, d.received_at, w.hold_until
FROM work_items AS w JOIN deliveries AS d ON d.seq = w.delivery_seq
WHERE w.handler = ? AND w.state = 'held' AND w.recheck_at <= ? ORDER BY w.recheck_at LIMIT ?
"""

LAST_PAGE = "SELECT received_at FROM deliveries WHERE job_id = ? AND type = ? ORDER BY seq DESC LIMIT 1"

UNROUTED_PAGE = f"SELECT key FROM deliveries WHERE job_id = ? AND type = ? AND seq > ({ROUTED}) LIMIT 1"

# The newest first: where one is open, that is mostly among them.
OPEN_PAGE = """
SELECT d.key FROM deliveries AS d JOIN work_items AS w ON w.delivery_seq = d.seq
WHERE d.job_id = ? AND d.type = ? AND w.state IN ('waiting', 'queued', 'held', 'running')
    AND w.handler IN (SELECT value FROM json_each(?))
ORDER BY d.seq DESC LIMIT 1
"""

RECHECK = "UPDATE work_items SET recheck_at = ?, note = ? WHERE id = ? AND state = 'held'"

# In a lane it takes its turn, which comes at once where nobody is at the head.
RELEASE = """
UPDATE work_items SET
    state = iif(lane IS NULL, 'waiting', 'queued'), due_at = iif(lane IS NULL, :now, NULL), recheck_at = NULL,
    note = :note
WHERE id = :id AND state = 'held'
"""

ONCE = """
INSERT INTO once_keys (handler, key, asked_at, expires_at) VALUES (?, ?, ?, ?)
ON CONFLICT (handler, key) DO UPDATE SET asked_at = excluded.asked_at, expires_at = excluded.expires_at
    WHERE expires_at <= excluded.asked_at
"""

AVAILABLE_ONCE_KEYS = """
SELECT value FROM json_each(:keys) WHERE NOT EXISTS (
    SELECT 1 FROM once_keys
    WHERE handler = :handler AND key = value AND (expires_at IS NULL OR expires_at > :now)
)
"""

SET_ONCE_EXPIRY = "UPDATE once_keys SET expires_at = ? WHERE handler = ? AND key = ?"

# --- Controls

RETRY = """
UPDATE work_items SET
    state = iif(lane IS NULL OR heads_lane, 'waiting', 'queued'),
    due_at = iif(lane IS NULL OR heads_lane, :now, NULL), recheck_at = NULL,
    uncounted = attempts, lost = 0, deaths = 0, suspect = 0, hold_until = NULL
WHERE id IN (SELECT value FROM json_each(:ids)) AND state IN ('dead', 'skipped', 'waiting', 'held')
    AND EXISTS (SELECT 1 FROM deliveries WHERE seq = delivery_seq AND pruned_at IS NULL)
"""

BURY = """
UPDATE work_items SET
    last_error = iif(state = 'dead', last_error, :reason), state = 'dead', due_at = NULL, recheck_at = NULL,
    heads_lane = 0
WHERE id IN (SELECT value FROM json_each(:ids))
    AND (state IN ('waiting', 'queued', 'held') OR (state = 'dead' AND heads_lane))
"""

SWITCH = """
INSERT INTO handlers (name, switch) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET switch = excluded.switch
"""

_IMPORTED_ROW = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


def import_deliveries(rows: int) -> str:
    """Insert rows from outside whose key is not stored; the others are passed over."""
    return (
        "INSERT INTO deliveries "
        "(seq, key, type, job_id, webhook_id, success, received_at, size, duplicates, origin) VALUES "
        + ", ".join([_IMPORTED_ROW] * rows)
        + " ON CONFLICT (key) DO NOTHING"
    )


RESTORED = "UPDATE deliveries SET pruned_at = NULL WHERE seq = ?"

FREE = "DELETE FROM quarantine WHERE id = ?"

# --- Maintenance

REMOVE_BODIES = "DELETE FROM bodies WHERE seq IN (SELECT value FROM json_each(?))"

NOTE_PRUNED = "UPDATE deliveries SET pruned_at = :now WHERE seq IN (SELECT value FROM json_each(:seqs))"

REMOVE_ATTEMPTS = """
DELETE FROM attempts WHERE work_id IN (
    SELECT id FROM work_items WHERE delivery_seq IN (SELECT value FROM json_each(?))
)
"""

REMOVE_WORK = "DELETE FROM work_items WHERE delivery_seq IN (SELECT value FROM json_each(?))"

REMOVE_DELIVERIES = "DELETE FROM deliveries WHERE seq IN (SELECT value FROM json_each(?))"

REMOVE_ONCE_KEY = "DELETE FROM once_keys WHERE handler = ? AND key = ?"

COMPRESSED = "SELECT coalesce((SELECT value FROM marks WHERE name = 'compressed'), 0)"

TO_COMPRESS = """
SELECT d.seq, d.size, b.body FROM deliveries AS d JOIN bodies AS b ON b.seq = d.seq
WHERE d.seq > :after AND d.seq <= :last AND d.size >= :least AND b.coding = 0 ORDER BY d.seq
"""

COMPRESS = "UPDATE bodies SET body = ?, coding = ? WHERE seq = ? AND coding = 0"

ADVANCE_COMPRESSED = """
INSERT INTO marks (name, value) VALUES ('compressed', ?)
ON CONFLICT (name) DO UPDATE SET value = max(value, excluded.value)
"""
