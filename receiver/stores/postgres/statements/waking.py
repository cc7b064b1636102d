"""The SQL by which a worker sees that there may be something to do."""

from receiver.stores.postgres.statements.moments import MICROS

LATEST_CHANGE = f"""
SELECT (SELECT max(seq) FROM deliveries), sum(value) FILTER (WHERE name = 'stirred'),
    sum(value) FILTER (WHERE name = 'routed'), sum(value) FILTER (WHERE name = 'routing'), {MICROS}
FROM marks WHERE name IN ('stirred', 'routed', 'routing')
"""
"""The last delivery, how often workers were stirred, how far they have routed, and who is about to route."""
