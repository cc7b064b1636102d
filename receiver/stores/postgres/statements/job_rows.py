"""The SQL that keeps one row for each job, up to the mark `summed`."""

from receiver.stores.sql.statements.columns import SUMMED
from receiver.stores.sql.statements.job_rows import JobRowStatements

_ROWS = JobRowStatements(
    # As in the index job_ends.
    ends_job="(e.type LIKE '%.completed' OR e.type LIKE '%.failed' OR e.type LIKE '%.cancelled')",
    among_seqs="{} = ANY(:seqs)".format,
)

REMOVE_OF_NEXT = _ROWS.remove_of_next
ADD_NEXT = _ROWS.add_next
REMOVE_OF_PRUNED = _ROWS.remove_of_pruned
ADD_WITHOUT_PRUNED = _ROWS.add_without_pruned

# Its row is locked, so that only one transaction at a time changes the rows of jobs. Nobody waits for it:
# whoever has it does the same.
ADVANCE_SUMMED = """
WITH free AS MATERIALIZED (
    SELECT name FROM marks WHERE name = 'summed' AND value = :after FOR UPDATE SKIP LOCKED
)
UPDATE marks SET value = :through FROM free WHERE marks.name = free.name
"""

LOCK_SUMMED = f"{SUMMED} FOR UPDATE"
