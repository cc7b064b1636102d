"""The SQL that keeps a store small."""

from collections.abc import Sequence

from receiver.stores.sql.compression import BESIDE, PLAIN
from receiver.stores.sqlite.statements.body_files import BODY
from receiver.stores.sqlite.statements.job_rows import ADD_WITHOUT_PRUNED, REMOVE_OF_PRUNED

REMOVE_BODIES = "DELETE FROM bodies WHERE seq IN (SELECT value FROM json_each(:seqs))"

NOTE_PRUNED = "UPDATE deliveries SET pruned_at = :now WHERE seq IN (SELECT value FROM json_each(:seqs))"

REMOVE_ATTEMPTS = """
DELETE FROM attempts WHERE work_id IN (
    SELECT id FROM work_items WHERE delivery_seq IN (SELECT value FROM json_each(:seqs))
)
"""

REMOVE_WORK = "DELETE FROM work_items WHERE delivery_seq IN (SELECT value FROM json_each(:seqs))"

# The functions of `sqlite/delivery_keys.py` have to be there.
REMOVE_KEYS = """
DELETE FROM delivery_keys WHERE (key, seq) IN (
    SELECT index_key(key), seq FROM deliveries WHERE seq IN (SELECT value FROM json_each(:seqs))
)
"""

REMOVE_DELIVERIES = "DELETE FROM deliveries WHERE seq IN (SELECT value FROM json_each(:seqs))"

NOTE_REMOVED = """
INSERT INTO marks (name, value) SELECT 'removed', coalesce(max(value), 0) FROM json_each(:seqs) WHERE TRUE
ON CONFLICT (name) DO UPDATE SET value = max(value, excluded.value)
"""

REMOVE_ALL: Sequence[str] = (
    REMOVE_ATTEMPTS,
    REMOVE_WORK,
    REMOVE_KEYS,
    REMOVE_OF_PRUNED,
    ADD_WITHOUT_PRUNED,
    REMOVE_DELIVERIES,
    NOTE_REMOVED,
)

ONCE_KEYS_BEFORE = "SELECT handler, key FROM once_keys WHERE asked_at < :before LIMIT :limit"

REMOVE_ONCE_KEY = "DELETE FROM once_keys WHERE handler = :handler AND key = :key"

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
