"""The SQL of appending, and of bringing deliveries in from outside. Rows travel as one array for each column."""

from receiver.stores.sql.statements.columns import SUMMED
from receiver.stores.sql.statements.log import JobRowStatements

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

# One statement that is a transaction of its own: nobody can hold the lock by falling silent in between. Waiting for
# the lock loses no duplicate, as ON CONFLICT looks at the index and not at the snapshot of the statement.
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

# In one transaction, so that nobody sees the row.
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


# FOLDED: The SQL of locks that stand for something wider than a row. // Everybody takes locks in one order, so that
# no two wait for each other: that of the log, those of handlers by name, rows of deliveries by seq, rows of work
# items by id. A lock is a statement of its own before the one that reads, which sees what was committed when it
# began.
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
