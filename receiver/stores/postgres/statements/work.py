"""The SQL that claims work items, and takes back what dead workers held."""

from collections.abc import Sequence
from datetime import timedelta

from receiver.core.rules import SUSPECT_LOSSES, TIME_STEP
from receiver.core.types import Trigger, WorkState
from receiver.core.work_states import BURIABLE, OPEN, RETRACTABLE, RETRYABLE, SKIPPABLE
from receiver.stores.postgres.statements.log import SYNC_IF_OFF
from receiver.stores.sql.statements.columns import ROUTED, STORED, in_states

# FOLDED: The SQL of the latest moment that the store knows, and of what waits when the clock was set back.
_STEP = TIME_STEP // timedelta(microseconds=1)

MICROS = "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)"
"""The time of the database, to compare clocks with it."""

LATEST = "SELECT value FROM marks WHERE name = 'latest'"

# ON CONFLICT locks the row even where it changes nothing, and every worker would wait for every other.
NOTE_TIME = f"""
INSERT INTO marks AS m (name, value)
SELECT 'latest', :now
WHERE NOT EXISTS (SELECT 1 FROM marks WHERE name = 'latest' AND value > CAST(:now AS bigint) - {_STEP})
ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE excluded.value >= m.value + {_STEP}
"""

# The handlers' own `paced_until` needs nothing: `rules.Pace` knows by itself how far ahead it can lie.
MOVE_BACK: Sequence[str] = (
    "UPDATE marks SET value = :now WHERE name = 'latest'",
    "UPDATE work_items SET due_at = greatest(:now, due_at - :by) WHERE state = 'waiting' AND due_at > :now",
    "UPDATE work_items SET recheck_at = greatest(:now, recheck_at - :by), "
    "hold_until = greatest(:now, hold_until - :by) WHERE state = 'held'",
    "UPDATE once_keys SET expires_at = greatest(:now, expires_at - :by) WHERE expires_at > :now",
)


# FOLDED: The condition on the state of work items that are found by their ids.
def by_id_in(state: str, column: str = "state") -> str:
    """Return the condition that the state is this one, so that only the primary key finds the rows.

    With a plain comparison, a plan takes the partial index of that state, which has few rows when the plan is made,
    and reads all of it, with what has left the state since. So to settle one of 40,000 work items read 68 pages.
    """
    return f"coalesce({column}, '') = '{state}'"


# The leases of all handlers: this worker may not have the code of some, and their work must not run for ever.
LOOK = f"""
SELECT EXISTS (SELECT 1 FROM work_items WHERE state = 'running' AND lease_until <= :steady), ({LATEST})
"""

# What another worker has locked, it takes back itself.
TAKE_LEASES_ENDED = """
SELECT id FROM work_items WHERE state = 'running' AND lease_until <= :steady
ORDER BY lease_until, id LIMIT :limit FOR UPDATE SKIP LOCKED
"""

LOSE_ATTEMPTS = """
INSERT INTO attempts (work_id, number, trigger, ended_at, outcome, error, overdue)
SELECT id, attempts, CASE attempts WHEN 1 THEN trigger ELSE 'retry' END, :now, 'lost', :error, 0
FROM work_items WHERE id = ANY(:ids)
"""

# The condition is that of `rules.suspicious`, and `rules.refusal` says what counts. A lease of nobody is that of a
# worker that has certainly died. On the right side of an UPDATE every column has its old value.
LOSE = f"""
UPDATE work_items SET
    state = 'waiting', due_at = :now, lease_until = NULL, worker = NULL, started = 0, last_error = :error,
    uncounted = uncounted + CASE suspect WHEN 0 THEN 1 ELSE 0 END, lost = lost + 1,
    deaths = deaths + CASE WHEN started = 1 AND worker IS NULL THEN 1 ELSE 0 END,
    suspect = CASE WHEN suspect = 1 OR started = 1 OR lost + 1 >= {SUSPECT_LOSSES} THEN 1 ELSE 0 END
WHERE id = ANY(:ids)
"""

# Each state by its own index.
ANY_SKIPPABLE = "SELECT " + " OR ".join(
    f"EXISTS (SELECT 1 FROM work_items WHERE handler = :handler AND state = '{state}')" for state in SKIPPABLE
)


def skip(state: str) -> str:
    """Skip work items of a handler that are in this state."""
    return f"""
    UPDATE work_items SET state = 'skipped', due_at = NULL, recheck_at = NULL, heads_lane = 0
    WHERE {by_id_in(state)} AND id = ANY(ARRAY(
        SELECT id FROM work_items WHERE handler = :handler AND state = '{state}' LIMIT :limit FOR UPDATE
    ))
    """


RUNNING = "SELECT count(*) FROM work_items WHERE handler = :handler AND state = 'running'"

PACED_UNTIL = "SELECT paced_until FROM handlers WHERE name = :handler"

PACE = """
INSERT INTO handlers (name, paced_until) VALUES (:handler, :until)
ON CONFLICT (name) DO UPDATE SET paced_until = excluded.paced_until
"""

# The size is asked for row by row, so that the delivery is found by its index whatever the statistics say.
_DUE = """
SELECT w.id, (SELECT d.size FROM deliveries AS d WHERE d.seq = w.delivery_seq) FROM work_items AS w
WHERE w.handler = :handler AND w.state = 'waiting' AND w.due_at <= :now AND w.suspect = {suspect}
ORDER BY w.due_at, w.id LIMIT :limit
"""

DUE = _DUE.format(suspect=0)

DUE_SUSPECTS = _DUE.format(suspect=1)

TAKE_DUE = f"{DUE} FOR UPDATE SKIP LOCKED"

TAKE_DUE_SUSPECTS = f"{DUE_SUSPECTS} FOR UPDATE SKIP LOCKED"

# Deliveries are looked up row by row, whatever the statistics say of their number.
CLAIM = f"""
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

CLAIM_RETURNS = True

ITEMS = f"""
SELECT w.id, w.handler, w.attempts, w.uncounted, w.deaths, w.trigger, w.lane, {STORED}
FROM unnest(CAST(:ids AS bigint[])) AS ids (id)
CROSS JOIN LATERAL (SELECT * FROM work_items AS i WHERE i.id = ids.id OFFSET 0) AS w
CROSS JOIN LATERAL (SELECT * FROM deliveries AS e WHERE e.seq = w.delivery_seq OFFSET 0) AS d
CROSS JOIN LATERAL (SELECT * FROM bodies AS c WHERE c.seq = d.seq OFFSET 0) AS b
"""

QUEUED_BEHIND = """
SELECT h.id, w.id, w.attempts, (SELECT d.size FROM deliveries AS d WHERE d.seq = w.delivery_seq)
FROM unnest(CAST(:ids AS bigint[])) WITH ORDINALITY AS ids (id, place)
CROSS JOIN LATERAL (SELECT * FROM work_items AS i WHERE i.id = ids.id OFFSET 0) AS h
CROSS JOIN LATERAL (
    SELECT * FROM work_items AS q
    WHERE q.handler = h.handler AND q.lane = h.lane AND q.state = 'queued' ORDER BY q.id LIMIT :each
) AS w
ORDER BY ids.place, w.id
"""

SUSPECT_DUE = """
SELECT 1 FROM work_items WHERE handler = :handler AND state = 'waiting' AND suspect = 1 AND due_at <= :now LIMIT 1
"""

NEXT_LEASE_END = "SELECT min(lease_until) FROM work_items WHERE state = 'running'"

NEXT_DUE = """
SELECT min(due_at) FROM work_items WHERE handler = :handler AND state = 'waiting'
UNION ALL SELECT min(recheck_at) FROM work_items WHERE handler = :handler AND state = 'held'
"""


# FOLDED: The SQL of what an operator decides.
RETRY = f"""
UPDATE work_items SET
    state = CASE WHEN lane IS NULL OR heads_lane = 1 THEN 'waiting' ELSE 'queued' END,
    due_at = CASE WHEN lane IS NULL OR heads_lane = 1 THEN CAST(:now AS bigint) END, recheck_at = NULL,
    uncounted = attempts, lost = 0, deaths = 0, suspect = 0, hold_until = NULL, action_id = CAST(:action AS bigint)
WHERE id = ANY(:ids) AND {in_states(RETRYABLE)}
    AND EXISTS (SELECT 1 FROM deliveries WHERE seq = delivery_seq AND pruned_at IS NULL)
"""

BURY = f"""
UPDATE work_items SET
    last_error = CASE state WHEN 'dead' THEN last_error ELSE :reason END, state = 'dead', due_at = NULL,
    recheck_at = NULL, heads_lane = 0, action_id = CASE WHEN state <> 'dead' THEN CAST(:action AS bigint) END
WHERE id = ANY(:ids) AND {in_states(BURIABLE)} AND (state <> 'dead' OR heads_lane = 1)
"""

TAKE_BACK = f"""
UPDATE work_items SET
    last_error = coalesce(last_error, :reason), state = 'dead', due_at = NULL, recheck_at = NULL,
    action_id = CAST(:action AS bigint)
WHERE id = ANY(:ids) AND {in_states(RETRACTABLE)} AND attempts = uncounted AND (lane IS NULL OR heads_lane = 0)
"""


SWITCH = """
INSERT INTO handlers (name, switch) VALUES (:handler, :to) ON CONFLICT (name) DO UPDATE SET switch = excluded.switch
"""

STIR = "UPDATE marks SET value = value + 1 WHERE name = 'stirred'"
"""Let workers look for work that they do not know of."""

FREE_REQUEST = "DELETE FROM quarantine WHERE id = :id"


# FOLDED: The SQL of held work items and of the pages that they wait for.
HELD = """
SELECT w.recheck_at, w.id, w.handler, d.type, d.job_id, d.received_at, w.hold_until
FROM work_items AS w JOIN deliveries AS d ON d.seq = w.delivery_seq
WHERE w.handler = :handler AND w.state = 'held' AND w.recheck_at <= :now ORDER BY w.recheck_at, w.id LIMIT :limit
"""

LAST_PAGE = """
SELECT received_at FROM deliveries WHERE job_id = :job_id AND type = :page_type ORDER BY seq DESC LIMIT 1
"""

UNROUTED_PAGE = f"""
SELECT key FROM deliveries WHERE job_id = :job_id AND type = :page_type AND seq > ({ROUTED}) LIMIT 1
"""

# The newest first: if a page is open, it is mostly among these.
OPEN_PAGE = f"""
SELECT d.key FROM deliveries AS d JOIN work_items AS w ON w.delivery_seq = d.seq
WHERE d.job_id = :job_id AND d.type = :page_type AND {in_states(OPEN, "w.state")} AND w.handler = ANY(:handlers)
    AND w.trigger <> '{Trigger.LATER}'
ORDER BY d.seq DESC LIMIT 1
"""

# Another worker may have moved the end of the hold back with the clock, while this one decided by the time before.
RECHECK = f"""
UPDATE work_items SET recheck_at = least(CAST(:at AS bigint), hold_until), note = :note
WHERE id = :id AND {by_id_in(WorkState.HELD)}
"""

# An item with a lane joins the queue. PROMOTE then takes it at once if the lane has no head.
RELEASE = f"""
UPDATE work_items SET
    state = CASE WHEN lane IS NULL THEN 'waiting' ELSE 'queued' END,
    due_at = CASE WHEN lane IS NULL THEN CAST(:now AS bigint) END, recheck_at = NULL, note = :note
WHERE id = :id AND {by_id_in(WorkState.HELD)}
"""


# FOLDED: The SQL of those who hold a lease. Rows are locked in the order of their ids: no two wait for each other.
_THEIRS = f"""
WITH theirs AS MATERIALIZED (
    SELECT id FROM work_items
    WHERE id = ANY(:ids) AND worker = :worker AND {by_id_in(WorkState.RUNNING)} ORDER BY id FOR UPDATE
)
"""

MARK_STARTED = f"{_THEIRS} UPDATE work_items SET started = 1 WHERE id = ANY(ARRAY(SELECT id FROM theirs))"

CLEAR_STARTED = f"{_THEIRS} UPDATE work_items SET started = 0 WHERE id = ANY(ARRAY(SELECT id FROM theirs))"

RENEW = f"{_THEIRS} UPDATE work_items SET lease_until = :until WHERE id = ANY(ARRAY(SELECT id FROM theirs))"

# Another worker may claim them at once.
RELEASE_LEASES = f"""
{_THEIRS}, stirred AS (UPDATE marks SET value = value + 1 WHERE name = 'stirred')
UPDATE work_items SET
    state = 'waiting', due_at = :now, lease_until = NULL, worker = NULL, started = 0, attempts = attempts - 1
WHERE id = ANY(ARRAY(SELECT id FROM theirs))
"""

# That nobody has the lease says for certain that its worker has died.
EXPIRE_LEASES = """
WITH theirs AS MATERIALIZED (
    SELECT id FROM work_items WHERE state = 'running' AND worker = :worker ORDER BY id FOR UPDATE
)
UPDATE work_items SET lease_until = :now, worker = NULL WHERE id = ANY(ARRAY(SELECT id FROM theirs))
"""


# FOLDED: The SQL of keys that a handler may use only one time.
ONCE = """
INSERT INTO once_keys AS k (handler, key, asked_at, expires_at) VALUES (:handler, :key, :now, :until)
ON CONFLICT (handler, key) DO UPDATE SET asked_at = excluded.asked_at, expires_at = excluded.expires_at
    WHERE k.expires_at <= excluded.asked_at
"""

AVAILABLE_ONCE_KEYS = """
SELECT s.value FROM unnest(CAST(:keys AS text[])) AS s (value) WHERE NOT EXISTS (
    SELECT 1 FROM once_keys AS k
    WHERE k.handler = :handler AND k.key = s.value AND (k.expires_at IS NULL OR k.expires_at > :now)
)
"""

SET_ONCE_EXPIRY = "UPDATE once_keys SET expires_at = :until WHERE handler = :handler AND key = :key"


# FOLDED: The SQL that turns deliveries into work items. Rows travel as one array for each column.
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


# FOLDED: The SQL that ends attempts and lets lanes go on.
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


# FOLDED: The SQL by which workers show themselves, and what they count.
SIGN_ON = """
INSERT INTO workers (name, machine, pid, version, started_at, seen_at, limits)
VALUES (:name, :machine, :pid, :version, :started, :now, :limits)
ON CONFLICT (name) DO UPDATE SET seen_at = excluded.seen_at
"""

SIGN_OFF = "DELETE FROM workers WHERE name = :name"

FORGET_WORKERS = "DELETE FROM workers WHERE seen_at < :before"

COUNT_MINUTES = """
INSERT INTO handler_minutes AS m (minute, handler, outcome, bucket, part, count)
SELECT CAST(value ->> 0 AS integer), value ->> 1, value ->> 2, CAST(value ->> 3 AS smallint), pg_backend_pid(),
    CAST(value ->> 4 AS bigint)
FROM json_array_elements(CAST(:rows AS json))
ON CONFLICT (minute, handler, outcome, bucket, part) DO UPDATE SET count = m.count + excluded.count
"""


# FOLDED: The SQL by which a worker sees that there may be something to do.
LATEST_CHANGE = f"""
SELECT (SELECT max(seq) FROM deliveries), sum(value) FILTER (WHERE name = 'stirred'),
    sum(value) FILTER (WHERE name = 'routed'), sum(value) FILTER (WHERE name = 'routing'), {MICROS}
FROM marks WHERE name IN ('stirred', 'routed', 'routing')
"""
"""The last delivery, how often workers were stirred, how far they have routed, and who is about to route."""
