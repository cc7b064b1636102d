"""The latest moment that the store knows: from it, a claim sees that the clock was set back."""

from datetime import datetime, timedelta

from receiver.core.clock import from_micros, to_micros
from receiver.core.rules import set_back_by
from receiver.stores.sql.connection import SqlConnection
from receiver.stores.sql.statements.writing import Statements


class LatestMoment:
    """Notes when items are made, become due or end, and moves what waits back with the clock.

    Whoever makes an item due at a moment notes the moment. Without that the item would wait until a clock that was
    set back comes there again.
    """

    def __init__(self, statements: Statements) -> None:
        self._sql = statements

    def note(self, connection: SqlConnection, now: datetime) -> None:
        """Note the moment of a change, inside its transaction."""
        connection.execute(self._sql.note_time, {"now": to_micros(now)})

    def is_ahead(self, latest: int | None, now: datetime) -> bool:
        """Tell whether the clock was set back since the latest moment, as `LATEST` returns it."""
        return _set_back_by(latest, now) > 0

    def follow_back(self, connection: SqlConnection, now: datetime) -> None:
        """Move everything that waits, if the clock was set back."""
        row = connection.execute(self._sql.latest, {}).fetchone()
        if by := _set_back_by(None if row is None else row[0], now):
            for statement in self._sql.move_back:
                connection.execute(statement, {"now": to_micros(now), "by": by})


def _set_back_by(latest: int | None, now: datetime) -> int:
    """Return how many microseconds the clock was set back."""
    return 0 if latest is None else set_back_by(from_micros(latest), now) // timedelta(microseconds=1)
