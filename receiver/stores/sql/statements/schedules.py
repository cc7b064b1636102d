"""The SQL of scheduled runs, which both kinds of databases take as it is.

`:first` and `:above` are the bounds of the keys that the runs of one handler have. They sort by time.
"""

from receiver.core.work_states import OPEN
from receiver.stores.sql.statements.columns import ROUTED, in_states
from receiver.stores.sql.statements.deliveries import ITS_WORK

NOTED = "SELECT schedule, next_at FROM schedules WHERE handler = :handler"

NOTE = """
INSERT INTO schedules (handler, schedule, next_at) VALUES (:handler, :schedule, :next_at)
ON CONFLICT (handler) DO UPDATE SET schedule = excluded.schedule, next_at = excluded.next_at
"""

ANY_FORGOTTEN = "SELECT count(*) FROM schedules WHERE next_at < :before"

FORGET = "DELETE FROM schedules WHERE next_at < :before"

NAME_HANDLER = "INSERT INTO handlers (name) VALUES (:handler) ON CONFLICT (name) DO NOTHING"

TAKE = "UPDATE schedules SET next_at = :next_at WHERE handler = :handler AND next_at = :noted"

_RUNS = "FROM deliveries AS d WHERE d.origin = 'schedule' AND d.key >= :first AND d.key < :above"
_OPEN_WORK = f"{ITS_WORK} AND {in_states(OPEN, 'w.state')}"

UNFINISHED = f"SELECT count(*) {_RUNS} AND EXISTS ({_OPEN_WORK} AND w.handler = :handler)"

# A delivery that is not routed yet is new to readers, whatever became of its work.
TOO_MANY = f"""
SELECT d.seq {_RUNS} AND d.seq <= ({ROUTED}) AND NOT EXISTS ({_OPEN_WORK})
ORDER BY d.key DESC LIMIT 100 OFFSET :kept
"""
"""Ended runs beyond the last ones. A store that has more of them than one statement takes loses the rest later."""
