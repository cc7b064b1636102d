"""The SQL of appending, and of bringing deliveries in from outside."""

LAST_SEQ = "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'deliveries'), 0)"

_DELIVERY_ROW = "(?, ?, ?, ?, ?, ?, ?, ?)"
_BODY_ROW = "(?, ?, ?)"
_IMPORTED_ROW = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


def insert_deliveries(rows: int) -> str:
    """Insert rows whose key is not stored, and skip the others."""
    return (
        "INSERT INTO deliveries (seq, key, type, job_id, webhook_id, success, received_at, size) VALUES "
        + ", ".join([_DELIVERY_ROW] * rows)
        + " ON CONFLICT (key) DO NOTHING"
    )


def insert_bodies(rows: int) -> str:
    """Insert the headers and bodies of rows that were inserted."""
    return "INSERT INTO bodies (seq, headers, body) VALUES " + ", ".join([_BODY_ROW] * rows)


def import_deliveries(rows: int) -> str:
    """Insert rows from outside whose key is not stored, and skip the others."""
    return (
        "INSERT INTO deliveries "
        "(seq, key, type, job_id, webhook_id, success, received_at, size, duplicates, origin) VALUES "
        + ", ".join([_IMPORTED_ROW] * rows)
        + " ON CONFLICT (key) DO NOTHING"
    )


INSERTED_SINCE = "SELECT seq FROM deliveries WHERE seq > ?"

COUNT_DUPLICATE = "UPDATE deliveries SET duplicates = duplicates + 1 WHERE key = ? RETURNING seq"

KEPT = """
SELECT d.seq, d.size, b.body, b.coding FROM deliveries AS d LEFT JOIN bodies AS b ON b.seq = d.seq WHERE d.key = ?
"""

QUARANTINE = "INSERT INTO quarantine (received_at, reason, detail, key, headers, body) VALUES (?, ?, ?, ?, ?, ?)"

RESTORED = "UPDATE deliveries SET pruned_at = NULL WHERE seq = ?"

MARK_BACKFILLED = "INSERT INTO marks (name, value) VALUES ('backfilled', 1) ON CONFLICT (name) DO NOTHING"

PROBE = """
INSERT INTO marks (name, value) VALUES ('probe', ?)
ON CONFLICT (name) DO UPDATE SET value = excluded.value
"""
