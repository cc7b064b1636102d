"""Every SQL statement, by the port that uses it. A list of rows travels as one JSON array: one statement, one step.

Between two steps of a statement Python's interpreter lock is given away and taken again, which under load can
cost milliseconds; that is why nothing here runs row by row where a batch can be long.
"""

OPEN = "state IN ('waiting', 'running')"
"""Spelled as in the partial index, or SQLite does not use that."""

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

SAME_BODY = "SELECT body = ? FROM bodies WHERE seq = ?"

QUARANTINE = "INSERT INTO quarantine (received_at, reason, detail, key, headers, body) VALUES (?, ?, ?, ?, ?, ?)"

PROBE = """
INSERT INTO marks (name, value) VALUES ('probe', ?)
ON CONFLICT (name) DO UPDATE SET value = excluded.value
"""

# --- WorkQueue

ROUTED = "SELECT value FROM marks WHERE name = 'routed'"

ADVANCE_ROUTED = "UPDATE marks SET value = ? WHERE name = 'routed' AND value = ?"

_STORED = "d.seq, d.key, d.type, d.job_id, d.webhook_id, d.success, d.received_at, d.duplicates, b.headers, b.body"

UNROUTED = f"""
SELECT {_STORED}
FROM (
    SELECT *, sum(size) OVER (ORDER BY seq) - size AS bytes_before
    FROM (SELECT * FROM deliveries WHERE seq > :after ORDER BY seq LIMIT :limit)
) AS d JOIN bodies AS b ON b.seq = d.seq
WHERE d.bytes_before + d.size <= :max_bytes OR d.bytes_before = 0
ORDER BY d.seq
"""

INSERT_WORK = """
INSERT INTO work_items (delivery_seq, handler, state, attempts, trigger, due_at, worker)
SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), 'running', 1, 'delivery', :due_at, :worker
FROM json_each(:work)
"""


def _due(condition: str) -> str:
    return f"""
    SELECT w.id, w.state, d.size
    FROM work_items AS w JOIN deliveries AS d ON d.seq = w.delivery_seq
    WHERE w.handler = :handler AND w.{OPEN} AND w.due_at <= :now {condition}
        AND w.lost + (w.state = 'running') BETWEEN :least_lost AND :most_lost
    ORDER BY w.due_at LIMIT :limit
    """


DUE = _due("")

DUE_LOST = _due("AND w.lost > 0")
"""For what was lost at least twice: the condition is that of a partial index, which holds hardly anything."""

CLAIM = """
UPDATE work_items SET state = 'running', attempts = attempts + 1, worker = :worker, due_at = :due_at
WHERE id IN (SELECT value FROM json_each(:ids))
"""

LOSE_ATTEMPTS = """
INSERT INTO attempts (work_id, number, trigger, ended_at, outcome, error, overdue)
SELECT id, attempts, iif(attempts = 1, trigger, 'retry'), :now, 'lost', :error, 0
FROM work_items WHERE id IN (SELECT value FROM json_each(:ids))
"""

COUNT_LOST = """
UPDATE work_items SET lost = lost + 1, last_error = :error WHERE id IN (SELECT value FROM json_each(:ids))
"""

CLAIMED = f"""
SELECT w.id, w.handler, w.attempts, w.lost, w.trigger, {_STORED}
FROM json_each(:ids) AS ids
JOIN work_items AS w ON w.id = ids.value
JOIN deliveries AS d ON d.seq = w.delivery_seq
JOIN bodies AS b ON b.seq = d.seq
ORDER BY ids.key
"""

RENEW = """
UPDATE work_items SET due_at = :due_at
WHERE id IN (SELECT value FROM json_each(:ids)) AND worker = :worker AND state = 'running'
"""

SETTLE = """
UPDATE work_items SET state = s.state, due_at = s.due_at, worker = NULL, last_error = s.error
FROM (
    SELECT
        json_extract(value, '$[0]') AS work_id, json_extract(value, '$[1]') AS worker,
        json_extract(value, '$[2]') AS number, json_extract(value, '$[3]') AS state,
        json_extract(value, '$[4]') AS due_at, json_extract(value, '$[5]') AS error
    FROM json_each(?)
) AS s
WHERE work_items.id = s.work_id AND work_items.worker = s.worker AND work_items.attempts = s.number
    AND work_items.state = 'running'
RETURNING id, attempts
"""

INSERT_ATTEMPTS = """
INSERT INTO attempts (work_id, number, trigger, started_at, ended_at, outcome, error, traceback, overdue)
SELECT
    json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'),
    json_extract(value, '$[3]'), json_extract(value, '$[4]'), json_extract(value, '$[5]'),
    json_extract(value, '$[6]'), json_extract(value, '$[7]'), json_extract(value, '$[8]')
FROM json_each(?)
"""

GIVE_BACK = """
UPDATE work_items SET state = 'waiting', attempts = attempts - 1, worker = NULL, due_at = :now
WHERE id IN (SELECT value FROM json_each(:ids)) AND worker = :worker AND state = 'running'
"""

TAKE_OVER = f"UPDATE work_items SET due_at = :now WHERE {OPEN} AND state = 'running' AND worker = :worker"


def _next_due(condition: str) -> str:
    return f"""
    SELECT due_at FROM work_items
    WHERE handler = ? AND {OPEN} {condition} AND lost + (state = 'running') BETWEEN ? AND ?
    ORDER BY due_at LIMIT 1
    """


NEXT_DUE = _next_due("")

NEXT_DUE_LOST = _next_due("AND lost > 0")

# --- Reports

STATE = f"""
CASE
    WHEN d.seq > ({ROUTED}) THEN 'new'
    WHEN EXISTS (SELECT 1 FROM work_items AS w WHERE w.delivery_seq = d.seq AND w.{OPEN}) THEN 'working'
    WHEN EXISTS (SELECT 1 FROM work_items AS w WHERE w.delivery_seq = d.seq AND w.state = 'dead') THEN 'dead'
    ELSE 'done'
END
"""

_SUMMARY = (
    "d.seq, d.key, d.type, d.job_id, d.webhook_id, d.success, d.received_at, d.size, d.duplicates, "
    f"{STATE} AS state"
)

LIST = f"""
SELECT * FROM (SELECT {_SUMMARY} FROM deliveries AS d WHERE d.seq < :before {{conditions}})
{{state}} ORDER BY seq DESC LIMIT :rows
"""

KEYS_FROM = "SELECT key FROM deliveries WHERE key >= ? AND key < ? ORDER BY key LIMIT ?"

DETAIL = f"""
SELECT {_SUMMARY}, b.headers, b.body
FROM deliveries AS d JOIN bodies AS b ON b.seq = d.seq WHERE d.key = ?
"""

WORK_OF = "SELECT handler, state, attempts, last_error, due_at FROM work_items WHERE delivery_seq = ? ORDER BY id"

UNFINISHED = f"""
SELECT
    (SELECT count(*) FROM deliveries WHERE seq > ({ROUTED}))
    + (SELECT count(DISTINCT delivery_seq) FROM work_items INDEXED BY work_open WHERE {OPEN})
"""
