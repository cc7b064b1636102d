"""Counts the requests that this process refuses, for an alert."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from receiver.core.activity import to_minute
from receiver.core.attention import Concern, ConcernKind
from receiver.core.text import counted
from receiver.core.units import in_words
from receiver.signals.contracts import DeliveryRefused, delivery_refused

WITHIN = timedelta(minutes=10)
_MINUTES = WITHIN // timedelta(minutes=1)


class RefusalCount:
    """How many requests were refused in the last ten minutes, by reason. It is in memory, minute by minute."""

    def __init__(self) -> None:
        self._minutes: dict[int, Counter[str]] = {}

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count for as long as the block lasts."""
        delivery_refused.observe(self._count)
        try:
            yield
        finally:
            delivery_refused.disconnect(self._count)

    def concern(self, now: datetime, *, more_than: int) -> Iterator[Concern]:
        """Yield the problem if more requests than the limit were refused."""
        self._forget(to_minute(now))
        reasons = sum(self._minutes.values(), Counter[str]())
        if (count := reasons.total()) > more_than:
            shown = ", ".join(f"{number:,} {reason}" for reason, number in reasons.most_common())
            verb = "was" if count == 1 else "were"
            text = f"{counted(count, 'request')} {verb} refused in {in_words(WITHIN)}: {shown}"
            yield Concern(ConcernKind.REFUSED, "bad", text, count=count, reason=", ".join(sorted(reasons)))

    def _count(self, refused: DeliveryRefused) -> None:
        minute = to_minute(refused.at)
        if minute not in self._minutes:
            self._forget(minute)
            self._minutes[minute] = Counter()
        self._minutes[minute][refused.reason] += 1

    def _forget(self, minute: int) -> None:
        for old in [one for one in self._minutes if one <= minute - _MINUTES]:
            del self._minutes[old]
