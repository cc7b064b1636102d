"""The stored deliveries that are replayed, and the handlers they are replayed for."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from receiver.core.bulk import Cursor
from receiver.core.deliveries import DeliveryFilter, StoredDelivery
from receiver.core.envelope import NotJson, load_json
from receiver.core.ports.reports import DeliveryReader
from receiver.core.types import HandlerName
from receiver.routing import Handler


@dataclass(frozen=True, slots=True)
class Chosen:
    """A delivery to replay. `only` names the handlers that get it; None is for every handler that wants it."""

    stored: StoredDelivery
    only: frozenset[HandlerName] | None
    fits: bool
    """Whether its body can be read and the expression matched. Others are yielded too, to show the progress."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which deliveries to replay, in which order, and from which place on.

    `where` gets the JSON of each event; a body that is not JSON never matches. With `wanted.failed` a delivery is
    replayed only for those of `handlers` that failed with it.
    """

    wanted: DeliveryFilter
    handlers: Sequence[Handler] = ()
    where: Callable[[object], bool] | None = None
    by_job: bool = False
    after: Cursor | None = None

    async def of(self, reports: DeliveryReader) -> AsyncIterator[Chosen]:
        """Yield the deliveries in their order, in flat memory."""
        names = frozenset(handler.name for handler in self.handlers)
        async for stored in reports.iter_deliveries(self.wanted, after=self.after, by_job=self.by_job):
            fits = not stored.unreadable and (self.where is None or _fits(self.where, stored))
            only = names & await reports.failed_handlers(stored.seq) if fits and self.wanted.failed else None
            yield Chosen(stored, only, fits)


def _fits(where: Callable[[object], bool], stored: StoredDelivery) -> bool:
    try:
        return where(load_json(stored.delivery.body))
    except NotJson:
        return False
