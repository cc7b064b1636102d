"""The SQL that ends attempts and lets lanes go on."""

from receiver.core.types import WorkState
from receiver.stores.postgres.statements.by_id import by_id_in

HOLDERS = f"""
SELECT id, worker, attempts FROM work_items
WHERE id = ANY(:ids) AND {by_id_in(WorkState.RUNNING)} ORDER BY id FOR UPDATE
"""

# Most items end in success, and this statement takes less time than SETTLE. Nobody but their worker waits for rows
# that run, so these need not be locked in an order: to do so cost a fifth of it.
FINISH = f"""
UPDATE work_items SET
    state = 'done', lease_until = NULL, worker = NULL, started = 0, last_error = NULL, heads_lane = 0
WHERE id = ANY(:ids) AND {by_id_in(WorkState.RUNNING)} AND worker = :worker AND attempts = :number
"""

_FOLLOWS = f"id = ANY(:ids) AND {by_id_in(WorkState.QUEUED)} AND attempts = 0"

FOLLOWERS_LEFT = f"SELECT id FROM work_items WHERE {_FOLLOWS} ORDER BY id FOR UPDATE"

FINISH_FOLLOWERS = f"UPDATE work_items SET state = 'done', attempts = 1, last_error = NULL WHERE {_FOLLOWS}"

FOLLOW = f"""
UPDATE work_items SET
    state = 'running', heads_lane = 1, started = :started, attempts = 1, lease_until = :until, worker = :worker
WHERE {_FOLLOWS}
"""

SETTLE = f"""
UPDATE work_items AS w SET
    state = s.state, due_at = s.due_at, lease_until = NULL, worker = NULL, started = 0,
    last_error = s.error, deaths = deaths + s.died,
    heads_lane = CASE WHEN s.state = 'waiting' OR (s.state = 'dead' AND s.holds_lane = 1) THEN heads_lane ELSE 0 END
FROM (
    SELECT CAST(value ->> 0 AS bigint) AS work_id, value ->> 1 AS state, CAST(value ->> 2 AS bigint) AS due_at,
        value ->> 3 AS error, CAST(value ->> 4 AS integer) AS holds_lane, CAST(value ->> 5 AS integer) AS died,
        value ->> 6 AS worker, CAST(value ->> 7 AS integer) AS number
    FROM json_array_elements(CAST(:items AS json))
) AS s
WHERE w.id = s.work_id AND {by_id_in(WorkState.RUNNING, "w.state")}
    AND w.worker = s.worker AND w.attempts = s.number
"""

ALSO_ENDED = """
INSERT INTO attempts (work_id, number, trigger, started_at, ended_at, outcome, error, traceback, overdue)
SELECT
    CAST(o.id AS bigint), a.number, a.trigger, a.started_at, a.ended_at, a.outcome, a.error, a.traceback, a.overdue
FROM json_array_elements(CAST(:items AS json)) AS s
CROSS JOIN LATERAL (
    SELECT * FROM attempts
    WHERE work_id = CAST(s.value ->> 0 AS bigint) AND number = CAST(s.value ->> 1 AS integer) OFFSET 0
) AS a
CROSS JOIN LATERAL json_array_elements_text(s.value -> 2) AS o (id)
"""
"""The OFFSET keeps the planner from joining all attempts with the items."""

PROMOTE = f"""
UPDATE work_items SET state = 'waiting', heads_lane = 1, due_at = :now
WHERE {by_id_in(WorkState.QUEUED)} AND id = ANY(ARRAY(
    SELECT (
        SELECT q.id FROM work_items AS q
        WHERE q.handler = l.handler AND q.lane = l.lane AND q.state = 'queued' ORDER BY q.id LIMIT 1
    )
    FROM (
        SELECT DISTINCT handler, lane FROM work_items WHERE id = ANY(:ids) AND lane IS NOT NULL
    ) AS l
    WHERE NOT EXISTS (
        SELECT 1 FROM work_items AS h WHERE h.handler = l.handler AND h.lane = l.lane AND h.heads_lane = 1
    )
))
"""
"""Where no other item heads the lane of one of these, the first that is queued there becomes its head."""
