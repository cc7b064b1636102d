"""The SQL that keeps one row for each job, up to the mark `summed`."""

from receiver.stores.sql.statements.job_rows import JobRowStatements

_ROWS = JobRowStatements(
    # As in the index job_ends, to the letter: else SQLite does not use it (its manual, Partial Indexes).
    ends_job="(e.type GLOB '*.completed' OR e.type GLOB '*.failed' OR e.type GLOB '*.cancelled')",
    among_seqs="{} IN (SELECT value FROM json_each(:seqs))".format,
)

REMOVE_OF_NEXT = _ROWS.remove_of_next
ADD_NEXT = _ROWS.add_next
ADVANCE_SUMMED = "UPDATE marks SET value = :through WHERE name = 'summed'"
# Acks wait for these. To group 256 deliveries of the same minute takes 16 steps for each, and this takes 10.
SPAN_OF_NEXT = """
SELECT min(received_at) / 60000000, max(received_at) / 60000000, count(*) FROM deliveries
WHERE seq > :after AND seq <= :through AND origin <> 'schedule'
"""
ADD_TO_MINUTE = """
INSERT INTO arrival_minutes (minute, count) VALUES (?, ?)
ON CONFLICT (minute) DO UPDATE SET count = count + excluded.count
"""
REMOVE_OF_PRUNED = _ROWS.remove_of_pruned
ADD_WITHOUT_PRUNED = _ROWS.add_without_pruned
