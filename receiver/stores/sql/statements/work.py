"""The SQL that reads work items, handlers, health and quarantine."""

from receiver.core.work import LATENCY_ITEMS
from receiver.core.work_states import RUN_ENDS, SKIPPABLE
from receiver.stores.sql.dialect import Dialect
from receiver.stores.sql.statements.columns import ROUTED, in_states
from receiver.stores.sql.statements.deliveries import INDEXED, of_states, open_seqs

_NEW_DELIVERIES = f"SELECT count(*) FROM deliveries WHERE seq > ({ROUTED})"

# The columns that `rows.work_summary` reads. SQLite keeps the left table of a CROSS JOIN as its outer loop (SQLite
# manual, Query Planner): else it would read all work of a job, and sort it, for each page.
_WORK = """
SELECT
    w.id, d.key, d.type, d.job_id, d.received_at, w.handler, w.state, w.attempts, w.lane,
    coalesce(w.due_at, w.recheck_at), w.last_error, w.note, w.heads_lane,
    h.id, h.state, (SELECT max(a.ended_at) FROM attempts AS a WHERE a.work_id = h.id)
FROM work_items AS w {index} CROSS JOIN deliveries AS d
LEFT JOIN work_items AS h
    ON w.state = 'queued' AND h.handler = w.handler AND h.lane = w.lane AND h.heads_lane = 1
WHERE d.seq = w.delivery_seq
"""

LAST_WORK = "SELECT coalesce(max(id), 0) FROM work_items"


_ACTIVITY = """
SELECT minute / :step * :step, handler, outcome, bucket, CAST(sum(count) AS bigint)
FROM handler_minutes WHERE minute >= :since {conditions} GROUP BY 1, 2, 3, 4
"""
ANY_ACTIVITY = """
SELECT count(*) FROM (
    SELECT minute FROM handler_minutes WHERE minute < :before
    UNION ALL SELECT minute FROM arrival_minutes WHERE minute < :before LIMIT 1
) AS old
"""
FORGET_ACTIVITY = tuple(
    f"DELETE FROM {table} WHERE minute < :before AND minute < (SELECT min(minute) FROM {table}) + 60"
    for table in ("handler_minutes", "arrival_minutes")
)


class WorkStatements:
    """Statements with a gap `{conditions}` take what `filters` makes of a filter."""

    work_of = f"{_WORK} AND w.delivery_seq = :seq ORDER BY w.id".format(index="")
    work_item = f"{_WORK} AND w.id = :id".format(index="")
    listing = f"{_WORK} AND w.id < :before {{conditions}} ORDER BY w.id DESC LIMIT :rows"
    # The rows that the listing examines. The moment is read of those that are returned alone.
    end = """
        SELECT w.id, (SELECT d.received_at FROM deliveries AS d WHERE d.seq = w.delivery_seq)
        FROM work_items AS w {index} WHERE w.id < :before {conditions}
        ORDER BY w.id DESC LIMIT 2 OFFSET :skipped
    """
    ids_of_job = """
        SELECT w.id FROM deliveries AS d JOIN work_items AS w ON w.delivery_seq = d.seq WHERE d.job_id = :job_id
    """
    ids = """
        SELECT w.id FROM work_items AS w JOIN deliveries AS d ON d.seq = w.delivery_seq
        WHERE w.id BETWEEN :first AND :last {conditions} ORDER BY w.id {order} LIMIT :rows
    """
    attempts_of = """
        SELECT number, trigger, started_at, ended_at, outcome, error, traceback, overdue
        FROM attempts WHERE work_id = :id ORDER BY number
    """


class HealthStatements:
    """What `handlers list`, health and metrics ask."""

    names = "SELECT name FROM handlers ORDER BY name"
    switches = "SELECT name, switch FROM handlers WHERE switch <> 'on'"
    counts = "SELECT handler, state, count(*) FROM work_items GROUP BY handler, state"
    latest_attempts = f"""
        SELECT a.ended_at - a.started_at
        FROM (
            SELECT id FROM work_items
            WHERE handler = :handler AND {in_states(RUN_ENDS)} ORDER BY id DESC LIMIT {LATENCY_ITEMS}
        ) AS w
        JOIN attempts AS a ON a.work_id = w.id
        WHERE a.started_at IS NOT NULL ORDER BY 1
    """
    # In the order of the index work_failed.
    latest_error = """
        SELECT last_error, id FROM work_items
        WHERE handler = :handler AND last_error IS NOT NULL ORDER BY delivery_seq DESC, id DESC LIMIT 1
    """

    workers = "SELECT name, machine, pid, version, started_at, seen_at, limits FROM workers ORDER BY name"
    paces = "SELECT name, paced_until FROM handlers WHERE paced_until > 0"
    schedules = "SELECT handler, schedule, next_at FROM schedules"
    leased = "SELECT worker, handler, count(*) FROM work_items WHERE state = 'running' GROUP BY worker, handler"
    activity = _ACTIVITY.format(conditions="")
    activity_of = _ACTIVITY.format(conditions="AND handler = :handler")

    def __init__(self, dialect: Dialect) -> None:
        # The indexes are named: SQLite would rather use one that covers, and that holds all finished work too.
        by = dialect.by_index
        self.backlog = f"""
            SELECT
                (SELECT count(*) FROM work_items {by("work_waiting")} WHERE state = 'waiting')
                + (SELECT count(*) FROM work_items {by("lane_queue")} WHERE state = 'queued')
                + (SELECT count(*) FROM work_items {by("work_held")} WHERE state = 'held'),
                (SELECT count(*) FROM work_items {by("work_running")} WHERE state = 'running'),
                (SELECT count(*) FROM attempts {by("attempts_lost")} WHERE outcome = 'lost'),
                ({_NEW_DELIVERIES}),
                (SELECT min(due_at) FROM work_items {by("work_waiting")} WHERE state = 'waiting'),
                (SELECT received_at FROM deliveries WHERE seq > ({ROUTED}) ORDER BY seq LIMIT 1)
        """
        self.waiting = f"""
            SELECT handler, count(*) FROM ({of_states(dialect, "handler", SKIPPABLE)}) AS items GROUP BY handler
        """
        self.counts_but_done = f"""
            SELECT handler, state, count(*) FROM ({of_states(dialect, "handler, state", sorted(INDEXED))}) AS items
            GROUP BY handler, state
        """
        # A scheduled run and a replay make work of deliveries that are not routed.
        open_deliveries = (
            f"SELECT DISTINCT delivery_seq FROM ({open_seqs(dialect)}) AS items WHERE delivery_seq <= ({ROUTED})"
        )
        self.unfinished = f"SELECT ({_NEW_DELIVERIES}) + (SELECT count(*) FROM ({open_deliveries}) AS unfinished)"


class QuarantineStatements:
    """Requests in quarantine."""

    listing = """
        SELECT id, received_at, reason, detail, key, length(body) FROM quarantine
        WHERE id < :before {conditions} ORDER BY id DESC LIMIT :rows
    """
    request = "SELECT received_at, reason, detail, key, headers, body FROM quarantine WHERE id = :id"


BEGIN_ACTION = """
INSERT INTO actions (actor, verb, about, choice, planned, began_at, seen_at)
VALUES (:actor, :verb, :about, :choice, :planned, :now, :now) RETURNING id
"""

ADVANCE_ACTION = """
UPDATE actions SET seen = seen + :seen, changed = changed + :changed, seen_at = :now WHERE id = :action
"""

END_ACTION = "UPDATE actions SET ended_at = :now, error = :error WHERE id = :action"

_COLUMNS = "id, actor, verb, about, choice, planned, began_at, seen_at, ended_at, seen, changed, error"


ACTIONS = f"SELECT {_COLUMNS} FROM actions WHERE id < :before ORDER BY id DESC LIMIT :rows"

ACTION = f"SELECT {_COLUMNS} FROM actions WHERE id = :id"

_OLD = "began_at < :before OR id <= (SELECT max(id) FROM actions) - :keep"

ANY_OLD_ACTION = f"SELECT count(*) FROM (SELECT 1 FROM actions WHERE {_OLD} LIMIT 1) AS old"

FORGET_ACTIONS = f"DELETE FROM actions WHERE id IN (SELECT id FROM actions WHERE {_OLD} ORDER BY id LIMIT :limit)"


KINDS = "SELECT DISTINCT {kinds} FROM {source} LIMIT {most}"

SUMS = "SELECT count(*), {sums} FROM {source}"

BY_KIND = """
SELECT {kinds}, count(*) AS number FROM {source} GROUP BY {kinds} ORDER BY number DESC, {kinds} LIMIT {most}
"""

NARROWED = "(SELECT d.* FROM {source}) AS d WHERE {conditions}"
