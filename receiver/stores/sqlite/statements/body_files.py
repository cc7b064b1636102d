"""The SQL of bodies that lie in files beside the database."""

from receiver.stores.sql.compression import BESIDE, PLAIN

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

HAS_BODY_FILES = "SELECT 1 FROM sqlite_schema WHERE name = 'bodies_beside'"

RENUMBER = "UPDATE marks SET value = random() & 4294967295 WHERE name = 'store'"

TAKE_IN = f"UPDATE bodies SET body = ?, coding = {PLAIN} WHERE seq = ?"
