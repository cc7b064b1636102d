"""The SQL that only PostgreSQL has. Rows travel as one array for each column."""

from receiver.stores.sql.dialect import Dialect
from receiver.stores.sql.statements.columns import STORED, SUMMED
from receiver.stores.sql.statements.log import JobRowStatements
from receiver.stores.sql.statements.writing import STEP, Statements

SYNC_IF_OFF = """CASE current_setting('synchronous_commit')
    WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END"""

APPEND_TURN = "SELECT pg_advisory_xact_lock(:append_lock, 0)"
"""Whoever inserts deliveries takes this lock before the first number is given, so that numbers grow in the order of
commits, and a reader that goes by them misses none."""

_GIVEN = f"""
WITH turn AS MATERIALIZED (SELECT pg_advisory_xact_lock(:append_lock, 0), {SYNC_IF_OFF}),
given AS MATERIALIZED (
    SELECT g.* FROM turn CROSS JOIN unnest(
        CAST(:keys AS text[]), CAST(:types AS text[]), CAST(:job_ids AS text[]), CAST(:webhook_ids AS text[]),
        CAST(:successes AS boolean[]), CAST(:moments AS bigint[]), CAST(:sizes AS integer[]),
        CAST(:duplicates AS integer[]), CAST(:origins AS text[]), CAST(:headers AS text[]), CAST(:bodies AS bytea[])
    ) WITH ORDINALITY AS g (
        key, type, job_id, webhook_id, success, received_at, size, duplicates, origin, headers, body, place
    )
)
"""

# One statement that is a transaction of its own: no process can hold the lock by falling silent in between. Waiting
# for the lock loses no duplicate, as ON CONFLICT looks at the index and not at the snapshot of the statement.
APPEND = f"""
{_GIVEN}, made AS (
    INSERT INTO deliveries (key, type, job_id, webhook_id, success, received_at, size, duplicates, origin)
    SELECT key, type, job_id, webhook_id, success, received_at, size, duplicates, origin FROM given
    WHERE NOT EXISTS (SELECT 1 FROM deliveries AS d WHERE d.key = given.key)
    ORDER BY place ON CONFLICT (key) DO NOTHING RETURNING seq, key
), stored AS (
    INSERT INTO bodies (seq, headers, body)
    SELECT DISTINCT ON (made.seq) made.seq, given.headers, given.body
    FROM made JOIN given ON given.key = made.key ORDER BY made.seq, given.place
)
SELECT key FROM made
"""
"""Store deliveries whose keys are not stored; of several with one key the first. Returns the new keys."""

SEQ_OF = "SELECT seq FROM deliveries WHERE key = :key"

KEPT = """
SELECT d.key, d.seq, d.size, b.body, b.coding FROM deliveries AS d LEFT JOIN bodies AS b ON b.seq = d.seq
WHERE d.key = ANY(:keys) ORDER BY d.seq FOR NO KEY UPDATE OF d
"""

COUNT_DUPLICATES = """
UPDATE deliveries AS d SET duplicates = d.duplicates + g.times
FROM unnest(CAST(:seqs AS bigint[]), CAST(:times AS integer[])) AS g (seq, times) WHERE d.seq = g.seq
"""

RESTORE_BODY = "INSERT INTO bodies (seq, headers, body) VALUES (?, ?, ?)"

# In one transaction, so that the row is never seen.
PROBE_SIZE = "INSERT INTO bodies (seq, headers, body) VALUES (-pg_backend_pid(), '', ?)"

END_PROBE = "DELETE FROM bodies WHERE seq = -pg_backend_pid()"


JOB_ROWS = JobRowStatements(
    # As in the index job_ends.
    ends_job="(e.type LIKE '%.completed' OR e.type LIKE '%.failed' OR e.type LIKE '%.cancelled')",
    among_seqs="{} = ANY(:seqs)".format,
)

# Its row is locked, so that only one transaction at a time changes the rows of jobs. Nobody waits for it:
# whoever has it does the same.
ADVANCE_SUMMED = """
WITH free AS MATERIALIZED (
    SELECT name FROM marks WHERE name = 'summed' AND value = :after FOR UPDATE SKIP LOCKED
)
UPDATE marks SET value = :through FROM free WHERE marks.name = free.name
"""

LOCK_SUMMED = f"{SUMMED} FOR UPDATE"


# Everybody takes locks in one order, so that no two wait for each other: that of the log, those of handlers by
# name, rows of deliveries by seq, rows of work items by id. A lock is a statement of its own before the one that
# reads, which sees what was committed when it began.
LOCK_HANDLERS = """
SELECT pg_advisory_xact_lock(:handlers_lock, hashtext(name)) FROM unnest(CAST(:names AS text[])) AS names (name)
"""
"""Take the locks of handlers, which come sorted."""

HANDLERS_WITH_LANES = "SELECT DISTINCT handler FROM work_items WHERE id = ANY(:ids) AND lane IS NOT NULL ORDER BY 1"

KEEP_DELIVERIES = """
SELECT 1 FROM deliveries WHERE seq = ANY(ARRAY(SELECT delivery_seq FROM work_items WHERE id = ANY(:ids)))
ORDER BY seq FOR KEY SHARE
"""
"""Nobody prunes these meanwhile."""

LOCK_DELIVERIES = "SELECT 1 FROM deliveries WHERE seq = ANY(:seqs) ORDER BY seq FOR UPDATE"
"""Nobody else makes or retries work of these meanwhile."""


# Without a number that was given, the first one is 1.
CONTINUE_BEHIND = "SELECT setval(pg_get_serial_sequence(:table, :column), greatest(:last, 1), :last > 0)"

NO_JOBS = "DELETE FROM jobs"

NO_MINUTES = "DELETE FROM arrival_minutes"

SET_SUMMED = "UPDATE marks SET value = :through WHERE name = 'summed'"


# The table of words is always there: a worker need not be allowed to make one.
HAS_WORDS = "SELECT count(*) FROM marks WHERE name = 'searched'"

CREATE_WORDS = "INSERT INTO marks (name, value) VALUES ('searched', 1) ON CONFLICT (name) DO NOTHING"

ADVANCE_INDEXED = "UPDATE marks SET value = :last WHERE name = 'indexed' AND value = :after"

UNINDEXED = "SELECT seq, length(body) FROM bodies WHERE seq > :after ORDER BY seq LIMIT :limit"

BODIES = "SELECT seq, body, coding FROM bodies WHERE seq > :after AND seq <= :last ORDER BY seq"

# A body that is pruned at this moment has no words, and one that was imported again has them already.
INSERT_WORDS = """
INSERT INTO words (seq, words)
SELECT b.seq, t.vector::tsvector
FROM unnest(:seqs::bigint[], :vectors::text[]) AS t (seq, vector) JOIN bodies AS b ON b.seq = t.seq
FOR KEY SHARE OF b
ON CONFLICT (seq) DO NOTHING
"""

# Only members of pg_read_all_stats see the transactions of other users.
SIZE = """
SELECT coalesce(sum(pg_total_relation_size(relid)), 0)::bigint, coalesce(sum(n_dead_tup), 0)::bigint
FROM pg_stat_user_tables WHERE schemaname = :schema
"""

# Not our own: it is as old as this statement.
OLDEST_SNAPSHOT = """
SELECT floor(extract(epoch FROM clock_timestamp() - min(xact_start)))::bigint
FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid()
"""

STANDBY_LAG = "SELECT ceil(extract(epoch FROM max(replay_lag)))::bigint FROM pg_stat_replication"

SETTINGS = """
SELECT
    current_setting('full_page_writes'), (SELECT count(*) FROM pg_stat_replication),
    current_setting('synchronous_standby_names') <> ''
        AND current_setting('synchronous_commit') NOT IN ('off', 'local')
"""


# The second number stands still while nothing commits (PostgreSQL manual, Transaction ID and Snapshot Information
# Functions).
PLACE = """
SELECT (SELECT value FROM marks WHERE name = 'identity'), pg_snapshot_xmax(pg_current_snapshot())::text::bigint
"""


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
