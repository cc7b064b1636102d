"""The SQL of work items that only PostgreSQL has. Rows travel as one array for each column."""

from receiver.stores.postgres.statements.log import JOB_ROWS, LOCK_SUMMED, SYNC_IF_OFF
from receiver.stores.sql.dialect import Dialect
from receiver.stores.sql.statements.columns import STORED
from receiver.stores.sql.statements.writing import STEP, Statements

MICROS = "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)"
"""The time of the database, to compare clocks with it."""

# When the server process started (PostgreSQL manual, System Information Functions): no two servers have the same.
_SERVER = "CAST(extract(epoch FROM pg_postmaster_start_time()) * 1000000 AS bigint)"

ROUTING = f"""
SELECT m.value, (SELECT value FROM marks WHERE name = 'routing'),
    coalesce((SELECT max(seq) FROM deliveries), 0) > m.value,
    EXISTS (SELECT 1 FROM marks WHERE name = 'backfilled'), {_SERVER}, {MICROS}
FROM marks AS m WHERE m.name = 'routed'
"""
"""The mark of what is routed, who is about to route, whether there is more, and which server says so.

The index gives the highest number; for any higher one, a planner without statistics would look at all rows.
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

STIR = "UPDATE marks SET value = value + 1 WHERE name = 'stirred'"
"""Let workers look for work that they do not know of."""

LATEST_CHANGE = f"""
SELECT (SELECT max(seq) FROM deliveries), sum(value) FILTER (WHERE name = 'stirred'),
    sum(value) FILTER (WHERE name = 'routed'), sum(value) FILTER (WHERE name = 'routing'), {MICROS}
FROM marks WHERE name IN ('stirred', 'routed', 'routing')
"""
"""The last delivery, how often workers were stirred, how far they have routed, and who is about to route."""

_DUE = """
SELECT w.id, (SELECT d.size FROM deliveries AS d WHERE d.seq = w.delivery_seq) FROM work_items AS w
WHERE w.handler = :handler AND w.state = 'waiting' AND w.due_at <= :now AND w.suspect = {suspect}
ORDER BY w.due_at, w.id LIMIT :limit
"""

_NAME_HANDLERS = """
names AS (
    INSERT INTO handlers (name)
    SELECT DISTINCT handler FROM made
    WHERE NOT EXISTS (SELECT 1 FROM handlers AS known WHERE known.name = made.handler)
    ORDER BY handler ON CONFLICT (name) DO NOTHING
)
SELECT id FROM made ORDER BY id
"""

_RECORD_WORK = f"""
WITH made AS (
    INSERT INTO work_items (delivery_seq, handler, state, attempts, trigger, last_error)
    SELECT a, b, c, d, e, f FROM unnest(
        ?::bigint[], ?::text[], ?::text[], ?::integer[], ?::text[], ?::text[]
    ) WITH ORDINALITY AS given (a, b, c, d, e, f, place) ORDER BY place
    RETURNING id, handler
), {_NAME_HANDLERS}
"""

_INSERT_ATTEMPTS = """
INSERT INTO attempts (work_id, number, trigger, started_at, ended_at, outcome, error, traceback, overdue)
SELECT * FROM unnest(
    ?::bigint[], ?::integer[], ?::text[], ?::bigint[], ?::bigint[], ?::text[], ?::text[], ?::text[], ?::smallint[]
)
"""


class PostgresStatements(Statements):
    """Other transactions run at the same time, so rows are locked, those of work items in the order of their ids.

    Deliveries and bodies are looked up row by row, whatever the statistics say of their number: OFFSET 0 keeps the
    planner from joining them otherwise.
    """

    # ON CONFLICT locks the row even where it changes nothing, and every worker would wait for every other.
    note_time = f"""
        INSERT INTO marks AS m (name, value)
        SELECT 'latest', :now
        WHERE NOT EXISTS (SELECT 1 FROM marks WHERE name = 'latest' AND value > CAST(:now AS bigint) - {STEP})
        ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE excluded.value >= m.value + {STEP}
    """
    # What another worker has locked, it takes back itself.
    take_leases_ended = """
        SELECT id FROM work_items WHERE state = 'running' AND lease_until <= :steady
        ORDER BY lease_until, id LIMIT :limit FOR UPDATE SKIP LOCKED
    """
    due, due_suspects = _DUE.format(suspect=0), _DUE.format(suspect=1)
    take_due, take_due_suspects = f"{due} FOR UPDATE SKIP LOCKED", f"{due_suspects} FOR UPDATE SKIP LOCKED"
    claim = f"""
        WITH w AS (
            UPDATE work_items SET
                state = 'running', due_at = NULL, lease_until = :until, worker = :worker, attempts = attempts + 1,
                started = CASE WHEN id = ANY(:starting) THEN 1 ELSE 0 END
            WHERE id = ANY(:ids)
            RETURNING id, handler, attempts, uncounted, deaths, trigger, lane, delivery_seq
        )
        SELECT w.id, w.handler, w.attempts, w.uncounted, w.deaths, w.trigger, w.lane, {STORED} FROM w
        CROSS JOIN LATERAL (SELECT * FROM deliveries AS e WHERE e.seq = w.delivery_seq OFFSET 0) AS d
        CROSS JOIN LATERAL (SELECT * FROM bodies AS c WHERE c.seq = d.seq OFFSET 0) AS b
    """
    claim_returns = True
    items = f"""
        SELECT w.id, w.handler, w.attempts, w.uncounted, w.deaths, w.trigger, w.lane, {STORED}
        FROM unnest(CAST(:ids AS bigint[])) AS ids (id)
        CROSS JOIN LATERAL (SELECT * FROM work_items AS i WHERE i.id = ids.id OFFSET 0) AS w
        CROSS JOIN LATERAL (SELECT * FROM deliveries AS e WHERE e.seq = w.delivery_seq OFFSET 0) AS d
        CROSS JOIN LATERAL (SELECT * FROM bodies AS c WHERE c.seq = d.seq OFFSET 0) AS b
    """
    queued_behind = """
        SELECT h.id, w.id, w.attempts, (SELECT d.size FROM deliveries AS d WHERE d.seq = w.delivery_seq)
        FROM unnest(CAST(:ids AS bigint[])) WITH ORDINALITY AS ids (id, place)
        CROSS JOIN LATERAL (SELECT * FROM work_items AS i WHERE i.id = ids.id OFFSET 0) AS h
        CROSS JOIN LATERAL (
            SELECT * FROM work_items AS q
            WHERE q.handler = h.handler AND q.lane = h.lane AND q.state = 'queued' ORDER BY q.id LIMIT :each
        ) AS w
        ORDER BY ids.place, w.id
    """
    # A standby that took the place of the primary may not have what was read there, and gives its numbers to
    # others. The next worker may read what comes after.
    advance_routed = f"""
        WITH free AS (UPDATE marks SET value = 0 WHERE name = 'routing' AND value <> 0)
        UPDATE marks SET value = :through WHERE name = 'routed' AND value = :after AND {_SERVER} = :server
    """
    # Only as many as the batch takes, and one more: a body is not sent for nothing.
    unrouted = f"""
        SELECT {STORED}
        FROM (
            SELECT next.*, sum(size) OVER (ORDER BY seq) - size AS before
            FROM (SELECT * FROM deliveries WHERE seq > :after ORDER BY seq LIMIT :limit) AS next
        ) AS d
        CROSS JOIN LATERAL (SELECT * FROM bodies AS c WHERE c.seq = d.seq OFFSET 0) AS b
        WHERE d.before <= :max_bytes ORDER BY d.seq
    """
    insert_work = f"""
        WITH made AS (
            INSERT INTO work_items (
                delivery_seq, handler, lane, heads_lane, started, state, attempts, trigger, due_at, lease_until,
                worker, recheck_at, hold_until, note, action_id
            )
            SELECT
                i.seq, i.handler, i.lane, i.heads_lane, i.started, i.state,
                CASE i.state WHEN 'running' THEN 1 ELSE 0 END, CAST(:trigger AS text),
                CASE i.state WHEN 'waiting' THEN CAST(:due_at AS bigint) END,
                CASE i.state WHEN 'running' THEN CAST(:lease_until AS bigint) END,
                CASE i.state WHEN 'running' THEN CAST(:worker AS text) END,
                CASE i.state WHEN 'held' THEN CAST(:recheck_at AS bigint) END,
                CAST(:hold_until AS bigint), CAST(:note AS text), CAST(:action AS bigint)
            FROM unnest(
                CAST(:seqs AS bigint[]), CAST(:handlers AS text[]), CAST(:lanes AS text[]),
                CAST(:heads AS smallint[]), CAST(:starts AS smallint[]), CAST(:states AS text[])
            ) WITH ORDINALITY AS i (seq, handler, lane, heads_lane, started, state, place)
            ORDER BY i.place RETURNING id, handler
        ), {_NAME_HANDLERS}
    """
    also_ended = """
        INSERT INTO attempts (work_id, number, trigger, started_at, ended_at, outcome, error, traceback, overdue)
        SELECT
            CAST(o.id AS bigint), a.number, a.trigger, a.started_at, a.ended_at, a.outcome, a.error, a.traceback,
            a.overdue
        FROM json_array_elements(CAST(:items AS json)) AS s
        CROSS JOIN LATERAL (
            SELECT * FROM attempts
            WHERE work_id = CAST(s.value ->> 0 AS bigint) AND number = CAST(s.value ->> 1 AS integer) OFFSET 0
        ) AS a
        CROSS JOIN LATERAL json_array_elements_text(s.value -> 2) AS o (id)
    """
    count_minutes = """
        INSERT INTO handler_minutes AS m (minute, handler, outcome, bucket, part, count)
        SELECT CAST(value ->> 0 AS integer), value ->> 1, value ->> 2, CAST(value ->> 3 AS smallint),
            pg_backend_pid(), CAST(value ->> 4 AS bigint)
        FROM json_array_elements(CAST(:rows AS json))
        ON CONFLICT (minute, handler, outcome, bucket, part) DO UPDATE SET count = m.count + excluded.count
    """
    job_rows = JOB_ROWS
    before_jobs = (LOCK_SUMMED,)

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        self.record_work = lambda rows: _RECORD_WORK
        self.insert_attempts = lambda rows: _INSERT_ATTEMPTS
        # Another worker may claim them at once.
        self.release_leases = f"WITH stirred AS ({STIR}) {self.release_leases}"
