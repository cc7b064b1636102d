"""The SQL that ends a copy into a SQLite store. It calls functions of `sqlite/delivery_keys.py`."""

ADD_SEQUENCE = """
INSERT INTO sqlite_sequence (name, seq)
SELECT :table, 0 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = :table)
"""

CONTINUE_BEHIND = "UPDATE sqlite_sequence SET seq = max(seq, :last) WHERE name = :table"

NO_KEYS = "DELETE FROM delivery_keys"

ADD_KEYS = "INSERT INTO delivery_keys SELECT index_key(key), seq FROM deliveries ORDER BY 1"

NO_JOBS = "DELETE FROM jobs"

NO_MINUTES = "DELETE FROM arrival_minutes"
