"""The SQL of those who hold a lease. Rows are locked in the order of their ids: no two wait for each other."""

from receiver.core.types import WorkState
from receiver.stores.postgres.statements.by_id import by_id_in

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
