"""The SQL that ends attempts and lets lanes go on."""

HOLDERS = """
SELECT id, worker, attempts FROM work_items
WHERE id IN (SELECT value FROM json_each(:ids)) AND state = 'running'
"""

# Most items end in success, and this statement takes less time than SETTLE. It is one step of SQLite: with one more
# for each row that it returned, it took a third more time.
FINISH = """
UPDATE work_items SET
    state = 'done', lease_until = NULL, worker = NULL, started = 0, last_error = NULL, heads_lane = 0
WHERE id IN (SELECT value FROM json_each(:ids)) AND state = 'running' AND worker = :worker AND attempts = :number
"""

_FOLLOWS = "id IN (SELECT value FROM json_each(:ids)) AND state = 'queued' AND attempts = 0"

FOLLOWERS_LEFT = f"SELECT id FROM work_items WHERE {_FOLLOWS}"

FINISH_FOLLOWERS = f"UPDATE work_items SET state = 'done', attempts = 1, last_error = NULL WHERE {_FOLLOWS}"

FOLLOW = f"""
UPDATE work_items SET
    state = 'running', heads_lane = 1, started = :started, attempts = 1, lease_until = :until, worker = :worker
WHERE {_FOLLOWS}
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
        json_extract(value, '$[4]') AS holds_lane, json_extract(value, '$[5]') AS died,
        json_extract(value, '$[6]') AS worker, json_extract(value, '$[7]') AS number
    FROM json_each(:items)
) AS s
WHERE work_items.id = s.work_id
    AND +work_items.state = 'running' AND work_items.worker = s.worker AND work_items.attempts = s.number
"""

ALSO_ENDED = """
INSERT INTO attempts (work_id, number, trigger, started_at, ended_at, outcome, error, traceback, overdue)
SELECT o.value, a.number, a.trigger, a.started_at, a.ended_at, a.outcome, a.error, a.traceback, a.overdue
FROM json_each(:items) AS s CROSS JOIN attempts AS a CROSS JOIN json_each(s.value, '$[2]') AS o
WHERE a.work_id = json_extract(s.value, '$[0]') AND a.number = json_extract(s.value, '$[1]')
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
"""Where no other item heads the lane of one of these, the first that is queued there becomes its head."""
