"""The SQL by which a worker sees that there may be something to do."""

LATEST_CHANGE = """
SELECT (SELECT max(seq) FROM deliveries), (SELECT value FROM marks WHERE name = 'stirred')
"""
