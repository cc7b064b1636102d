"""The contract of quarantined requests, and of their release."""

import pytest

from receiver.core.deliveries import Quarantined, QuarantinedSummary, QuarantineFilter, Receipt
from receiver.core.types import AppendOutcome, DeliveryKey, DeliveryState, Origin
from receiver.errors import UnknownRequest
from tests.doubles import NOON, delivery
from tests.stores.conftest import Kept
from tests.stores.opened import SECOND, Opened


def refused(n: int, *, reason: str = "malformed", body: bytes = b"\x00\xff") -> Quarantined:
    """Return a request that was refused so many seconds after noon."""
    return Quarantined(NOON + n * SECOND, reason, "why", None, (("a", "b"),), body)


async def listed(opened: Opened, wanted: QuarantineFilter) -> list[QuarantinedSummary]:
    return [one async for one in opened.reports.quarantined_requests(wanted)]


async def test_a_refused_request_is_there_as_it_came(opened: Opened) -> None:
    """The listing has its size, and the request itself its headers and body."""
    await opened.log.quarantine(refused(0))

    assert await listed(opened, QuarantineFilter()) == [QuarantinedSummary(1, NOON, "malformed", "why", None, 2)]
    assert await opened.reports.quarantined_request(1) == refused(0)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (QuarantineFilter(), [4, 3, 2, 1]),
        (QuarantineFilter(reason="conflict"), [4, 2]),
        (QuarantineFilter(since=NOON + SECOND, until=NOON + 3 * SECOND), [3, 2]),
        (QuarantineFilter(limit=2), [4, 3]),
        (QuarantineFilter(reason="conflict", limit=1), [4]),
        (QuarantineFilter(reason="x"), []),
    ],
)
async def test_requests_are_listed_newest_first(
    opened: Opened, wanted: QuarantineFilter, expected: list[int]
) -> None:
    """Only those are listed that match the filter."""
    for n in range(4):
        await opened.log.quarantine(refused(n, reason="conflict" if n % 2 else "malformed"))

    assert [one.id for one in await listed(opened, wanted)] == expected


async def test_a_released_request_is_a_delivery_like_any_other(opened: Opened, kept: Kept) -> None:
    """Its origin is the sender, its moment that of the request, and it waits for a worker."""
    await opened.log.quarantine(refused(0))
    await opened.log.quarantine(refused(1))
    one = delivery("a", body=b"\x00\xff", received_at=NOON)

    assert await opened.controls.release_request(1, one) == Receipt(DeliveryKey("a"), AppendOutcome.ACCEPTED)

    assert [one.id for one in await listed(opened, QuarantineFilter())] == [2]
    (summary,) = await opened.listed()
    assert (summary.received_at, summary.state, summary.origin) == (NOON, DeliveryState.NEW, Origin.SENDER)
    assert (await opened.reports.detail(DeliveryKey("a"))).body == one.body
    assert len(kept.quarantined()) == 1


async def test_a_released_request_can_be_a_duplicate(opened: Opened, kept: Kept) -> None:
    """It is counted as one, and leaves quarantine."""
    await opened.add(delivery("a"))
    await opened.log.quarantine(refused(0, body=delivery("a").body))

    assert (await opened.controls.release_request(1, delivery("a"))).outcome is AppendOutcome.DUPLICATE

    assert [one.duplicates for one in await opened.listed()] == [1]
    assert kept.quarantined() == []


async def test_a_request_that_contradicts_a_delivery_stays(opened: Opened, kept: Kept) -> None:
    """Nothing changes, as a key has one delivery."""
    await opened.add(delivery("a", body=b"first"))
    await opened.log.quarantine(refused(0, body=b"other"))
    before = await opened.listed(), kept.quarantined()

    assert (
        await opened.controls.release_request(1, delivery("a", body=b"other"))
    ).outcome is AppendOutcome.CONFLICT

    assert (await opened.listed(), kept.quarantined()) == before


async def test_an_unknown_request_is_an_error(opened: Opened) -> None:
    """So is one that was released before. Nothing is stored twice."""
    await opened.log.quarantine(refused(0))
    await opened.controls.release_request(1, delivery("a"))

    with pytest.raises(UnknownRequest, match="no request 1 in quarantine"):
        await opened.reports.quarantined_request(1)
    with pytest.raises(UnknownRequest, match="no request 1 in quarantine"):
        await opened.controls.release_request(1, delivery("b"))
    assert await opened.keys() == ["a"]
