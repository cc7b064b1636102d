"""Pieces of SQL that many statements share."""

from collections.abc import Collection

from receiver.core.types import WorkState

ROUTED = "SELECT value FROM marks WHERE name = 'routed'"
"""The seq up to which deliveries are routed. Those above it are new."""

SUMMED = "SELECT value FROM marks WHERE name = 'summed'"
"""The seq up to which deliveries are in the rows of their jobs."""

INDEXED_TO = "SELECT value FROM marks WHERE name = 'indexed'"
"""The seq up to which deliveries are in the index of words."""

ONE_BY_ONE = "LIMIT 1 OFFSET 0"
"""The end of an EXISTS that is asked for few rows. Without it PostgreSQL may read all of its table, for rows that
are never fetched."""

_DELIVERY = "d.seq, d.key, d.type, d.job_id, d.webhook_id, d.success, d.received_at, d.duplicates, d.origin"


def stored(body: str) -> str:
    """Return the columns of a delivery with its body, which `rows.stored_delivery` reads."""
    return f"{_DELIVERY}, b.headers, {body}, b.coding"


STORED = stored("b.body")
"""The same where all bodies are in the database."""


def in_states(states: Collection[WorkState], column: str = "state") -> str:
    """Return the condition that a work item is in one of these states."""
    return f"{column} IN ({', '.join(repr(state.value) for state in states)})"
