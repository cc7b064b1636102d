"""The SQL that ends a copy into a PostgreSQL store."""

# Without a number that was given, the first one is 1.
CONTINUE_BEHIND = "SELECT setval(pg_get_serial_sequence(:table, :column), greatest(:last, 1), :last > 0)"

NO_JOBS = "DELETE FROM jobs"

NO_MINUTES = "DELETE FROM arrival_minutes"

SET_SUMMED = "UPDATE marks SET value = :through WHERE name = 'summed'"
