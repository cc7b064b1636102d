"""The SQL of those who hold a lease."""

_LEASED = "id IN (SELECT value FROM json_each(:ids)) AND worker = :worker AND state = 'running'"

MARK_STARTED = f"UPDATE work_items SET started = 1 WHERE {_LEASED}"

CLEAR_STARTED = f"UPDATE work_items SET started = 0 WHERE {_LEASED}"

RENEW = f"UPDATE work_items SET lease_until = :until WHERE {_LEASED}"

RELEASE_LEASES = f"""
UPDATE work_items SET
    state = 'waiting', due_at = :now, lease_until = NULL, worker = NULL, started = 0, attempts = attempts - 1
WHERE {_LEASED}
"""

HOLDERS = "SELECT DISTINCT worker FROM work_items WHERE state = 'running' AND worker IS NOT NULL"

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
