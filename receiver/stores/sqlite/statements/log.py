"""The SQL of appending, and of bringing deliveries in from outside."""

from receiver.stores.sqlite.statements.body_files import BODY
from receiver.stores.sqlite.statements.delivery_keys import HAS_KEY

_DELIVERY_ROW = "(?, ?, ?, ?, ?, ?, ?, ?)"
_BODY_ROW = "(?, ?, ?, ?)"
_IMPORTED_ROW = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


def insert_deliveries(rows: int) -> str:
    """Insert rows."""
    return (
        "INSERT INTO deliveries (seq, key, type, job_id, webhook_id, success, received_at, size) VALUES "
        + ", ".join([_DELIVERY_ROW] * rows)
    )


def insert_bodies(rows: int) -> str:
    """Insert the headers and bodies of rows that were inserted."""
    return "INSERT INTO bodies (seq, headers, body, coding) VALUES " + ", ".join([_BODY_ROW] * rows)


def import_deliveries(rows: int) -> str:
    """Insert rows from outside."""
    return (
        "INSERT INTO deliveries "
        "(seq, key, type, job_id, webhook_id, success, received_at, size, duplicates, origin) VALUES "
        + ", ".join([_IMPORTED_ROW] * rows)
    )


HAS_DELIVERY = f"SELECT 1 FROM deliveries AS d WHERE {HAS_KEY}"

INSERT_DELIVERY = """
INSERT INTO deliveries (key, type, job_id, webhook_id, success, received_at, size, origin)
VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING seq
"""

COUNT_DUPLICATE = "UPDATE deliveries SET duplicates = duplicates + 1 WHERE seq = ?"

KEPT = f"""
SELECT d.size, {BODY}, b.coding FROM deliveries AS d LEFT JOIN bodies AS b ON b.seq = d.seq WHERE d.seq = ?
"""

QUARANTINE = "INSERT INTO quarantine (received_at, reason, detail, key, headers, body) VALUES (?, ?, ?, ?, ?, ?)"

RESTORED = "UPDATE deliveries SET pruned_at = NULL WHERE seq = ?"

MARK_BACKFILLED = "INSERT INTO marks (name, value) VALUES ('backfilled', 1) ON CONFLICT (name) DO NOTHING"

PROBE = """
INSERT INTO marks (name, value) VALUES ('probe', ?)
ON CONFLICT (name) DO UPDATE SET value = excluded.value
"""

PROBE_SIZE = "INSERT INTO marks (name, value) VALUES ('probe:' || hex(zeroblob(?)), 0)"
"""Two characters for each byte."""

END_PROBE = "DELETE FROM marks WHERE name >= 'probe:' AND name < 'probe;'"
