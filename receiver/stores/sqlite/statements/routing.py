"""The SQL that turns deliveries into work items."""

from receiver.stores.sql.statements.columns import STORED

ANY_BACKFILLED = "SELECT EXISTS (SELECT 1 FROM marks WHERE name = 'backfilled')"

ADVANCE_ROUTED = "UPDATE marks SET value = :through WHERE name = 'routed' AND value = :after"

UNROUTED = f"""
SELECT {STORED}
FROM deliveries AS d JOIN bodies AS b ON b.seq = d.seq
WHERE d.seq > :after ORDER BY d.seq LIMIT :limit
"""

LANE_HEADS = """
SELECT w.handler, w.lane FROM json_each(:lanes) AS l
JOIN work_items AS w
    ON w.handler = json_extract(l.value, '$[0]') AND w.lane = json_extract(l.value, '$[1]') AND w.heads_lane = 1
"""

WITH_BODIES = """
SELECT seq FROM deliveries WHERE seq IN (SELECT value FROM json_each(:seqs)) AND pruned_at IS NULL
"""

BACKFILLED = """
SELECT key FROM deliveries WHERE key IN (SELECT value FROM json_each(:keys)) AND origin = 'backfill'
"""

_WORK_ROW = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_RECORDED_ROW = "(?, ?, ?, ?, ?, ?)"
_ATTEMPT_ROW = "(?, ?, ?, ?, ?, ?, ?, ?, ?)"


def insert_work(rows: int) -> str:
    """Insert work items."""
    return (
        "INSERT INTO work_items (delivery_seq, handler, state, attempts, started, trigger, due_at, lease_until, "
        "recheck_at, hold_until, worker, lane, heads_lane, note) VALUES " + ", ".join([_WORK_ROW] * rows)
    )


def record_work(rows: int) -> str:
    """Insert work items that have run already."""
    return (
        "INSERT INTO work_items (delivery_seq, handler, state, attempts, trigger, last_error) VALUES "
        + ", ".join([_RECORDED_ROW] * rows)
    )


def insert_attempts(rows: int) -> str:
    """Insert attempts that have ended."""
    return (
        "INSERT INTO attempts (work_id, number, trigger, started_at, ended_at, outcome, error, traceback, overdue) "
        "VALUES " + ", ".join([_ATTEMPT_ROW] * rows)
    )
