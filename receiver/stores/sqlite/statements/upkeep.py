"""What a backup asks a store of any schema version."""

from receiver.stores.sql.columns_of_bodies import BESIDE, PLAIN
from receiver.stores.sql.statements.columns import INDEXED_TO
from receiver.stores.sqlite.statements.log import BODY

CONTENTS = "SELECT count(*), max(received_at) FROM deliveries"

NEWER = "SELECT count(*) FROM deliveries WHERE received_at > ?"

NO_WORKERS = "DELETE FROM workers"

# Nobody knows how an attempt ended that ran while the backup was made. It is lost, and makes nothing a suspect.
END_LEASES = "UPDATE work_items SET lease_until = 0, started = 0 WHERE state = 'running'"


# FOLDED: The SQL that ends a copy into a SQLite store. It calls functions of `sqlite/delivery_keys.py`.
ADD_SEQUENCE = """
INSERT INTO sqlite_sequence (name, seq)
SELECT :table, 0 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = :table)
"""

CONTINUE_BEHIND = "UPDATE sqlite_sequence SET seq = max(seq, :last) WHERE name = :table"

NO_KEYS = "DELETE FROM delivery_keys"

ADD_KEYS = "INSERT INTO delivery_keys SELECT index_key(key), seq FROM deliveries ORDER BY 1"

NO_JOBS = "DELETE FROM jobs"

NO_MINUTES = "DELETE FROM arrival_minutes"


# FOLDED: The SQL that keeps a store small.
# The functions of `sqlite/delivery_keys.py` have to be there.
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


# FOLDED: The SQL of the index of words, in SQLite's own full text search (FTS5).
# The words come in small letters and without accents (`core.search`), so that every store finds the same.
CREATE = """
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(
    url, title, error, columnsize = 0, tokenize = "unicode61 remove_diacritics 0"
)
"""

FORGET = """
CREATE TRIGGER IF NOT EXISTS words_forget AFTER DELETE ON bodies BEGIN
    DELETE FROM words WHERE rowid = old.seq;
END
"""

EXISTS = "SELECT count(*) FROM sqlite_master WHERE name = 'words'"

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

BEHIND = f"""
SELECT
    (SELECT count(*) FROM deliveries WHERE seq > ({INDEXED_TO}) AND pruned_at IS NULL),
    (SELECT received_at FROM deliveries WHERE seq <= ({INDEXED_TO}) ORDER BY seq DESC LIMIT 1)
"""
