"""The contract of DeliveryLog, also of one whose writes another process makes."""

import asyncio

import pytest

from receiver.core.deliveries import DeliverySummary, Quarantined
from receiver.core.ports.store import Store
from receiver.core.types import AppendOutcome, DeliveryKey, DeliveryState
from tests.doubles import NOON, appended, delivery
from tests.stores.conftest import KINDS, Kept, QuarantineRow
from tests.stores.opened import MUCH, ONE, SECOND, Opened

pytestmark = pytest.mark.parametrize("store", [*KINDS, "writer process"], indirect=True)


async def test_a_new_delivery_is_accepted(opened: Opened) -> None:
    """It is stored as new, with everything that its envelope says."""
    assert await opened.add(delivery()) == [AppendOutcome.ACCEPTED]

    (summary,) = await opened.listed()
    assert summary == DeliverySummary(
        seq=1,
        key=DeliveryKey("k"),
        type="crawl.page",
        job_id="job",
        webhook_id="k",
        success=True,
        received_at=NOON,
        size=len(delivery().body),
        duplicates=0,
        state=DeliveryState.NEW,
    )


@pytest.mark.parametrize("success", [True, False, None])
async def test_success_keeps_its_three_values(opened: Opened, success: bool | None) -> None:
    """None is not the same as false."""
    await opened.add(delivery(success=success))

    assert (await opened.listed())[0].success is success


async def test_what_an_envelope_lacks_is_none(opened: Opened) -> None:
    """A foreign envelope has neither job id nor webhook id."""
    await opened.add(delivery("sha256:ab", job_id=None))

    (summary,) = await opened.listed()
    assert (summary.job_id, summary.webhook_id) == (None, None)


async def test_a_second_arrival_is_counted_on_the_first(opened: Opened, kept: Kept) -> None:
    """Nothing else of it is stored, and it is not handled again."""
    await opened.add(delivery())
    await opened.route(ONE)

    assert await opened.add(delivery(), delivery(received_at=NOON + SECOND)) == [AppendOutcome.DUPLICATE] * 2

    (summary,) = await opened.listed()
    assert (summary.duplicates, summary.received_at) == (2, NOON)
    assert (await opened.queue.routing_batch(limit=10, max_bytes=MUCH)).deliveries == ()
    assert kept.quarantined() == []


async def test_another_body_with_a_known_key_goes_to_quarantine(opened: Opened, kept: Kept) -> None:
    """The first delivery does not change. The other is counted on it and kept with its own headers."""
    await opened.add(delivery(body=b"first"))

    outcomes = await opened.add(delivery(body=b"other", headers=(("x-from", "elsewhere"),)))

    assert outcomes == [AppendOutcome.CONFLICT]
    detail = await opened.reports.detail(DeliveryKey("k"))
    assert (detail.body, detail.summary.duplicates) == (b"first", 1)
    assert kept.quarantined() == [QuarantineRow("conflict", "k", (("x-from", "elsewhere"),), b"other")]


async def test_duplicates_and_conflicts_within_one_batch_are_told_apart(opened: Opened, kept: Kept) -> None:
    """The first of a key wins, in the order of arrival, with new ones before, between and behind."""
    outcomes = await opened.add(
        delivery("new-1"),
        delivery("twice", body=b"a"),
        delivery("twice", body=b"a"),
        delivery("new-2"),
        delivery("twice", body=b"b"),
        delivery("twice", body=b"a"),
        delivery("new-3"),
        delivery("new-1"),
    )

    accepted, duplicate, conflict = AppendOutcome.ACCEPTED, AppendOutcome.DUPLICATE, AppendOutcome.CONFLICT
    assert outcomes == [accepted, accepted, duplicate, accepted, conflict, duplicate, accepted, duplicate]
    assert {one.key: one.duplicates for one in await opened.listed()} == {
        "new-3": 0,
        "new-2": 0,
        "twice": 3,
        "new-1": 1,
    }
    assert [(one.key, one.body) for one in kept.quarantined()] == [("twice", b"b")]
    assert (await opened.reports.detail(DeliveryKey("twice"))).body == b"a"


async def test_a_batch_of_only_known_deliveries_stores_nothing(opened: Opened) -> None:
    """All of them are counted."""
    await opened.add(delivery("a"), delivery("b"))

    assert await opened.add(delivery("b"), delivery("a"), delivery("b")) == [AppendOutcome.DUPLICATE] * 3
    assert [(one.key, one.duplicates) for one in await opened.listed()] == [("b", 2), ("a", 1)]


async def test_a_delivery_after_duplicates_is_still_found_and_routed(opened: Opened) -> None:
    """Duplicates leave no gap that stops a worker."""
    await opened.add(delivery("a"), delivery("a"), delivery("b"), delivery("a"))
    await opened.route(ONE)
    await opened.add(delivery("a"), delivery("c"))

    batch = await opened.queue.routing_batch(limit=10, max_bytes=MUCH)

    assert [one.delivery.key for one in batch.deliveries] == ["c"]


@pytest.mark.parametrize(
    "body",
    [b"", b"\0", b"\xff\xfe\x00invalid \xc3\x28", b"{}\r\n", bytes(range(256)) * 10, b"x" * 300_000],
    ids=["empty", "nul", "invalid utf-8", "line end", "every byte", "long"],
)
async def test_bodies_are_kept_byte_by_byte(opened: Opened, body: bytes) -> None:
    """Workers and readers get the received bytes."""
    await opened.add(delivery(body=body))

    (stored,) = (await opened.queue.routing_batch(limit=1, max_bytes=MUCH)).deliveries
    detail = await opened.reports.detail(DeliveryKey("k"))
    assert (stored.delivery.body, detail.body, detail.summary.size) == (body, body, len(body))


@pytest.mark.parametrize(
    "headers",
    [
        (),
        (("x-empty", ""),),
        (("x-twice", "1"), ("a", "2"), ("x-twice", "3")),
        (("x-latin", "caf\xe9 \xff\x80"), ("x-control", "\x01\x7f\t")),
    ],
    ids=["none", "empty value", "repeated", "latin-1"],
)
async def test_headers_are_kept_in_order(opened: Opened, headers: tuple[tuple[str, str], ...]) -> None:
    """Repeated names, empty values and every Latin-1 character survive."""
    await opened.add(delivery(headers=headers))

    (stored,) = (await opened.queue.routing_batch(limit=1, max_bytes=MUCH)).deliveries
    assert stored.delivery == delivery(headers=headers)
    assert (await opened.reports.detail(DeliveryKey("k"))).headers == headers


async def test_moments_are_kept_to_the_microsecond(opened: Opened) -> None:
    """They come back aware, in UTC."""
    moment = NOON.replace(microsecond=123_457)
    await opened.add(delivery(received_at=moment))

    assert (await opened.listed())[0].received_at == moment


async def test_a_refused_request_is_kept_in_quarantine(opened: Opened, kept: Kept) -> None:
    """It keeps its reason, its headers and its exact bytes. It is no delivery."""
    headers = (("x-latin", "\xff"),)

    await opened.log.quarantine(Quarantined(NOON, "malformed", "the body is not JSON", None, headers, b"\0\xff"))

    assert kept.quarantined() == [QuarantineRow("malformed", None, headers, b"\0\xff")]
    assert await opened.listed() == []


async def test_a_probe_writes_and_leaves_no_delivery(opened: Opened) -> None:
    """A probe may be repeated."""
    await opened.log.probe(NOON)
    await opened.log.probe(NOON + SECOND)
    await asyncio.gather(*[opened.log.probe(NOON, size) for size in (1, 100_000)])

    assert await opened.listed() == []


async def test_giving_up_on_a_future_does_not_stop_its_write(opened: Opened) -> None:
    """The sender's retry is then a duplicate."""
    appended(opened.log, delivery()).cancel()

    assert await opened.add(delivery()) == [AppendOutcome.DUPLICATE]


async def test_leaving_finishes_what_was_submitted(store: Store) -> None:
    """Nobody has to wait for the futures before the store closes."""
    async with store.log() as log:
        futures = [appended(log, delivery(str(n))) for n in range(20)]

    assert [(await future).outcome for future in futures] == [AppendOutcome.ACCEPTED] * 20
    async with store.reports() as reports:
        assert await reports.count_unfinished() == 20


async def test_what_was_stored_is_there_when_opened_again(store: Store) -> None:
    """A key stays known."""
    for expected in (AppendOutcome.ACCEPTED, AppendOutcome.DUPLICATE):
        async with store.log() as log:
            assert (await appended(log, delivery())).outcome is expected
