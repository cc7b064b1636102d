"""Whose turn it is to route: else all workers would read the same deliveries, and all but one for nothing."""

import secrets
import time
from datetime import timedelta

from receiver.stores.postgres.connection import PostgresConnection
from receiver.stores.postgres.statements.routing import TAKE_TURN

PATIENCE = timedelta(seconds=1)
"""How long a worker keeps its turn in which it routes nothing: it may have died, have no memory for more, or have
claimed so much other work that it takes no more."""


class RoutingTurn:
    """The turns of one worker. They only save work: `route` itself lets one worker through."""

    def __init__(self, patience: timedelta = PATIENCE) -> None:
        self._patience = patience.total_seconds()
        self._own = secrets.randbits(62) + 1
        self._seen = (0, 0)
        self._seen_at = 0.0

    def may_take(self, holder: int) -> bool:
        """Tell whether nobody else has the turn, as far as one sees."""
        return holder in (0, self._own)

    def take(self, connection: PostgresConnection, *, routed: int, holder: int) -> bool:
        """Take the turn if nobody has it, or if its holder has routed nothing for too long."""
        if holder == self._own:
            return True
        if holder and (self._seen != (routed, holder)):
            # The real clock, whatever clock the worker has: the holder is another process.
            self._seen, self._seen_at = (routed, holder), time.monotonic()
            return False
        if holder and time.monotonic() - self._seen_at < self._patience:
            return False
        return int(connection.execute(TAKE_TURN, {"taker": self._own, "holder": holder}).rowcount) == 1

    def give_back(self, connection: PostgresConnection) -> None:
        """Let others take the turn at once, if this worker has it."""
        connection.execute(TAKE_TURN, {"taker": 0, "holder": self._own})
