"""The SQL that turns deliveries into work items. Rows travel as one array for each column."""

from receiver.stores.postgres.statements.log import SYNC_IF_OFF
from receiver.stores.postgres.statements.moments import MICROS
from receiver.stores.sql.statements.columns import STORED

# When the server process started (PostgreSQL manual, System Information Functions): no two servers have the same.
_SERVER = "CAST(extract(epoch FROM pg_postmaster_start_time()) * 1000000 AS bigint)"

# What is behind the mark, who is about to route it, whether there is anything, and which server says so. The index
# gives the highest number; for any higher one, a planner without statistics would look at all rows.
ROUTING = f"""
SELECT m.value, (SELECT value FROM marks WHERE name = 'routing'),
    coalesce((SELECT max(seq) FROM deliveries), 0) > m.value,
    EXISTS (SELECT 1 FROM marks WHERE name = 'backfilled'), {_SERVER}, {MICROS}
FROM marks AS m WHERE m.name = 'routed'
"""

# Whoever may insert need not be allowed to set a sequence.
SKIP_IDS = f"""
WITH synced AS MATERIALIZED (SELECT {SYNC_IF_OFF})
SELECT count(nextval(pg_get_serial_sequence(:table, 'id'))) FROM synced, generate_series(1, CAST(:count AS integer))
"""

TAKE_TURN = """
WITH unsynced AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))
UPDATE marks SET value = :taker FROM unsynced WHERE name = 'routing' AND value = :holder
"""

ANY_BACKFILLED = "SELECT CAST(EXISTS (SELECT 1 FROM marks WHERE name = 'backfilled') AS integer)"

# A standby that took the place of the primary may not have what was read there, and gives its numbers to others.
ADVANCE_ROUTED = f"""
WITH free AS (UPDATE marks SET value = 0 WHERE name = 'routing' AND value <> 0)
UPDATE marks SET value = :through WHERE name = 'routed' AND value = :after AND {_SERVER} = :server
"""
"""And let the next worker read what is behind."""

# Only as many as the batch takes, and one more: a body is not sent for nothing.
UNROUTED = f"""
SELECT {STORED}
FROM (
    SELECT next.*, sum(size) OVER (ORDER BY seq) - size AS before
    FROM (SELECT * FROM deliveries WHERE seq > :after ORDER BY seq LIMIT :limit) AS next
) AS d
CROSS JOIN LATERAL (SELECT * FROM bodies AS c WHERE c.seq = d.seq OFFSET 0) AS b
WHERE d.before <= :max_bytes ORDER BY d.seq
"""

LANE_HEADS = """
SELECT w.handler, w.lane FROM json_array_elements(CAST(:lanes AS json)) AS l
JOIN work_items AS w ON w.handler = l.value ->> 0 AND w.lane = l.value ->> 1 AND w.heads_lane = 1
"""

# Their deliveries stay until the transaction ends.
WITH_BODIES = """
SELECT seq FROM deliveries WHERE seq = ANY(:seqs) AND pruned_at IS NULL ORDER BY seq FOR KEY SHARE
"""

BACKFILLED = "SELECT key FROM deliveries WHERE key = ANY(:keys) AND origin = 'backfill'"

_NAME_HANDLERS = """
names AS (
    INSERT INTO handlers (name)
    SELECT DISTINCT handler FROM made
    WHERE NOT EXISTS (SELECT 1 FROM handlers AS known WHERE known.name = made.handler)
    ORDER BY handler ON CONFLICT (name) DO NOTHING
)
SELECT id FROM made ORDER BY id
"""

INSERT_WORK = f"""
WITH made AS (
    INSERT INTO work_items (
        delivery_seq, handler, lane, heads_lane, started, state, attempts, trigger, due_at, lease_until, worker,
        recheck_at, hold_until, note, action_id
    )
    SELECT
        i.seq, i.handler, i.lane, i.heads_lane, i.started, i.state, CASE i.state WHEN 'running' THEN 1 ELSE 0 END,
        CAST(:trigger AS text),
        CASE i.state WHEN 'waiting' THEN CAST(:due_at AS bigint) END,
        CASE i.state WHEN 'running' THEN CAST(:lease_until AS bigint) END,
        CASE i.state WHEN 'running' THEN CAST(:worker AS text) END,
        CASE i.state WHEN 'held' THEN CAST(:recheck_at AS bigint) END,
        CAST(:hold_until AS bigint), CAST(:note AS text), CAST(:action AS bigint)
    FROM unnest(
        CAST(:seqs AS bigint[]), CAST(:handlers AS text[]), CAST(:lanes AS text[]), CAST(:heads AS smallint[]),
        CAST(:starts AS smallint[]), CAST(:states AS text[])
    ) WITH ORDINALITY AS i (seq, handler, lane, heads_lane, started, state, place)
    ORDER BY i.place RETURNING id, handler
), {_NAME_HANDLERS}
"""

RECORD_WORK = f"""
WITH made AS (
    INSERT INTO work_items (delivery_seq, handler, state, attempts, trigger, last_error)
    SELECT a, b, c, d, e, f FROM unnest(
        ?::bigint[], ?::text[], ?::text[], ?::integer[], ?::text[], ?::text[]
    ) WITH ORDINALITY AS given (a, b, c, d, e, f, place) ORDER BY place
    RETURNING id, handler
), {_NAME_HANDLERS}
"""

INSERT_ATTEMPTS = """
INSERT INTO attempts (work_id, number, trigger, started_at, ended_at, outcome, error, traceback, overdue)
SELECT * FROM unnest(
    ?::bigint[], ?::integer[], ?::text[], ?::bigint[], ?::bigint[], ?::text[], ?::text[], ?::text[], ?::smallint[]
)
"""


def record_work(rows: int) -> str:
    """Insert work items that have run already."""
    return RECORD_WORK


def insert_attempts(rows: int) -> str:
    """Insert attempts that have ended."""
    return INSERT_ATTEMPTS
