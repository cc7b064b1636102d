"""The SQL by which workers show themselves, and what they count."""

SIGN_ON = """
INSERT INTO workers (name, machine, pid, version, started_at, seen_at, limits)
VALUES (:name, :machine, :pid, :version, :started, :now, :limits)
ON CONFLICT (name) DO UPDATE SET seen_at = excluded.seen_at
"""

SIGN_OFF = "DELETE FROM workers WHERE name = :name"

FORGET_WORKERS = "DELETE FROM workers WHERE seen_at < :before"

COUNT_MINUTES = """
INSERT INTO handler_minutes AS m (minute, handler, outcome, bucket, part, count)
SELECT CAST(value ->> 0 AS integer), value ->> 1, value ->> 2, CAST(value ->> 3 AS smallint), pg_backend_pid(),
    CAST(value ->> 4 AS bigint)
FROM json_array_elements(CAST(:rows AS json))
ON CONFLICT (minute, handler, outcome, bucket, part) DO UPDATE SET count = m.count + excluded.count
"""
