"""The SQL that claims work items, and takes back the leases of dead workers."""

from receiver.core.rules import SUSPECT_LOSSES
from receiver.core.work_states import SKIPPABLE
from receiver.stores.sql.statements.columns import stored
from receiver.stores.sqlite.statements.body_files import BODY
from receiver.stores.sqlite.statements.moments import LATEST

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
