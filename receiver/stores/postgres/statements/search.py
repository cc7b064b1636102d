"""The SQL of the index of words."""

from receiver.stores.sql.statements.columns import INDEXED

# The table is always there: a worker need not be allowed to make one.
EXISTS = "SELECT count(*) FROM marks WHERE name = 'searched'"

CREATE = "INSERT INTO marks (name, value) VALUES ('searched', 1) ON CONFLICT (name) DO NOTHING"

ADVANCE_INDEXED = "UPDATE marks SET value = :last WHERE name = 'indexed' AND value = :after"

UNINDEXED = "SELECT seq, length(body) FROM bodies WHERE seq > :after ORDER BY seq LIMIT :limit"

BODIES = "SELECT seq, body, coding FROM bodies WHERE seq > :after AND seq <= :last ORDER BY seq"

# A body that is pruned at this moment has no words, and one that was imported again has them already.
INSERT_WORDS = """
INSERT INTO words (seq, words)
SELECT b.seq, t.vector::tsvector
FROM unnest(:seqs::bigint[], :vectors::text[]) AS t (seq, vector) JOIN bodies AS b ON b.seq = t.seq
FOR KEY SHARE OF b
ON CONFLICT (seq) DO NOTHING
"""

BEHIND = f"""
SELECT
    (SELECT count(*) FROM deliveries WHERE seq > ({INDEXED}) AND pruned_at IS NULL),
    (SELECT received_at FROM deliveries WHERE seq <= ({INDEXED}) ORDER BY seq DESC LIMIT 1)
"""
