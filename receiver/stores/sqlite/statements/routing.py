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

_RECORDED_ROW = "(?, ?, ?, ?, ?, ?)"
_ATTEMPT_ROW = "(?, ?, ?, ?, ?, ?, ?, ?, ?)"


# One step of SQLite for all rows, and few values: a row of values for each item takes a third more time, and three
# times as much to make it.
INSERT_WORK = """
INSERT INTO work_items (
    delivery_seq, handler, lane, heads_lane, started, state, attempts, trigger, due_at, lease_until, worker,
    recheck_at, hold_until, note
)
SELECT
    i.seq, i.handler, i.lane, i.heads_lane, i.started, i.state, i.state = 'running', :trigger,
    iif(i.state = 'waiting', :due_at, NULL), iif(i.state = 'running', :lease_until, NULL),
    iif(i.state = 'running', :worker, NULL), iif(i.state = 'held', :recheck_at, NULL), :hold_until, :note
FROM (
    SELECT
        key, json_extract(value, '$[0]') AS seq, json_extract(value, '$[1]') AS handler,
        json_extract(value, '$[2]') AS lane, json_extract(value, '$[3]') AS heads_lane,
        json_extract(value, '$[4]') AS started, json_extract(value, '$[5]') AS state
    FROM json_each(:items)
) AS i
ORDER BY i.key
"""


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
