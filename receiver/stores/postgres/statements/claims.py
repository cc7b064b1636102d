"""The SQL that claims work items, and takes back what dead workers held."""

from receiver.core.rules import SUSPECT_LOSSES
from receiver.core.work_states import SKIPPABLE
from receiver.stores.postgres.statements.by_id import by_id_in
from receiver.stores.postgres.statements.moments import LATEST
from receiver.stores.sql.statements.columns import STORED

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
