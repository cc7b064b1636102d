"""The SQL that asks how a server is. Only members of pg_read_all_stats see the transactions of other users."""

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
