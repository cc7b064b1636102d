"""The SQL of the index of keys. It calls functions of `sqlite/delivery_keys.py`."""

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
