"""The SQL of reports that only a PostgreSQL store has."""

# The second one stands still while nothing commits (PostgreSQL manual, Transaction ID and Snapshot Information
# Functions).
PLACE = """
SELECT (SELECT value FROM marks WHERE name = 'identity'), pg_snapshot_xmax(pg_current_snapshot())::text::bigint
"""
