"""The SQL of the index of words, in SQLite's own full text search (FTS5)."""

from receiver.stores.sql.statements.columns import INDEXED
from receiver.stores.sqlite.statements.body_files import BODY

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
    (SELECT count(*) FROM deliveries WHERE seq > ({INDEXED}) AND pruned_at IS NULL),
    (SELECT received_at FROM deliveries WHERE seq <= ({INDEXED}) ORDER BY seq DESC LIMIT 1)
"""
