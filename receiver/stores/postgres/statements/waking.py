"""The SQL by which a worker sees that there may be something to do."""

LATEST_CHANGE = """
SELECT (SELECT max(seq) FROM deliveries), sum(value) FILTER (WHERE name = 'stirred'),
    sum(value) FILTER (WHERE name = 'routed')
FROM marks WHERE name IN ('stirred', 'routed')
"""
