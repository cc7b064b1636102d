"""What a worker notes of the attempts that it settles, until it counts and writes that."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain, repeat

from receiver.core.activity import MINUTE_MICROS
from receiver.core.types import AttemptOutcome, HandlerName
from receiver.stores.sql.connection import SqlConnection
from receiver.stores.sql.dialect import Dialect
from receiver.stores.sql.inserting import AttemptRow

_WRITE_EVERY = 1_000_000
"""Microseconds between two writes. To count each batch in its own transaction made settling slower by a fifth."""
_MAX_WAITING = 20_000
_SUCCEEDED = AttemptOutcome.SUCCEEDED.value


class SettledBatch:
    """Attempts that were recorded together at `now`, by their handlers. The first so many succeeded.

    One is made for each batch and looks at each attempt, so it does as little as possible.
    """

    __slots__ = ("_buckets", "_handlers", "_others", "_successes", "now")

    def __init__(
        self, handlers: Sequence[HandlerName], attempts: Sequence[AttemptRow], now: int, *, successes: int
    ) -> None:
        self.now = now
        self._handlers = handlers
        self._buckets = [(row[4] - (row[3] or row[4])).bit_length() for row in attempts]
        self._successes = successes
        self._others = [row[5] for row in attempts[successes:]]

    def __len__(self) -> int:
        return len(self._handlers)

    def rows(self) -> Iterable[tuple[int, HandlerName, str, int]]:
        """Return where each attempt counts."""
        outcomes = chain(repeat(_SUCCEEDED, self._successes), self._others)
        return zip(repeat(self.now // MINUTE_MICROS), self._handlers, outcomes, self._buckets, strict=False)


class PendingActivity:
    """What one worker has not written yet, of a second or since its last sign. If it is killed, that is lost."""

    def __init__(self, statement: str, dialect: Dialect) -> None:
        self._statement = statement
        self._dialect = dialect
        self._batches: list[SettledBatch] = []
        self._waiting = 0
        self._written_at: int | None = None

    def write_due(self, connection: SqlConnection, new: SettledBatch, now: int) -> bool:
        """Write what waits and what is new, inside a transaction, if it is time; return whether it was."""
        was_just_written = self._written_at is not None and 0 <= now - self._written_at < _WRITE_EVERY
        if was_just_written and self._waiting < _MAX_WAITING:
            return False
        self.write(connection, new)
        self._written_at = now
        return True

    def write(self, connection: SqlConnection, *new: SettledBatch) -> None:
        """Write what waits and what is new, inside a transaction."""
        counts = Counter(chain.from_iterable(one.rows() for one in (*self._batches, *new)))
        if counts:
            rows = [(*row, count) for row, count in sorted(counts.items())]
            connection.execute(self._statement, {"rows": self._dialect.rows(rows)})

    def committed(self, new: SettledBatch | None = None, *, written: bool) -> None:
        """Note that a transaction was committed: everything is written, or what is new waits with the rest."""
        if written:
            self._batches, self._waiting = [], 0
        elif new is not None:
            self._batches.append(new)
            self._waiting += len(new)
