"""The SQL that turns deliveries into work items."""

from receiver.stores.sql.statements.columns import stored
from receiver.stores.sqlite.statements.body_files import BODY

ANY_BACKFILLED = "SELECT EXISTS (SELECT 1 FROM marks WHERE name = 'backfilled')"

ADVANCE_ROUTED = "UPDATE marks SET value = :through WHERE name = 'routed' AND value = :after"

UNROUTED = f"""
SELECT {stored(BODY)}
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


LAST_WORK_ID = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'work_items'"

# One step of SQLite for all rows, and few values: a row of values for each item takes a third more time, and three
# times as much to make it. `:items` is an object of ids and deliveries, or of ids and deliveries with their lanes.
# Arrays with both and the handler took a third more time than the first of these.
INSERT_WORK = """
INSERT INTO work_items (
    id, delivery_seq, handler, lane, heads_lane, started, state, attempts, trigger, due_at, lease_until, worker,
    recheck_at, hold_until, note, action_id
)
SELECT
    key, iif(type = 'array', json_extract(value, '$[0]'), value), :handler,
    iif(type = 'array', json_extract(value, '$[1]'), NULL),
    :heads_lane, :started, :state, :state = 'running', :trigger, iif(:state = 'waiting', :due_at, NULL),
    iif(:state = 'running', :lease_until, NULL), iif(:state = 'running', :worker, NULL),
    iif(:state = 'held', :recheck_at, NULL), :hold_until, :note, :action
FROM json_each(:items)
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
