"""The SQL of appending, and of bringing deliveries in from outside."""

from receiver.stores.sql.columns_of_bodies import BESIDE, PLAIN
from receiver.stores.sql.statements.log import JobRowStatements

# FOLDED: The SQL of bodies that lie in files beside the database.
BODY = f"CASE b.coding WHEN {BESIDE} THEN body_beside(b.body) ELSE b.body END"
"""The body of a row of `bodies`, called `b`. The function of `sqlite/body_files.py` has to be there."""

WHOLE = f"""
SELECT b.seq, b.headers, {BODY} AS body, CASE b.coding WHEN {BESIDE} THEN {PLAIN} ELSE b.coding END AS coding
FROM bodies AS b
"""
"""The rows of `bodies` as they would be if all bodies lay in the database."""

STORE = "SELECT coalesce((SELECT value FROM marks WHERE name = 'store'), -1)"

IS_USED = f"SELECT EXISTS (SELECT 1 FROM bodies WHERE coding = {BESIDE} AND substr(body, 1, 8) = ?)"

# Each by one step in the index, however many bodies a file has.
NAMES = f"""
WITH RECURSIVE names (name) AS (
    SELECT min(substr(body, 1, 8)) FROM bodies WHERE coding = {BESIDE}
    UNION ALL
    SELECT (SELECT min(substr(body, 1, 8)) FROM bodies WHERE coding = {BESIDE} AND substr(body, 1, 8) > name)
    FROM names WHERE name IS NOT NULL
)
SELECT name FROM names WHERE name IS NOT NULL
"""

# The places in a file are in the order of their bytes.
IS_USED_FROM = (
    f"SELECT EXISTS (SELECT 1 FROM bodies WHERE coding = {BESIDE} AND substr(body, 1, 8) = substr(:place, 1, 8) "
    "AND body >= :place)"
)

SOME_PLACES = f"""
SELECT d.seq, d.key, b.body FROM bodies AS b JOIN deliveries AS d ON d.seq = b.seq WHERE b.coding = {BESIDE} LIMIT ?
"""

RENUMBER = "UPDATE marks SET value = random() & 4294967295 WHERE name = 'store'"

TAKE_IN = f"UPDATE bodies SET body = ?, coding = {PLAIN} WHERE seq = ?"


# FOLDED: The SQL of the index of keys. It calls functions of `sqlite/delivery_keys.py`.
_KEYED = "SELECT value FROM marks WHERE name = 'keyed'"
_MOVING = "SELECT value FROM marks WHERE name = 'keys_moving'"
_PLACE = "SELECT value FROM marks WHERE name = 'keys_place'"
_PART = "SELECT value FROM marks WHERE name = 'keys_part'"

PROGRESS = f"""
SELECT
    ({_KEYED}), ({_MOVING}), ({_PLACE}), ({_PART}),
    coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'deliveries'), 0),
    coalesce((SELECT value FROM marks WHERE name = 'removed'), 0)
"""

ADVANCE_KEYED = "UPDATE marks SET value = max(value, ?) WHERE name = 'keyed'"

NOTE_MOVING = """
UPDATE marks SET value = CASE name WHEN 'keys_moving' THEN :moving WHEN 'keys_place' THEN :place ELSE :part END
WHERE name IN ('keys_moving', 'keys_place', 'keys_part')
"""

BEHIND = "SELECT seq, key FROM deliveries WHERE seq > ? ORDER BY seq"

STORED = "SELECT 1 FROM deliveries WHERE seq = ? AND key = ?"


def find(keys: int) -> str:
    """Return the deliveries that the index finds by so many keys."""
    return (
        "SELECT d.key, d.seq FROM delivery_keys AS k CROSS JOIN deliveries AS d ON d.seq = k.seq "
        f"WHERE k.key IN ({', '.join('?' * keys)})"
    )


def move(rows: int) -> str:
    """Insert rows. They may be in the index already."""
    return "INSERT OR IGNORE INTO delivery_keys VALUES " + ", ".join(["(?, ?)"] * rows)


def move_unremoved(rows: int) -> str:
    """Insert rows, but for deliveries that were pruned."""
    values = ", ".join(["(?, ?)"] * rows)
    return (
        f"INSERT OR IGNORE INTO delivery_keys SELECT column1, column2 FROM (VALUES {values}) "
        "WHERE EXISTS (SELECT 1 FROM deliveries WHERE seq = column2)"
    )


# The condition on `d` that its key is `:key`. A key that was not moved yet is found by reading those deliveries.
HAS_KEY = f"""d.seq = coalesce(
    (
        SELECT k.seq FROM delivery_keys AS k CROSS JOIN deliveries AS i ON i.seq = k.seq
        WHERE k.key = index_key(:key) AND i.key = :key
    ),
    (SELECT n.seq FROM deliveries AS n WHERE n.seq > ({_KEYED}) AND n.key = :key)
)"""

# A key that was moved and lies behind the mark comes twice.
KEYS_FROM = f"""
SELECT key FROM delivery_keys WHERE key >= :first AND key < :above
UNION ALL
SELECT d.key FROM delivery_keys AS k CROSS JOIN deliveries AS d ON d.seq = k.seq
WHERE k.key BETWEEN index_floor(:first) AND index_ceiling(:first)
    AND length(k.key) = length(index_floor(:first)) AND d.key >= :first AND d.key < :above
UNION ALL
SELECT key FROM deliveries WHERE seq > ({_KEYED}) AND key >= :first AND key < :above
LIMIT :rows
"""


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

PROBE_SIZE = "INSERT INTO marks (name, value) VALUES ('probe:' || hex(zeroblob(?)), 0)"
"""Two characters for each byte."""

END_PROBE = "DELETE FROM marks WHERE name >= 'probe:' AND name < 'probe;'"


JOB_ROWS = JobRowStatements(
    # As in the index job_ends, to the letter: else SQLite does not use it (its manual, Partial Indexes).
    ends_job="(e.type GLOB '*.completed' OR e.type GLOB '*.failed' OR e.type GLOB '*.cancelled')",
    among_seqs="{} IN (SELECT value FROM json_each(:seqs))".format,
)

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
