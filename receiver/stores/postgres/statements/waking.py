"""The SQL by which a worker sees that there may be something to do."""

from receiver.stores.postgres.statements.moments import MICROS

LATEST_CHANGE = f"""
SELECT (SELECT max(seq) FROM deliveries), sum(value) FILTER (WHERE name = 'stirred'),
    sum(value) FILTER (WHERE name = 'routed'), {MICROS}
FROM marks WHERE name IN ('stirred', 'routed')
"""
