"""The SQL of locks that stand for something wider than a row.

Everybody takes locks in one order, so that no two wait for each other: that of the log, those of handlers by name,
rows of deliveries by seq, rows of work items by id. A lock is a statement of its own before the one that
reads, which sees what was committed when it began.
"""

LOCK_HANDLERS = """
SELECT pg_advisory_xact_lock(:handlers_lock, hashtext(name)) FROM unnest(CAST(:names AS text[])) AS names (name)
"""
"""Take the locks of handlers, which come sorted."""

HANDLERS_WITH_LANES = "SELECT DISTINCT handler FROM work_items WHERE id = ANY(:ids) AND lane IS NOT NULL ORDER BY 1"

KEEP_DELIVERIES = """
SELECT 1 FROM deliveries WHERE seq = ANY(ARRAY(SELECT delivery_seq FROM work_items WHERE id = ANY(:ids)))
ORDER BY seq FOR KEY SHARE
"""
"""Nobody prunes these meanwhile."""

LOCK_DELIVERIES = "SELECT 1 FROM deliveries WHERE seq = ANY(:seqs) ORDER BY seq FOR UPDATE"
"""Nobody else makes or retries work of these meanwhile."""
