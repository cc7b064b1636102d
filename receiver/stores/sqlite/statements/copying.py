"""The SQL that ends a copy into a SQLite store. It calls functions of `sqlite/delivery_keys.py`."""

ADD_SEQUENCE = """
INSERT INTO sqlite_sequence (name, seq)
SELECT :table, 0 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = :table)
"""

CONTINUE_BEHIND = "UPDATE sqlite_sequence SET seq = max(seq, :last) WHERE name = :table"

LAST_SEQ = "SELECT coalesce(max(seq), 0) FROM deliveries"

NO_KEYS = "DELETE FROM delivery_keys"

ADD_KEYS = "INSERT INTO delivery_keys SELECT index_key(key), seq FROM deliveries ORDER BY 1"

NO_JOBS = "DELETE FROM jobs"

NO_MINUTES = "DELETE FROM arrival_minutes"

SET_MARK = """
INSERT INTO marks (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = excluded.value
"""
