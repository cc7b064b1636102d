"""The SQL that ends a copy into a PostgreSQL store."""

from receiver.stores.sql.statements.columns import INDEXED_TO

# Without a number that was given, the first one is 1.
CONTINUE_BEHIND = "SELECT setval(pg_get_serial_sequence(:table, :column), greatest(:last, 1), :last > 0)"

NO_JOBS = "DELETE FROM jobs"

NO_MINUTES = "DELETE FROM arrival_minutes"

SET_SUMMED = "UPDATE marks SET value = :through WHERE name = 'summed'"


# FOLDED: The SQL of the index of words.
# The table is always there: a worker need not be allowed to make one.
EXISTS = "SELECT count(*) FROM marks WHERE name = 'searched'"

CREATE = "INSERT INTO marks (name, value) VALUES ('searched', 1) ON CONFLICT (name) DO NOTHING"

ADVANCE_INDEXED = "UPDATE marks SET value = :last WHERE name = 'indexed' AND value = :after"

UNINDEXED = "SELECT seq, length(body) FROM bodies WHERE seq > :after ORDER BY seq LIMIT :limit"

BODIES = "SELECT seq, body, coding FROM bodies WHERE seq > :after AND seq <= :last ORDER BY seq"

# A body that is pruned at this moment has no words, and one that was imported again has them already.
INSERT_WORDS = """
INSERT INTO words (seq, words)
SELECT b.seq, t.vector::tsvector
FROM unnest(:seqs::bigint[], :vectors::text[]) AS t (seq, vector) JOIN bodies AS b ON b.seq = t.seq
FOR KEY SHARE OF b
ON CONFLICT (seq) DO NOTHING
"""

BEHIND = f"""
SELECT
    (SELECT count(*) FROM deliveries WHERE seq > ({INDEXED_TO}) AND pruned_at IS NULL),
    (SELECT received_at FROM deliveries WHERE seq <= ({INDEXED_TO}) ORDER BY seq DESC LIMIT 1)
"""


# FOLDED: The SQL that asks how a server is. Only members of pg_read_all_stats see the transactions of other users.
SIZE = """
SELECT coalesce(sum(pg_total_relation_size(relid)), 0)::bigint, coalesce(sum(n_dead_tup), 0)::bigint
FROM pg_stat_user_tables WHERE schemaname = :schema
"""

# Not our own: it is as old as this statement.
OLDEST_SNAPSHOT = """
SELECT floor(extract(epoch FROM clock_timestamp() - min(xact_start)))::bigint
FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid()
"""

STANDBY_LAG = "SELECT ceil(extract(epoch FROM max(replay_lag)))::bigint FROM pg_stat_replication"

SETTINGS = """
SELECT
    current_setting('full_page_writes'), (SELECT count(*) FROM pg_stat_replication),
    current_setting('synchronous_standby_names') <> ''
        AND current_setting('synchronous_commit') NOT IN ('off', 'local')
"""


# FOLDED: The SQL of reports that only a PostgreSQL store has.
# The second one stands still while nothing commits (PostgreSQL manual, Transaction ID and Snapshot Information
# Functions).
PLACE = """
SELECT (SELECT value FROM marks WHERE name = 'identity'), pg_snapshot_xmax(pg_current_snapshot())::text::bigint
"""
