"""The contract of imports."""

import pytest

from receiver.core.bulk import Imported
from receiver.core.deliveries import DeliveryFilter, StoredDelivery
from receiver.core.types import AppendOutcome, DeliveryKey, DeliveryState, Origin
from tests.doubles import NOON, delivery
from tests.stores.conftest import Kept
from tests.stores.opened import DAY, ONE, Opened
from tests.stores.test_paging import read

ODD = [b"", b"\x00", b"\xff\xfe", "\u2028\r\n".encode(), b"x" * 10_000_000]


async def test_an_imported_delivery_is_kept_as_it_was(opened: Opened) -> None:
    """Moment, headers, exact body and duplicates stay, and its origin says that it was imported."""
    ones = [
        Imported(delivery(f"k{n}", body=body, received_at=NOON - n * DAY, success=None), duplicates=n)
        for n, body in enumerate(ODD)
    ]

    assert await opened.controls.import_deliveries(ones) == [AppendOutcome.ACCEPTED] * len(ones)

    assert await read(opened, DeliveryFilter()) == [
        StoredDelivery(n, n - 1, one.delivery._replace(origin=Origin.IMPORT)) for n, one in enumerate(ones, start=1)
    ]
    assert [one.origin for one in await opened.listed()] == [Origin.IMPORT] * len(ones)


async def test_importing_twice_is_like_once(opened: Opened, kept: Kept) -> None:
    """Nothing is counted or put in quarantine, and the origin of a stored delivery stays."""
    first, other = delivery("a", body=b"1"), delivery("b", body=b"2")
    await opened.add(first)
    await opened.controls.import_deliveries([Imported(first, 5), Imported(other, 5)])
    before = await opened.listed()

    again = await opened.controls.import_deliveries([Imported(first), Imported(other, 7), Imported(other)])

    assert again == [AppendOutcome.DUPLICATE] * 3
    assert await opened.listed() == before
    assert [(one.key, one.duplicates, one.origin) for one in before] == [
        ("b", 5, Origin.IMPORT),
        ("a", 0, Origin.SENDER),
    ]
    assert kept.quarantined() == []


@pytest.mark.parametrize("body", [b"other", b"123456"])
async def test_another_body_under_a_known_key_changes_nothing(opened: Opened, kept: Kept, body: bytes) -> None:
    """The outcome is a conflict, also within one import, whatever the length of the body."""
    await opened.add(delivery("a", body=b"first"))

    outcomes = await opened.controls.import_deliveries(
        [
            Imported(delivery("a", body=body)),
            Imported(delivery("b", body=b"one")),
            Imported(delivery("b", body=b"two")),
        ]
    )

    assert outcomes == [AppendOutcome.CONFLICT, AppendOutcome.ACCEPTED, AppendOutcome.CONFLICT]
    assert (await opened.reports.detail(DeliveryKey("a"))).body == b"first"
    assert (await opened.reports.detail(DeliveryKey("b"))).body == b"one"
    assert kept.quarantined() == []


async def test_many_are_imported_in_their_order(opened: Opened) -> None:
    """The order does not depend on how they are divided into transactions."""
    ones = [Imported(delivery(f"{n}", body=b"x" * (700_000 if n % 100 == 1 else 3))) for n in range(700)]

    outcomes = await opened.controls.import_deliveries(ones)

    assert outcomes == [AppendOutcome.ACCEPTED] * 700
    assert await opened.keys() == [f"{n}" for n in reversed(range(700))]
    assert list(await opened.controls.import_deliveries([])) == []


async def test_the_sender_s_retry_of_an_imported_delivery_is_a_duplicate(opened: Opened) -> None:
    """A key has one delivery, whatever its origin."""
    await opened.controls.import_deliveries([Imported(delivery("a"))])

    assert await opened.add(delivery("a")) == [AppendOutcome.DUPLICATE]


async def test_an_imported_delivery_is_new_until_a_worker_routes_it(opened: Opened) -> None:
    """The worker sees its origin, and that of a backfill."""
    await opened.controls.import_deliveries(
        [Imported(delivery("a")), Imported(delivery("b"), origin=Origin.BACKFILL)]
    )

    batch = await opened.queue.routing_batch(limit=9, max_bytes=10**6)

    assert [one.delivery.origin for one in batch.deliveries] == [Origin.IMPORT, Origin.BACKFILL]
    assert [one.state for one in await opened.listed()] == [DeliveryState.NEW] * 2
    await opened.route(ONE)
    assert [one.state for one in await opened.listed()] == [DeliveryState.WORKING] * 2


async def test_a_worker_can_ask_which_keys_were_backfilled(opened: Opened) -> None:
    """Deliveries of another origin do not count."""
    await opened.add(delivery("a"))
    await opened.controls.import_deliveries(
        [
            Imported(delivery("b"), origin=Origin.BACKFILL),
            Imported(delivery("c")),
            Imported(delivery("d"), origin=Origin.BACKFILL),
        ]
    )
    keys = {DeliveryKey(name) for name in ("a", "b", "c", "unknown")}

    assert await opened.queue.backfilled(keys) == {"b"}
    assert await opened.queue.backfilled(()) == frozenset()


async def test_a_worker_is_told_whether_anything_was_ever_backfilled(opened: Opened) -> None:
    """So the search for late webhooks costs nothing where no backfill ever ran."""
    await opened.controls.import_deliveries([Imported(delivery("a"))])
    assert not (await opened.queue.routing_batch(limit=10, max_bytes=10**6)).any_backfilled

    await opened.controls.import_deliveries([Imported(delivery("b"), origin=Origin.BACKFILL)])

    assert (await opened.queue.routing_batch(limit=10, max_bytes=10**6)).any_backfilled
