"""The SQL by which workers show themselves, and what they count."""

SIGN_ON = """
INSERT INTO workers (name, machine, pid, version, started_at, seen_at, limits)
VALUES (:name, :machine, :pid, :version, :started, :now, :limits)
ON CONFLICT (name) DO UPDATE SET seen_at = excluded.seen_at
"""

SIGN_OFF = "DELETE FROM workers WHERE name = :name"

FORGET_WORKERS = "DELETE FROM workers WHERE seen_at < :before"

COUNT_MINUTES = """
INSERT INTO handler_minutes (minute, handler, outcome, bucket, count)
SELECT
    json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'),
    json_extract(value, '$[3]'), json_extract(value, '$[4]')
FROM json_each(:rows) WHERE TRUE
ON CONFLICT (minute, handler, outcome, bucket) DO UPDATE SET count = count + excluded.count
"""
