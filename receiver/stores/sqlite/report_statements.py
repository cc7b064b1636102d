"""The SQL of those who only read: listings, counts, and what tools ask."""

from receiver.stores.sqlite.statements import OPEN, ROUTED, STORED

STATE = f"""
CASE
    WHEN d.seq > ({ROUTED}) THEN 'new'
    WHEN EXISTS (SELECT 1 FROM work_items AS w WHERE w.delivery_seq = d.seq AND w.{OPEN}) THEN 'working'
    WHEN EXISTS (SELECT 1 FROM work_items AS w WHERE w.delivery_seq = d.seq AND w.state = 'dead') THEN 'dead'
    ELSE 'done'
END
"""

_BEHIND_SEQ = (
    "d.key, d.type, d.job_id, d.webhook_id, d.success, d.received_at, d.size, d.duplicates, "
    f"{STATE} AS state, d.origin, d.pruned_at"
)

SUMMARY = f"d.seq, {_BEHIND_SEQ}"

LIST = f"""
SELECT * FROM (SELECT {SUMMARY} FROM deliveries AS d WHERE d.seq < :before {{conditions}})
{{state}} ORDER BY seq DESC LIMIT :rows
"""

# The index of words gives its rows in the order of their ids, and only as many as are fetched.
LIST_FOUND = f"""
SELECT * FROM (
    SELECT s.rowid AS seq, {_BEHIND_SEQ} FROM words AS s CROSS JOIN deliveries AS d ON d.seq = s.rowid
    WHERE s.words MATCH :text AND s.rowid < :before {{conditions}}
)
{{state}} ORDER BY seq DESC LIMIT :rows
"""

KEYS_FROM = "SELECT key FROM deliveries WHERE key >= ? AND key < ? ORDER BY key LIMIT ?"

DETAIL = f"""
SELECT {SUMMARY}, b.headers, b.body, b.coding
FROM deliveries AS d LEFT JOIN bodies AS b ON b.seq = d.seq WHERE d.key = ?
"""

_WORK = """
SELECT
    w.id, d.key, d.type, d.job_id, d.received_at, w.handler, w.state, w.attempts, w.lane,
    coalesce(w.due_at, w.recheck_at), w.last_error, w.note, w.heads_lane
FROM work_items AS w JOIN deliveries AS d ON d.seq = w.delivery_seq
"""

WORK_OF = f"{_WORK} WHERE w.delivery_seq = ? ORDER BY w.id"

WORK_ITEM = f"{_WORK} WHERE w.id = ?"

LIST_WORK = f"{_WORK} WHERE w.id < :before {{conditions}} ORDER BY w.id DESC LIMIT :rows"

ATTEMPTS_OF = """
SELECT number, trigger, started_at, ended_at, outcome, error, traceback, overdue
FROM attempts WHERE work_id = ? ORDER BY number
"""

COUNTS = "SELECT handler, state, count(*) FROM work_items GROUP BY handler, state"

WAITING = """
SELECT handler, sum(items) FROM (
    SELECT handler, count(*) AS items FROM work_items WHERE state = 'waiting' GROUP BY handler
    UNION ALL SELECT handler, count(*) FROM work_items WHERE state = 'queued' GROUP BY handler
    UNION ALL SELECT handler, count(*) FROM work_items WHERE state = 'held' GROUP BY handler
) GROUP BY handler
"""

LATEST_ATTEMPTS = """
SELECT a.ended_at - a.started_at
FROM (SELECT id FROM work_items WHERE handler = ? AND state IN ('done', 'dead') ORDER BY id DESC LIMIT 100) AS w
JOIN attempts AS a ON a.work_id = w.id
WHERE a.started_at IS NOT NULL ORDER BY 1
"""

LATEST_ERROR = """
SELECT last_error FROM work_items WHERE handler = ? AND last_error IS NOT NULL ORDER BY id DESC LIMIT 1
"""

NEW_DELIVERIES = f"SELECT count(*) FROM deliveries WHERE seq > ({ROUTED})"

# The indexes are named: SQLite would rather go through one that covers, which has everything that is done in it.
BACKLOG = """
SELECT
    (SELECT count(*) FROM work_items INDEXED BY work_waiting WHERE state = 'waiting')
    + (SELECT count(*) FROM work_items INDEXED BY lane_queue WHERE state = 'queued')
    + (SELECT count(*) FROM work_items INDEXED BY work_held WHERE state = 'held'),
    (SELECT count(*) FROM work_items INDEXED BY work_running WHERE state = 'running'),
    (SELECT count(*) FROM attempts INDEXED BY attempts_lost WHERE outcome = 'lost'),
    (SELECT min(due_at) FROM work_items INDEXED BY work_waiting WHERE state = 'waiting'),
    (SELECT received_at FROM deliveries WHERE seq > (SELECT value FROM marks WHERE name = 'routed') ORDER BY seq)
"""

UNFINISHED = f"""
SELECT ({NEW_DELIVERIES}) + (
    SELECT count(*) FROM (
        SELECT delivery_seq FROM work_items INDEXED BY work_waiting WHERE state = 'waiting'
        UNION SELECT delivery_seq FROM work_items INDEXED BY lane_queue WHERE state = 'queued'
        UNION SELECT delivery_seq FROM work_items INDEXED BY work_held WHERE state = 'held'
        UNION SELECT delivery_seq FROM work_items INDEXED BY work_running WHERE state = 'running'
    )
)
"""

LAST_DELIVERY = "SELECT coalesce(max(seq), 0) FROM deliveries"

FIRST_OF_NEWEST = """
SELECT min(seq) FROM (
    SELECT d.seq FROM deliveries AS d WHERE d.seq <= :through {conditions} ORDER BY d.seq DESC LIMIT :most
)
"""

IN_ORDER = f"""
SELECT {STORED} FROM deliveries AS d JOIN bodies AS b ON b.seq = d.seq
WHERE d.seq > :after AND d.seq <= :until_seq {{conditions}} ORDER BY d.seq
"""

# In two parts: comparing (job_id, seq) the index would be searched by job_id only, and a job read from its start.
PLACES_IN_JOBS = """
SELECT * FROM (
    SELECT job_id, seq FROM deliveries WHERE job_id = :after_job AND seq > :after ORDER BY seq LIMIT :most
)
UNION ALL
SELECT * FROM (SELECT job_id, seq FROM deliveries WHERE job_id > :after_job ORDER BY job_id, seq LIMIT :most)
ORDER BY job_id, seq LIMIT :most
"""

# The outer loop of a CROSS JOIN is its left table (SQLite manual, Query Planner), here a list in its own order:
# ORDER BY would sort whole bodies.
THESE_IN_ORDER = f"""
SELECT {STORED} FROM json_each(:seqs) AS s
CROSS JOIN deliveries AS d ON d.seq = s.value CROSS JOIN bodies AS b ON b.seq = d.seq WHERE TRUE {{conditions}}
"""

OPEN_SEQS = """
SELECT delivery_seq FROM work_items INDEXED BY work_waiting WHERE state = 'waiting'
UNION ALL SELECT delivery_seq FROM work_items INDEXED BY lane_queue WHERE state = 'queued'
UNION ALL SELECT delivery_seq FROM work_items INDEXED BY work_held WHERE state = 'held'
UNION ALL SELECT delivery_seq FROM work_items INDEXED BY work_running WHERE state = 'running'
"""

# As in the index work_failed, to the letter (SQLite manual, Partial Indexes).
_FAILED = "(state = 'dead' OR last_error IS NOT NULL)"

FAILED_HANDLERS = f"SELECT DISTINCT handler FROM work_items WHERE delivery_seq = ? AND {_FAILED}"

DEAD_SEQS = "SELECT delivery_seq FROM work_items INDEXED BY work_failed WHERE state = 'dead'"

FAILED_SEQS = f"""
SELECT delivery_seq FROM work_items INDEXED BY work_failed WHERE {_FAILED} AND handler GLOB :handler
"""

NEW_SEQS = f"SELECT seq FROM deliveries WHERE seq > ({ROUTED})"

KINDS = "SELECT DISTINCT {kinds} FROM {source} LIMIT {most}"

SUMS = "SELECT count(*), {sums} FROM {source}"

BY_KIND = """
SELECT {kinds}, count(*) AS number FROM {source} GROUP BY {kinds} ORDER BY number DESC, {kinds} LIMIT {most}
"""

WORK_IDS = """
SELECT w.id FROM work_items AS w JOIN deliveries AS d ON d.seq = w.delivery_seq
WHERE w.id BETWEEN :first AND :last {conditions} ORDER BY w.id {order} LIMIT :rows
"""

_REFUSED = "SELECT id, received_at, reason, detail, key, length(body) FROM quarantine"

LIST_REFUSED = f"{_REFUSED} WHERE id < :before {{conditions}} ORDER BY id DESC LIMIT :rows"

REFUSED = "SELECT received_at, reason, detail, key, headers, body FROM quarantine WHERE id = :id"

PRUNABLE = """
SELECT d.seq, d.size FROM deliveries AS d
WHERE d.seq > :after AND d.seq <= :until_seq {conditions} ORDER BY d.seq
"""

STILL_PRUNABLE = """
SELECT d.seq, d.size FROM deliveries AS d WHERE d.seq IN (SELECT value FROM json_each(:seqs)) {conditions}
"""

ONCE_KEYS_BEFORE = "SELECT handler, key FROM once_keys WHERE asked_at < ? LIMIT ?"
