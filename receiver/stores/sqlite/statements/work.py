"""The SQL that claims work items, and takes back the leases of dead workers."""

from collections.abc import Sequence
from datetime import timedelta

from receiver.core.rules import SUSPECT_LOSSES, TIME_STEP
from receiver.core.types import Trigger
from receiver.core.work_states import BURIABLE, OPEN, RETRACTABLE, RETRYABLE, SKIPPABLE
from receiver.stores.sql.statements.columns import ROUTED, in_states, stored
from receiver.stores.sqlite.statements.log import BODY

# FOLDED: The SQL of the latest moment that the store knows, and of what waits when the clock was set back.
_STEP = TIME_STEP // timedelta(microseconds=1)

LATEST = "SELECT value FROM marks WHERE name = 'latest'"

NOTE_TIME = f"""
INSERT INTO marks (name, value) VALUES ('latest', :now)
ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE excluded.value >= value + {_STEP}
"""

# The handlers' own `paced_until` needs nothing: `rules.Pace` knows by itself how far ahead it can lie.
MOVE_BACK: Sequence[str] = (
    "UPDATE marks SET value = :now WHERE name = 'latest'",
    "UPDATE work_items SET due_at = max(:now, due_at - :by) WHERE state = 'waiting' AND due_at > :now",
    "UPDATE work_items SET recheck_at = max(:now, recheck_at - :by), hold_until = max(:now, hold_until - :by) "
    "WHERE state = 'held'",
    "UPDATE once_keys SET expires_at = max(:now, expires_at - :by) WHERE expires_at > :now",
)


# The leases of all handlers: this worker may not have the code of some, and their work must not run for ever.
LOOK = f"""
SELECT EXISTS (SELECT 1 FROM work_items WHERE state = 'running' AND lease_until <= :steady), ({LATEST})
"""

TAKE_LEASES_ENDED = "SELECT id FROM work_items WHERE state = 'running' AND lease_until <= :steady LIMIT :limit"

LOSE_ATTEMPTS = """
INSERT INTO attempts (work_id, number, trigger, ended_at, outcome, error, overdue)
SELECT id, attempts, iif(attempts = 1, trigger, 'retry'), :now, 'lost', :error, 0
FROM work_items WHERE id IN (SELECT value FROM json_each(:ids))
"""

# The condition is that of `rules.suspicious`, and `rules.refusal` says what counts. A lease of nobody is that of a
# worker that has certainly died. On the right side of an UPDATE every column has its old value.
LOSE = f"""
UPDATE work_items SET
    state = 'waiting', due_at = :now, lease_until = NULL, worker = NULL, started = 0, last_error = :error,
    uncounted = uncounted + (suspect = 0), lost = lost + 1, deaths = deaths + (started = 1 AND worker IS NULL),
    suspect = (suspect = 1 OR started = 1 OR lost + 1 >= {SUSPECT_LOSSES})
WHERE id IN (SELECT value FROM json_each(:ids))
"""

# Each state by its own index.
ANY_SKIPPABLE = "SELECT " + " OR ".join(
    f"EXISTS (SELECT 1 FROM work_items WHERE handler = :handler AND state = '{state}')" for state in SKIPPABLE
)


def skip(state: str) -> str:
    """Skip work items of a handler that are in this state."""
    return f"""
    UPDATE work_items SET state = 'skipped', due_at = NULL, recheck_at = NULL, heads_lane = 0
    WHERE id IN (SELECT id FROM work_items WHERE handler = :handler AND state = '{state}' LIMIT :limit)
    """


RUNNING = "SELECT count(*) FROM work_items WHERE handler = :handler AND state = 'running'"

PACED_UNTIL = "SELECT paced_until FROM handlers WHERE name = :handler"

PACE = """
INSERT INTO handlers (name, paced_until) VALUES (:handler, :until)
ON CONFLICT (name) DO UPDATE SET paced_until = excluded.paced_until
"""

DUE = """
SELECT w.id, d.size FROM work_items AS w JOIN deliveries AS d ON d.seq = w.delivery_seq
WHERE w.handler = :handler AND w.state = 'waiting' AND w.due_at <= :now AND w.suspect = 0
ORDER BY w.due_at LIMIT :limit
"""

DUE_SUSPECTS = """
SELECT w.id, d.size FROM work_items AS w JOIN deliveries AS d ON d.seq = w.delivery_seq
WHERE w.handler = :handler AND w.state = 'waiting' AND w.suspect = 1 AND w.due_at <= :now
ORDER BY w.due_at LIMIT :limit
"""

# The write lock keeps others away.
TAKE_DUE, TAKE_DUE_SUSPECTS = DUE, DUE_SUSPECTS

CLAIM = """
UPDATE work_items SET
    state = 'running', due_at = NULL, lease_until = :until, worker = :worker, attempts = attempts + 1,
    started = id IN (SELECT value FROM json_each(:starting))
WHERE id IN (SELECT value FROM json_each(:ids))
"""

ITEMS = f"""
SELECT w.id, w.handler, w.attempts, w.uncounted, w.deaths, w.trigger, w.lane, {stored(BODY)}
FROM json_each(:ids) AS ids
JOIN work_items AS w ON w.id = ids.value
JOIN deliveries AS d ON d.seq = w.delivery_seq
JOIN bodies AS b ON b.seq = d.seq
"""

CLAIM_RETURNS = False

QUEUED_BEHIND = """
SELECT h.id, w.id, w.attempts, d.size
FROM json_each(:ids) AS ids
JOIN work_items AS h ON h.id = ids.value
JOIN work_items AS w ON w.id IN (
    SELECT q.id FROM work_items AS q
    WHERE q.handler = h.handler AND q.lane = h.lane AND q.state = 'queued' ORDER BY q.id LIMIT :each
)
JOIN deliveries AS d ON d.seq = w.delivery_seq
ORDER BY ids.key, w.id
"""

SUSPECT_DUE = """
SELECT 1 FROM work_items WHERE handler = :handler AND state = 'waiting' AND suspect = 1 AND due_at <= :now
"""

NEXT_LEASE_END = "SELECT min(lease_until) FROM work_items WHERE state = 'running'"

NEXT_DUE = """
SELECT min(due_at) FROM work_items WHERE handler = :handler AND state = 'waiting'
UNION ALL SELECT min(recheck_at) FROM work_items WHERE handler = :handler AND state = 'held'
"""


# FOLDED: The SQL of what an operator decides.
RETRY = f"""
UPDATE work_items SET
    state = iif(lane IS NULL OR heads_lane, 'waiting', 'queued'),
    due_at = iif(lane IS NULL OR heads_lane, :now, NULL), recheck_at = NULL,
    uncounted = attempts, lost = 0, deaths = 0, suspect = 0, hold_until = NULL, action_id = :action
WHERE id IN (SELECT value FROM json_each(:ids)) AND {in_states(RETRYABLE)}
    AND EXISTS (SELECT 1 FROM deliveries WHERE seq = delivery_seq AND pruned_at IS NULL)
"""

BURY = f"""
UPDATE work_items SET
    last_error = iif(state = 'dead', last_error, :reason), state = 'dead', due_at = NULL, recheck_at = NULL,
    heads_lane = 0, action_id = iif(state = 'dead', NULL, :action)
WHERE id IN (SELECT value FROM json_each(:ids))
    AND {in_states(BURIABLE)} AND (state <> 'dead' OR heads_lane)
"""

TAKE_BACK = f"""
UPDATE work_items SET
    last_error = coalesce(last_error, :reason), state = 'dead', due_at = NULL, recheck_at = NULL,
    action_id = :action
WHERE id IN (SELECT value FROM json_each(:ids))
    AND {in_states(RETRACTABLE)} AND attempts = uncounted AND (lane IS NULL OR heads_lane = 0)
"""


SWITCH = """
INSERT INTO handlers (name, switch) VALUES (:handler, :to) ON CONFLICT (name) DO UPDATE SET switch = excluded.switch
"""

FREE_REQUEST = "DELETE FROM quarantine WHERE id = :id"


# FOLDED: The SQL of held work items and of the pages that they wait for.
HELD = """
SELECT w.recheck_at, w.id, w.handler, d.type, d.job_id, d.received_at, w.hold_until
FROM work_items AS w JOIN deliveries AS d ON d.seq = w.delivery_seq
WHERE w.handler = :handler AND w.state = 'held' AND w.recheck_at <= :now ORDER BY w.recheck_at LIMIT :limit
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
WHERE d.job_id = :job_id AND d.type = :page_type AND {in_states(OPEN, "w.state")}
    AND w.handler IN (SELECT value FROM json_each(:handlers)) AND w.trigger <> '{Trigger.LATER}'
ORDER BY d.seq DESC LIMIT 1
"""

# Another worker may have moved the end of the hold back with the clock, while this one decided by the time before.
RECHECK = """
UPDATE work_items SET recheck_at = min(:at, coalesce(hold_until, :at)), note = :note
WHERE id = :id AND state = 'held'
"""

# An item with a lane joins the queue. PROMOTE then takes it at once if the lane has no head.
RELEASE = """
UPDATE work_items SET
    state = iif(lane IS NULL, 'waiting', 'queued'), due_at = iif(lane IS NULL, :now, NULL), recheck_at = NULL,
    note = :note
WHERE id = :id AND state = 'held'
"""


# FOLDED: The SQL of those who hold a lease.
_LEASED = "id IN (SELECT value FROM json_each(:ids)) AND worker = :worker AND state = 'running'"

MARK_STARTED = f"UPDATE work_items SET started = 1 WHERE {_LEASED}"

CLEAR_STARTED = f"UPDATE work_items SET started = 0 WHERE {_LEASED}"

RENEW = f"UPDATE work_items SET lease_until = :until WHERE {_LEASED}"

RELEASE_LEASES = f"""
UPDATE work_items SET
    state = 'waiting', due_at = :now, lease_until = NULL, worker = NULL, started = 0, attempts = attempts - 1
WHERE {_LEASED}
"""

LEASE_HOLDERS = "SELECT DISTINCT worker FROM work_items WHERE state = 'running' AND worker IS NOT NULL"

# The file of locks that workers were last seen to use, and since when; the first one of a store has no beginning.
LOCKS_FILE = """
SELECT
    (SELECT value FROM marks WHERE name = 'locks_file') AS file,
    (SELECT value FROM marks WHERE name = 'locks_file_since') AS since
"""

# That nobody has the lease says for certain that its worker has died.
EXPIRE_LEASES = (
    "UPDATE work_items SET lease_until = :now, worker = NULL WHERE state = 'running' AND worker = :worker"
)


# FOLDED: The SQL of keys that a handler may use only one time.
ONCE = """
INSERT INTO once_keys (handler, key, asked_at, expires_at) VALUES (:handler, :key, :now, :until)
ON CONFLICT (handler, key) DO UPDATE SET asked_at = excluded.asked_at, expires_at = excluded.expires_at
    WHERE expires_at <= excluded.asked_at
"""

AVAILABLE_ONCE_KEYS = """
SELECT value FROM json_each(:keys) WHERE NOT EXISTS (
    SELECT 1 FROM once_keys
    WHERE handler = :handler AND key = value AND (expires_at IS NULL OR expires_at > :now)
)
"""

SET_ONCE_EXPIRY = "UPDATE once_keys SET expires_at = :until WHERE handler = :handler AND key = :key"


# FOLDED: The SQL that turns deliveries into work items.
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


# FOLDED: The SQL that ends attempts and lets lanes go on.
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


# FOLDED: The SQL by which workers show themselves, and what they count.
SIGN_ON = """
INSERT INTO workers (name, machine, pid, version, started_at, seen_at, limits)
VALUES (:name, :machine, :pid, :version, :started, :now, :limits)
ON CONFLICT (name) DO UPDATE SET seen_at = excluded.seen_at
"""

SIGN_OFF = "DELETE FROM workers WHERE name = :name"

FORGET_WORKERS = "DELETE FROM workers WHERE seen_at < :before"

COUNT_MINUTES = """
INSERT INTO handler_minutes (minute, handler, outcome, bucket, count)
SELECT
    json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'),
    json_extract(value, '$[3]'), json_extract(value, '$[4]')
FROM json_each(:rows) WHERE TRUE
ON CONFLICT (minute, handler, outcome, bucket) DO UPDATE SET count = count + excluded.count
"""
