"""The SQL that only SQLite has, but for work items. The process that writes loads it.

Rows travel together, as one JSON array or many to a statement. Between two steps of a statement Python gives its
interpreter lock away and takes it again, which can take milliseconds under load. So nothing here runs row by row
where a batch can be long. Some statements call the functions of `delivery_keys` and `bodies`.
"""

from collections.abc import Callable, Sequence
from itertools import chain

from receiver.stores.sql.columns_of_bodies import BESIDE, PLAIN
from receiver.stores.sql.connection import SqlConnection
from receiver.stores.sql.statements.log import JobRowStatements

BODY = f"CASE b.coding WHEN {BESIDE} THEN body_beside(b.body) ELSE b.body END"
"""The body of a row of `bodies`, called `b`. The function of `bodies` has to be there."""

WHOLE = f"""
SELECT b.seq, b.headers, {BODY} AS body, CASE b.coding WHEN {BESIDE} THEN {PLAIN} ELSE b.coding END AS coding
FROM bodies AS b
"""
"""The rows of `bodies` as they would be if all bodies were in the database."""

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

# A key that was moved and is above the mark comes twice.
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


CONTENTS = "SELECT count(*), max(received_at) FROM deliveries"

NEWER = "SELECT count(*) FROM deliveries WHERE received_at > ?"

NO_WORKERS = "DELETE FROM workers"

# Nobody knows how an attempt ended that ran while the backup was made. It is lost, and makes nothing a suspect.
END_LEASES = "UPDATE work_items SET lease_until = 0, started = 0 WHERE state = 'running'"


ADD_SEQUENCE = """
INSERT INTO sqlite_sequence (name, seq)
SELECT :table, 0 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = :table)
"""

CONTINUE_BEHIND = "UPDATE sqlite_sequence SET seq = max(seq, :last) WHERE name = :table"

NO_KEYS = "DELETE FROM delivery_keys"

ADD_KEYS = "INSERT INTO delivery_keys SELECT index_key(key), seq FROM deliveries ORDER BY 1"

NO_JOBS = "DELETE FROM jobs"

NO_MINUTES = "DELETE FROM arrival_minutes"


REMOVE_KEYS = """
DELETE FROM delivery_keys WHERE (key, seq) IN (
    SELECT index_key(key), seq FROM deliveries WHERE seq IN (SELECT value FROM json_each(:seqs))
)
"""

NOTE_REMOVED = """
INSERT INTO marks (name, value) SELECT 'removed', coalesce(max(value), 0) FROM json_each(:seqs) WHERE TRUE
ON CONFLICT (name) DO UPDATE SET value = max(value, excluded.value)
"""

COMPRESSED = "SELECT coalesce((SELECT value FROM marks WHERE name = 'compressed'), 0)"

TO_COMPRESS = f"""
SELECT d.seq, d.size, {BODY}, b.coding FROM deliveries AS d JOIN bodies AS b ON b.seq = d.seq
WHERE d.seq > :after AND d.seq <= :last AND d.size >= :least AND b.coding IN ({PLAIN}, {BESIDE}) ORDER BY d.seq
"""

# By the index of what is in files: with the plus, SQLite cannot use the other condition for a search.
LEFT_BEHIND = f"""
SELECT b.seq, d.size, {BODY}, b.coding FROM bodies AS b JOIN deliveries AS d ON d.seq = b.seq
WHERE b.coding = {BESIDE} AND +b.seq <= :after
"""

COMPRESS = f"UPDATE bodies SET body = ?, coding = ? WHERE seq = ? AND coding IN ({PLAIN}, {BESIDE})"

ADVANCE_COMPRESSED = """
INSERT INTO marks (name, value) VALUES ('compressed', ?)
ON CONFLICT (name) DO UPDATE SET value = max(value, excluded.value)
"""


# The words come in small letters and without accents (`core.search`), so that every store finds the same.
CREATE_WORDS = """
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(
    url, title, error, columnsize = 0, tokenize = "unicode61 remove_diacritics 0"
)
"""

FORGET = """
CREATE TRIGGER IF NOT EXISTS words_forget AFTER DELETE ON bodies BEGIN
    DELETE FROM words WHERE rowid = old.seq;
END
"""

HAS_WORDS = "SELECT count(*) FROM sqlite_master WHERE name = 'words'"

HAS_MODULE = "SELECT count(*) FROM pragma_module_list WHERE name = 'fts5'"

ADVANCE_INDEXED = "UPDATE marks SET value = ? WHERE name = 'indexed' AND value = ?"

UNINDEXED = f"SELECT b.seq, {BODY}, b.coding FROM bodies AS b WHERE seq > ? ORDER BY seq LIMIT ?"

# A body that was pruned since it was read must stay out, and one that was imported again is in already.
INSERT_WORDS = """
INSERT INTO words (rowid, url, title, error)
SELECT b.seq, json_extract(t.value, '$[1]'), json_extract(t.value, '$[2]'), json_extract(t.value, '$[3]')
FROM json_each(?) AS t CROSS JOIN bodies AS b ON b.seq = json_extract(t.value, '$[0]')
WHERE NOT EXISTS (SELECT 1 FROM words AS known WHERE known.rowid = b.seq)
"""


def insert_by_powers(
    connection: SqlConnection, statement: Callable[[int], str], rows: Sequence[tuple[object, ...]]
) -> None:
    """Insert rows, a power of two to each statement.

    Each length is a statement of its own, and a cached statement keeps the values that were bound to it last.
    """
    done = 0
    while done < len(rows):
        length = 1 << ((len(rows) - done).bit_length() - 1)
        connection.execute(statement(length), tuple(chain.from_iterable(rows[done : done + length])))
        done += length
