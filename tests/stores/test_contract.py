"""What every store promises: the docstrings of `receiver.ports`, sentence by sentence."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta

import pytest

from receiver.errors import UnknownDelivery
from receiver.ports import DeliveryLog, Reports, Store, WorkQueue
from receiver.records import (
    Attempt,
    Delivery,
    DeliveryFilter,
    DeliverySummary,
    Lease,
    NewWork,
    Quarantined,
    Settlement,
    Wanted,
    WorkItem,
    WorkSummary,
)
from receiver.types import (
    AttemptOutcome,
    DeliveryKey,
    DeliveryState,
    HandlerName,
    Outcome,
    Trigger,
    WorkerId,
    WorkState,
)
from tests.doubles import NOON, delivery, soon
from tests.stores.conftest import Kept, Refused

A, B = WorkerId("worker-a"), WorkerId("worker-b")
ONE, TWO = HandlerName("one"), HandlerName("two")
SECOND = timedelta(seconds=1)
LEASE = timedelta(seconds=60)
AFTER = NOON + LEASE
"""When a lease taken at noon has ended."""
MUCH = 10**9


class Opened:
    """A store with its three faces open."""

    def __init__(self, log: DeliveryLog, queue: WorkQueue, other: WorkQueue, reports: Reports) -> None:
        self.log, self.queue, self.other, self.reports = log, queue, other, reports

    async def add(self, *deliveries: Delivery) -> list[Outcome]:
        """Append all in one batch and return what became of each."""
        receipts = await soon(asyncio.gather(*[self.log.append(one) for one in deliveries]))
        assert [receipt.key for receipt in receipts] == [one.key for one in deliveries]
        return [receipt.outcome for receipt in receipts]

    async def route(self, *handlers: HandlerName, worker: WorkerId = A) -> Sequence[int]:
        """Bind everything that is new for these handlers; `worker` holds the items until AFTER."""
        batch = await self.queue.unrouted(limit=10_000, max_bytes=MUCH)
        work = [NewWork(stored.seq, handler) for stored in batch.deliveries for handler in handlers]
        ids = await self.queue.route(batch, work, lease=Lease(worker, AFTER))
        assert ids is not None
        return list(ids)

    async def waiting(self, *handlers: HandlerName) -> Sequence[int]:
        """Bind everything that is new for these handlers; the items wait and are due at noon."""
        ids = await self.route(*handlers)
        await self.queue.give_back(ids, A, now=NOON)
        return ids

    async def claim(
        self,
        worker: WorkerId = A,
        handlers: Sequence[HandlerName] = (ONE,),
        *,
        now: timedelta = timedelta(0),
        wanted: Wanted = Wanted(1_000, MUCH),  # noqa: B008 - frozen
    ) -> list[WorkItem]:
        """Claim at this long after noon, for the usual time."""
        moment = NOON + now
        return list(await self.queue.claim(handlers, wanted, lease=Lease(worker, moment + LEASE), now=moment))

    async def work_of(self, key: str = "k") -> WorkSummary:
        """Return the only work item of a delivery."""
        (work,) = (await self.reports.detail(DeliveryKey(key))).work
        return work

    async def listed(self, wanted: DeliveryFilter = DeliveryFilter()) -> list[DeliverySummary]:  # noqa: B008
        """Return a whole listing."""
        return [summary async for summary in self.reports.deliveries(wanted)]

    async def keys(self, **wanted: object) -> list[str]:
        """Return the keys of a listing."""
        return [one.key for one in await self.listed(replace(DeliveryFilter(), **wanted))]  # type: ignore[arg-type]


@pytest.fixture
async def opened(store: Store) -> AsyncIterator[Opened]:
    """The store, open for everything; `queue` and `other` are two workers'."""
    async with AsyncExitStack() as stack:
        log = await stack.enter_async_context(store.log())
        queue = await stack.enter_async_context(store.queue())
        other = await stack.enter_async_context(store.queue())
        yield Opened(log, queue, other, await stack.enter_async_context(store.reports()))


def ended(
    work_id: int,
    state: WorkState = WorkState.DONE,
    *,
    worker: WorkerId = A,
    number: int = 1,
    error: str | None = None,
    due: timedelta = timedelta(0),
) -> Settlement:
    """Return the end of an attempt."""
    outcome = AttemptOutcome.SUCCEEDED if error is None else AttemptOutcome.FAILED
    attempt = Attempt(
        number, Trigger.DELIVERY, NOON, NOON + SECOND, outcome, error, error and f"Traceback: {error}"
    )
    return Settlement(work_id, worker, attempt, state, NOON + due)


# --- DeliveryLog


async def test_a_new_delivery_is_accepted(opened: Opened) -> None:
    """It is there afterwards, new, with everything its envelope says."""
    assert await opened.add(delivery()) == [Outcome.ACCEPTED]

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
    """Not said is not the same as false."""
    await opened.add(delivery(success=success))

    assert (await opened.listed())[0].success is success


async def test_what_an_envelope_lacks_is_none(opened: Opened) -> None:
    """A foreign envelope has neither job nor webhook id."""
    await opened.add(delivery("sha256:ab", job_id=None))

    (summary,) = await opened.listed()
    assert (summary.job_id, summary.webhook_id) == (None, None)


async def test_a_second_arrival_is_counted_on_the_first(opened: Opened, kept: Kept) -> None:
    """Nothing else of it is kept, and it is not handled again."""
    await opened.add(delivery())
    await opened.route(ONE)

    assert await opened.add(delivery(), delivery(received_at=NOON + SECOND)) == [Outcome.DUPLICATE] * 2

    (summary,) = await opened.listed()
    assert (summary.duplicates, summary.received_at) == (2, NOON)
    assert (await opened.queue.unrouted(limit=10, max_bytes=MUCH)).deliveries == ()
    assert kept.quarantined() == []


async def test_another_body_with_a_known_key_goes_to_quarantine(opened: Opened, kept: Kept) -> None:
    """The first stays as it was; the other is counted on it and kept with its own headers."""
    await opened.add(delivery(body=b"first"))

    outcomes = await opened.add(delivery(body=b"other", headers=(("x-from", "elsewhere"),)))

    assert outcomes == [Outcome.CONFLICT]
    detail = await opened.reports.detail(DeliveryKey("k"))
    assert (detail.body, detail.summary.duplicates) == (b"first", 1)
    assert kept.quarantined() == [Refused("conflict", "k", (("x-from", "elsewhere"),), b"other")]


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

    accepted, duplicate, conflict = Outcome.ACCEPTED, Outcome.DUPLICATE, Outcome.CONFLICT
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

    assert await opened.add(delivery("b"), delivery("a"), delivery("b")) == [Outcome.DUPLICATE] * 3
    assert [(one.key, one.duplicates) for one in await opened.listed()] == [("b", 2), ("a", 1)]


async def test_a_delivery_after_duplicates_is_still_found_and_routed(opened: Opened) -> None:
    """Positions that duplicates did not take leave no hole for a worker to stumble over."""
    await opened.add(delivery("a"), delivery("a"), delivery("b"), delivery("a"))
    await opened.route(ONE)
    await opened.add(delivery("a"), delivery("c"))

    batch = await opened.queue.unrouted(limit=10, max_bytes=MUCH)

    assert [one.delivery.key for one in batch.deliveries] == ["c"]


@pytest.mark.parametrize(
    "body",
    [b"", b"\0", b"\xff\xfe\x00invalid \xc3\x28", b"{}\r\n", bytes(range(256)) * 10, b"x" * 300_000],
    ids=["empty", "nul", "invalid utf-8", "line end", "every byte", "long"],
)
async def test_bodies_are_kept_byte_by_byte(opened: Opened, body: bytes) -> None:
    """What a worker and a reader get is what came."""
    await opened.add(delivery(body=body))

    (stored,) = (await opened.queue.unrouted(limit=1, max_bytes=MUCH)).deliveries
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

    (stored,) = (await opened.queue.unrouted(limit=1, max_bytes=MUCH)).deliveries
    assert stored.delivery == delivery(headers=headers)
    assert (await opened.reports.detail(DeliveryKey("k"))).headers == headers


async def test_moments_are_kept_to_the_microsecond(opened: Opened) -> None:
    """They come back aware, in UTC."""
    moment = NOON.replace(microsecond=123_457)
    await opened.add(delivery(received_at=moment))

    assert (await opened.listed())[0].received_at == moment


async def test_a_refused_request_is_kept_in_quarantine(opened: Opened, kept: Kept) -> None:
    """With its reason, its headers and its exact bytes; it is no delivery."""
    headers = (("x-latin", "\xff"),)

    await opened.log.quarantine(Quarantined(NOON, "malformed", "the body is not JSON", None, headers, b"\0\xff"))

    assert kept.quarantined() == [Refused("malformed", None, headers, b"\0\xff")]
    assert await opened.listed() == []


async def test_a_probe_writes_and_leaves_no_delivery(opened: Opened) -> None:
    """It can be asked again and again."""
    await opened.log.probe(NOON)
    await opened.log.probe(NOON + SECOND)

    assert await opened.listed() == []


async def test_giving_up_on_a_future_does_not_stop_its_write(opened: Opened) -> None:
    """The retry is then a duplicate."""
    opened.log.append(delivery()).cancel()

    assert await opened.add(delivery()) == [Outcome.DUPLICATE]


async def test_leaving_finishes_what_was_submitted(store: Store) -> None:
    """Nobody has to wait for the futures before the store is closed."""
    async with store.log() as log:
        futures = [log.append(delivery(str(n))) for n in range(20)]

    assert [future.result().outcome for future in futures] == [Outcome.ACCEPTED] * 20
    async with store.reports() as reports:
        assert await reports.unfinished() == 20


async def test_what_was_stored_is_there_when_opened_again(store: Store) -> None:
    """A key stays known."""
    for expected in (Outcome.ACCEPTED, Outcome.DUPLICATE):
        async with store.log() as log:
            assert (await log.append(delivery())).outcome is expected


# --- WorkQueue: routing


async def test_unrouted_deliveries_come_in_the_order_of_arrival(opened: Opened) -> None:
    """At most as many as asked for."""
    await opened.add(*[delivery(str(n)) for n in range(5)])

    batch = await opened.queue.unrouted(limit=3, max_bytes=MUCH)

    assert [one.delivery.key for one in batch.deliveries] == ["0", "1", "2"]
    seqs = [one.seq for one in batch.deliveries]
    assert seqs == sorted(set(seqs))


@pytest.mark.parametrize(
    ("max_bytes", "count"), [(0, 1), (99, 1), (100, 1), (199, 1), (200, 2), (299, 2), (300, 3)]
)
async def test_unrouted_deliveries_fit_in_the_bytes_given(opened: Opened, max_bytes: int, count: int) -> None:
    """But there is always one, however long it is."""
    await opened.add(*[delivery(str(n), body=b"x" * 100) for n in range(3)])

    assert len((await opened.queue.unrouted(limit=10, max_bytes=max_bytes)).deliveries) == count


async def test_a_long_first_body_does_not_bring_empty_ones_past_the_limit(opened: Opened) -> None:
    """What follows a body that is over the limit waits for the next batch."""
    await opened.add(delivery("long", body=b"x" * 100), delivery("short", body=b"x"))

    batch = await opened.queue.unrouted(limit=10, max_bytes=50)

    assert [one.delivery.key for one in batch.deliveries] == ["long"]


async def test_nothing_unrouted_is_an_empty_batch(opened: Opened) -> None:
    """Before the first delivery, and when all are routed."""
    assert (await opened.queue.unrouted(limit=10, max_bytes=MUCH)).deliveries == ()
    await opened.add(delivery())
    await opened.route()
    assert (await opened.queue.unrouted(limit=10, max_bytes=MUCH)).deliveries == ()


async def test_routing_makes_claimed_work_in_the_order_given(opened: Opened) -> None:
    """The ids fit the work, each is held by the worker, and is its first attempt."""
    await opened.add(delivery("a"), delivery("b"))

    ids = await opened.route(ONE, TWO)

    assert len(set(ids)) == 4
    settled = await opened.queue.settle([ended(work_id, WorkState.DEAD, error=str(work_id)) for work_id in ids])
    assert list(settled) == [True] * 4
    for key, expected in (("a", ids[:2]), ("b", ids[2:])):
        work = (await opened.reports.detail(DeliveryKey(key))).work
        assert [(one.handler, one.last_error) for one in work] == [
            (handler, str(work_id)) for handler, work_id in zip((ONE, TWO), expected, strict=True)
        ]


async def test_of_two_workers_one_routes(opened: Opened) -> None:
    """The second one's call changes nothing and tells so."""
    await opened.add(delivery())
    batch = await opened.queue.unrouted(limit=10, max_bytes=MUCH)
    work = [NewWork(batch.deliveries[0].seq, ONE)]

    first = await opened.queue.route(batch, work, lease=Lease(A, AFTER))
    second = await opened.other.route(batch, work, lease=Lease(B, AFTER))

    assert first is not None
    assert second is None
    assert len((await opened.reports.detail(DeliveryKey("k"))).work) == 1


async def test_workers_that_race_route_each_delivery_once(opened: Opened) -> None:
    """However their reads and writes fall between each other's."""
    await opened.add(*[delivery(str(n)) for n in range(30)])

    async def work(queue: WorkQueue, worker: WorkerId) -> None:
        while (batch := await queue.unrouted(limit=2, max_bytes=MUCH)).deliveries:
            new = [NewWork(one.seq, ONE) for one in batch.deliveries]
            await queue.route(batch, new, lease=Lease(worker, AFTER))

    await soon(
        asyncio.gather(*[work(queue, worker) for queue in (opened.queue, opened.other) for worker in (A, B)])
    )

    for n in range(30):
        assert len((await opened.reports.detail(DeliveryKey(str(n)))).work) == 1


async def test_a_stale_batch_routes_nothing_of_what_came_since(opened: Opened) -> None:
    """Another worker routed a shorter batch: the longer one read before is refused whole."""
    await opened.add(delivery("a"), delivery("b"))
    longer = await opened.queue.unrouted(limit=2, max_bytes=MUCH)
    shorter = await opened.other.unrouted(limit=1, max_bytes=MUCH)

    assert await opened.other.route(shorter, [], lease=Lease(B, AFTER)) is not None
    assert await opened.queue.route(longer, [NewWork(2, ONE)], lease=Lease(A, AFTER)) is None

    left = await opened.queue.unrouted(limit=2, max_bytes=MUCH)
    assert [one.delivery.key for one in left.deliveries] == ["b"]


async def test_routing_without_work_marks_the_batch_as_routed(opened: Opened) -> None:
    """No handler wanted it, so it is done."""
    await opened.add(delivery())

    assert await opened.route() == []
    assert [one.state for one in await opened.listed()] == [DeliveryState.DONE]


# --- WorkQueue: claiming


async def test_a_claimed_item_brings_its_delivery(opened: Opened) -> None:
    """Byte by byte, with how often it came."""
    await opened.add(delivery(body=b"\0\xff", headers=(("a", "\xff"),)))
    await opened.add(delivery(body=b"\0\xff"))
    (work_id,) = await opened.waiting(ONE)

    (item,) = await opened.claim()

    assert (item.id, item.handler, item.attempt, item.lost, item.trigger) == (work_id, ONE, 1, 0, Trigger.DELIVERY)
    assert (item.source.seq, item.source.duplicates) == (1, 1)
    assert item.source.delivery == delivery(body=b"\0\xff", headers=(("a", "\xff"),))


async def test_what_is_not_due_is_not_claimed(opened: Opened) -> None:
    """It is at its due time, to the microsecond."""
    await opened.add(delivery())
    (work_id,) = await opened.route(ONE)
    await opened.queue.settle([ended(work_id, WorkState.WAITING, error="x", due=SECOND)])

    assert await opened.claim(now=SECOND - timedelta(microseconds=1)) == []
    assert len(await opened.claim(now=SECOND)) == 1


async def test_the_longest_due_is_claimed_first_within_a_handler(opened: Opened) -> None:
    """And handlers are served in the order given, whose order the caller turns."""
    await opened.add(*[delivery(str(n)) for n in range(3)])
    ids = await opened.route(ONE, TWO)
    dues = [3, 0, 1, 4, 2, 5]
    await opened.queue.settle(
        [
            ended(work_id, WorkState.WAITING, error="x", due=SECOND * due)
            for work_id, due in zip(ids, dues, strict=True)
        ]
    )

    items = await opened.claim(handlers=(TWO, ONE), now=LEASE)

    assert [(item.handler, item.source.delivery.key) for item in items] == [
        (TWO, "0"),
        (TWO, "1"),
        (TWO, "2"),
        (ONE, "1"),
        (ONE, "2"),
        (ONE, "0"),
    ]


@pytest.mark.parametrize("limit", [1, 3, 4])
async def test_no_more_is_claimed_than_asked_for(opened: Opened, limit: int) -> None:
    """Over all handlers together; the rest stays for others."""
    await opened.add(delivery("a"), delivery("b"))
    await opened.waiting(ONE, TWO)

    items = await opened.claim(handlers=(ONE, TWO), wanted=Wanted(limit, MUCH))

    assert len(items) == limit
    assert len(await opened.claim(B, handlers=(ONE, TWO))) == 4 - limit


@pytest.mark.parametrize(("max_bytes", "count"), [(0, 1), (100, 1), (199, 1), (200, 2), (500, 4)])
async def test_claimed_bodies_fit_in_the_bytes_given(opened: Opened, max_bytes: int, count: int) -> None:
    """Over all handlers together, but always one."""
    await opened.add(delivery("a", body=b"x" * 100), delivery("b", body=b"x" * 100))
    await opened.waiting(ONE, TWO)

    assert len(await opened.claim(handlers=(ONE, TWO), wanted=Wanted(10, max_bytes))) == count


async def test_only_items_of_the_handlers_named_are_claimed(opened: Opened) -> None:
    """A worker with other handlers leaves them alone; one with none claims nothing."""
    await opened.add(delivery())
    await opened.waiting(ONE)

    assert await opened.claim(handlers=(TWO, HandlerName("on"), HandlerName("one2"))) == []
    assert await opened.claim(handlers=()) == []
    assert len(await opened.claim(handlers=(TWO, ONE))) == 1


async def test_what_is_claimed_is_claimed_once(opened: Opened) -> None:
    """Not again before its lease ends, by anyone."""
    await opened.add(delivery())
    await opened.waiting(ONE)
    await opened.claim(A)

    almost = LEASE - timedelta(microseconds=1)
    assert await opened.claim(B, now=almost) == []
    assert await opened.claim(A, now=almost) == []


async def test_workers_that_race_claim_each_item_once(opened: Opened) -> None:
    """Two connections, many claims at a time."""
    await opened.add(*[delivery(str(n)) for n in range(40)])
    ids = await opened.waiting(ONE)
    claimed: list[int] = []

    async def work(queue: WorkQueue, worker: WorkerId) -> None:
        while items := await queue.claim((ONE,), Wanted(3, MUCH), lease=Lease(worker, AFTER), now=NOON):
            claimed.extend(item.id for item in items)

    await soon(asyncio.gather(work(opened.queue, A), work(opened.other, B), work(opened.other, B)))

    assert sorted(claimed) == sorted(ids)


async def test_an_item_whose_lease_ended_is_claimed_as_a_new_attempt(opened: Opened) -> None:
    """The attempt that nobody knows the end of is counted as lost, and said so."""
    await opened.add(delivery())
    (work_id,) = await opened.route(ONE, worker=A)

    (item,) = await opened.claim(B, now=LEASE)

    assert (item.id, item.attempt, item.lost, item.trigger) == (work_id, 2, 1, Trigger.RETRY)
    work = await opened.work_of()
    assert (work.state, work.attempts) == (WorkState.RUNNING, 2)
    assert work.last_error is not None
    assert "lost" in work.last_error


async def test_every_lost_attempt_is_counted(opened: Opened) -> None:
    """A failed attempt between them is none."""
    await opened.add(delivery())
    (work_id,) = await opened.route(ONE)
    (item,) = await opened.claim(now=LEASE)
    await opened.queue.settle([ended(work_id, WorkState.WAITING, number=2, error="x", due=LEASE)])
    (again,) = await opened.claim(now=LEASE)
    (last,) = await opened.claim(B, now=LEASE * 2)

    assert [(one.attempt, one.lost) for one in (item, again, last)] == [(2, 1), (3, 1), (4, 2)]


@pytest.mark.parametrize(("lost", "found"), [(range(2), [0, 1]), (range(2, 2**31), [2, 3]), (range(1, 3), [1, 2])])
async def test_items_are_chosen_by_how_often_they_were_lost(opened: Opened, lost: range, found: list[int]) -> None:
    """The attempt whose lease has just ended counts before it is compared."""
    await opened.add(*[delivery(str(n)) for n in range(4)])
    ids = await opened.waiting(*[HandlerName(str(n)) for n in range(4)])
    own = [ids[4 * n + n] for n in range(4)]  # delivery n for handler n is lost n times
    await opened.queue.settle([])
    for times in range(3):
        handlers = [HandlerName(str(n)) for n in range(times + 1, 4)]
        await opened.claim(handlers=handlers, now=LEASE * times)

    due = await opened.queue.next_due([HandlerName("3")], lost=range(3, 4))
    items = await opened.claim(
        B, [HandlerName(str(n)) for n in range(4)], now=LEASE * 3, wanted=Wanted(100, MUCH, lost)
    )

    assert due == NOON + LEASE * 3
    assert {item.lost for item in items} == set(found)
    assert {item.id for item in items if item.id in own} == {own[n] for n in found}


# --- WorkQueue: renewing


async def test_a_renewed_lease_ends_later(opened: Opened) -> None:
    """Nobody else claims the item before its new end."""
    await opened.add(delivery())
    (work_id,) = await opened.route(ONE)

    await opened.queue.renew([work_id], Lease(A, NOON + LEASE * 2))

    assert await opened.claim(B, now=LEASE) == []
    assert len(await opened.claim(B, now=LEASE * 2)) == 1


async def test_only_the_holder_renews(opened: Opened) -> None:
    """Not another worker, and not for what waits, is done or dead."""
    await opened.add(*[delivery(str(n)) for n in range(4)])
    others, waiting, done, dead = await opened.route(ONE)
    await opened.queue.settle(
        [ended(waiting, WorkState.WAITING, error="x"), ended(done), ended(dead, WorkState.DEAD, error="x")]
    )

    await opened.queue.renew([waiting, done, dead], Lease(A, NOON + LEASE * 9))
    await opened.queue.renew([others], Lease(B, NOON + LEASE * 9))

    assert {item.id for item in await opened.claim(now=LEASE)} == {others, waiting}


async def test_a_late_renewal_takes_nothing_back(opened: Opened) -> None:
    """Another worker has claimed the item meanwhile, and its lease is untouched."""
    await opened.add(delivery())
    (work_id,) = await opened.route(ONE)
    await opened.claim(B, now=LEASE)

    await opened.queue.renew([work_id], Lease(A, NOON + LEASE * 9))

    assert len(await opened.claim(A, now=LEASE * 2)) == 1


async def test_renewing_nothing_is_allowed(opened: Opened) -> None:
    """So are ids that nobody has."""
    await opened.queue.renew([], Lease(A, AFTER))
    await opened.queue.renew([12345], Lease(A, AFTER))


# --- WorkQueue: settling


@pytest.mark.parametrize(
    ("state", "seen"),
    [
        (WorkState.DONE, DeliveryState.DONE),
        (WorkState.DEAD, DeliveryState.DEAD),
        (WorkState.WAITING, DeliveryState.WORKING),
    ],
)
async def test_a_settled_item_goes_to_its_state(opened: Opened, state: WorkState, seen: DeliveryState) -> None:
    """Its error and, while it waits, its due time can be seen."""
    await opened.add(delivery())
    (work_id,) = await opened.route(ONE)
    error = None if state is WorkState.DONE else "ValueError: no"

    assert list(await opened.queue.settle([ended(work_id, state, error=error, due=SECOND)])) == [True]

    due_at = NOON + SECOND if state is WorkState.WAITING else None
    assert await opened.work_of() == WorkSummary(ONE, state, 1, error, due_at)
    assert (await opened.listed())[0].state is seen


async def test_success_clears_the_last_error(opened: Opened) -> None:
    """What failed before it succeeded has no error any more."""
    await opened.add(delivery())
    (work_id,) = await opened.route(ONE)
    await opened.queue.settle([ended(work_id, WorkState.WAITING, error="x")])
    await opened.claim()
    await opened.queue.settle([ended(work_id, number=2)])

    assert await opened.work_of() == WorkSummary(ONE, WorkState.DONE, 2, None, None)


@pytest.mark.parametrize("state", [WorkState.DONE, WorkState.DEAD])
async def test_done_and_dead_are_not_claimed_again(opened: Opened, state: WorkState) -> None:
    """However long one waits."""
    await opened.add(delivery())
    (work_id,) = await opened.route(ONE)
    await opened.queue.settle([ended(work_id, state)])

    assert await opened.claim(now=timedelta(days=3650)) == []
    assert await opened.queue.next_due((ONE,), lost=range(10)) is None


async def test_a_late_result_is_refused_after_another_claim(opened: Opened) -> None:
    """The item belongs to the new attempt, whose result counts."""
    await opened.add(delivery())
    (work_id,) = await opened.route(ONE, worker=A)
    await opened.claim(B, now=LEASE)

    assert list(await opened.queue.settle([ended(work_id, worker=A, number=1)])) == [False]
    assert (await opened.work_of()).state is WorkState.RUNNING
    assert list(await opened.queue.settle([ended(work_id, worker=B, number=2)])) == [True]


async def test_a_late_result_is_refused_when_the_same_worker_claimed_again(opened: Opened) -> None:
    """Its name is right, and its attempt is not."""
    await opened.add(delivery())
    (work_id,) = await opened.route(ONE, worker=A)
    await opened.claim(A, now=LEASE)

    assert list(await opened.queue.settle([ended(work_id, number=1)])) == [False]
    assert list(await opened.queue.settle([ended(work_id, number=2)])) == [True]


async def test_a_result_after_the_lease_counts_if_nobody_claimed_the_item(opened: Opened) -> None:
    """Running it again would be a waste."""
    await opened.add(delivery())
    (work_id,) = await opened.route(ONE)

    assert list(await opened.queue.settle([ended(work_id, due=LEASE * 5)])) == [True]


async def test_a_result_is_recorded_once(opened: Opened) -> None:
    """Sent again it is refused."""
    await opened.add(delivery())
    (work_id,) = await opened.route(ONE)
    await opened.queue.settle([ended(work_id)])

    assert list(await opened.queue.settle([ended(work_id, WorkState.DEAD, error="x")])) == [False]
    assert (await opened.work_of()).state is WorkState.DONE


async def test_results_in_one_batch_stand_for_themselves(opened: Opened) -> None:
    """One that is refused does not touch the others, and the answers keep their order."""
    await opened.add(*[delivery(str(n)) for n in range(3)])
    first, second, third = await opened.route(ONE)

    settled = await opened.queue.settle(
        [ended(third), ended(second, worker=B), ended(first, WorkState.DEAD, error="x")]
    )

    assert list(settled) == [True, False, True]
    assert [one.state for one in await opened.listed()] == [
        DeliveryState.DONE,
        DeliveryState.WORKING,
        DeliveryState.DEAD,
    ]


async def test_errors_of_any_text_are_recorded(opened: Opened) -> None:
    """Quotes, line ends, other alphabets and long texts come back as they are."""
    error = 'ValueError: "it\'s" \n ünïcödé 🚲 \\x00 ' + "x" * 400
    await opened.add(delivery())
    (work_id,) = await opened.route(ONE)

    await opened.queue.settle([ended(work_id, WorkState.DEAD, error=error)])

    assert (await opened.work_of()).last_error == error


# --- WorkQueue: giving back and taking over


async def test_what_is_given_back_is_due_at_once_and_uncounted(opened: Opened) -> None:
    """The next claim is again the first attempt."""
    await opened.add(delivery())
    (work_id,) = await opened.route(ONE, worker=A)

    await opened.queue.give_back([work_id], A, now=NOON)

    assert await opened.work_of() == WorkSummary(ONE, WorkState.WAITING, 0, None, NOON)
    (item,) = await opened.claim(B)
    assert (item.attempt, item.lost, item.trigger) == (1, 0, Trigger.DELIVERY)


async def test_only_the_holder_gives_back(opened: Opened) -> None:
    """Others and late ones change nothing."""
    await opened.add(delivery("mine"), delivery("lost"), delivery("done"))
    mine, lost, done = await opened.route(ONE, worker=A)
    await opened.queue.settle([ended(done)])

    await opened.queue.give_back([mine], B, now=NOON)
    assert await opened.claim(B) == []
    await opened.claim(B, now=LEASE, wanted=Wanted(10, MUCH))
    await opened.queue.give_back([lost, done], A, now=NOON)

    assert await opened.claim(A) == []
    assert (await opened.work_of("done")).state is WorkState.DONE


async def test_a_result_after_giving_back_is_refused(opened: Opened) -> None:
    """The item is free for others."""
    await opened.add(delivery())
    (work_id,) = await opened.route(ONE)
    await opened.queue.give_back([work_id], A, now=NOON)

    assert list(await opened.queue.settle([ended(work_id)])) == [False]


async def test_a_lost_attempt_before_giving_back_stays_recorded(opened: Opened) -> None:
    """Given back, claimed and settled: the numbers of attempts never meet."""
    await opened.add(delivery())
    (work_id,) = await opened.route(ONE, worker=A)
    await opened.claim(B, now=LEASE)
    await opened.queue.give_back([work_id], B, now=NOON)
    (item,) = await opened.claim(A, now=LEASE)
    (again,) = await opened.claim(B, now=LEASE * 2)

    assert [(one.attempt, one.lost) for one in (item, again)] == [(2, 1), (3, 2)]
    assert list(await opened.queue.settle([ended(work_id, worker=B, number=3)])) == [True]


async def test_the_work_of_a_dead_worker_is_taken_over(opened: Opened) -> None:
    """At once, as lost attempts; other workers keep theirs."""
    await opened.add(delivery("a"), delivery("b"))
    dead = await opened.route(ONE, worker=A)
    await opened.add(delivery("c"))
    await opened.route(ONE, worker=B)

    assert await opened.queue.take_over(A, now=NOON) == 2

    items = await opened.claim(WorkerId("c"))
    assert {item.id for item in items} == set(dead)
    assert {(item.attempt, item.lost) for item in items} == {(2, 1)}


async def test_taking_over_from_nobody_is_nothing(opened: Opened) -> None:
    """Nor is what that worker has settled or given back."""
    await opened.add(delivery("a"), delivery("b"))
    first, second = await opened.route(ONE, worker=A)
    await opened.queue.settle([ended(first)])
    await opened.queue.give_back([second], A, now=NOON)

    assert await opened.queue.take_over(A, now=NOON) == 0
    assert await opened.queue.take_over(WorkerId("nobody"), now=NOON) == 0


# --- WorkQueue: waiting


async def test_the_next_due_time_is_the_earliest_of_the_handlers(opened: Opened) -> None:
    """Of what waits, and of what runs when its lease ends."""
    await opened.add(delivery())
    one, two = await opened.route(ONE, TWO)
    assert await opened.queue.next_due((ONE, TWO), lost=range(10)) == AFTER

    await opened.queue.settle([ended(two, WorkState.WAITING, error="x", due=SECOND)])

    assert await opened.queue.next_due((ONE, TWO), lost=range(10)) == NOON + SECOND
    assert await opened.queue.next_due((ONE,), lost=range(10)) == AFTER
    assert await opened.queue.next_due((), lost=range(10)) is None
    assert await opened.queue.next_due((HandlerName("other"),), lost=range(10)) is None
    assert one != two


async def test_the_next_due_time_counts_only_what_was_lost_as_often_as_said(opened: Opened) -> None:
    """What is running counts as lost once more at the end of its lease."""
    await opened.add(delivery())
    await opened.route(ONE)

    assert await opened.queue.next_due((ONE,), lost=range(1)) is None
    assert await opened.queue.next_due((ONE,), lost=range(1, 2)) == AFTER


async def test_a_worker_is_woken_by_what_the_log_appends(opened: Opened) -> None:
    """Also when it has waited for long, and by each new delivery again."""
    await opened.add(delivery("before"))
    await soon(opened.queue.changed())

    for key in ("a", "b"):
        waiting = asyncio.create_task(opened.queue.changed())
        await opened.add(delivery(key))
        await soon(waiting)


async def test_a_change_before_the_call_is_not_missed(opened: Opened) -> None:
    """What was appended since the last call ends the next one."""
    await opened.add(delivery("a"))
    await soon(opened.queue.changed())
    await opened.add(delivery("b"))

    await soon(opened.queue.changed())


# --- Reports


async def test_deliveries_are_listed_newest_first(opened: Opened) -> None:
    """In the order of arrival, whatever their moments say."""
    await opened.add(delivery("a"), delivery("b", received_at=NOON - SECOND), delivery("c"))

    assert await opened.keys() == ["c", "b", "a"]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"type": "crawl.page"}, "ba"),
        ({"type": "crawl.*"}, "dba"),
        ({"type": "*.page"}, "cba"),
        ({"type": "?rawl.*"}, "dba"),
        ({"type": "[bc]*.page"}, "cba"),
        ({"type": "[!b]*.page"}, "ba"),
        ({"type": "Crawl.*"}, ""),
        ({"type": "crawl"}, ""),
        ({"job_id": "j1"}, "ca"),
        ({"job_id": "j"}, ""),
        ({"since": NOON + SECOND}, "dcb"),
        ({"until": NOON + SECOND}, "a"),
        ({"since": NOON + SECOND, "until": NOON + 3 * SECOND}, "cb"),
        ({"limit": 1}, "d"),
        ({"limit": 0}, ""),
        ({"limit": 9}, "dcba"),
        ({"state": DeliveryState.NEW}, "d"),
        ({"state": DeliveryState.WORKING}, "c"),
        ({"state": DeliveryState.DONE}, "b"),
        ({"state": DeliveryState.DEAD}, "a"),
        ({"type": "crawl.*", "limit": 2}, "db"),
        ({"type": "crawl.*", "state": DeliveryState.DEAD, "limit": 2}, "a"),
        ({"job_id": "j1", "type": "crawl.page", "until": NOON + SECOND}, "a"),
    ],
    ids=str,
)
async def test_listings_are_narrowed(opened: Opened, wanted: dict[str, object], expected: str) -> None:
    """By type, job, time, state and number, alone and together. `since` is part of the span, `until` is not."""
    await opened.add(
        delivery("a", kind="crawl.page", job_id="j1"),
        delivery("b", kind="crawl.page", job_id="j2", received_at=NOON + SECOND),
        delivery("c", kind="batch_scrape.page", job_id="j1", received_at=NOON + 2 * SECOND),
    )
    dead, done, _ = await opened.route(ONE)
    await opened.queue.settle([ended(dead, WorkState.DEAD, error="x"), ended(done)])
    await opened.add(delivery("d", kind="crawl.completed", job_id="j3", received_at=NOON + 3 * SECOND))

    assert "".join(await opened.keys(**wanted)) == expected


@pytest.mark.parametrize(
    ("states", "seen"),
    [
        ((WorkState.DONE, WorkState.DONE), DeliveryState.DONE),
        ((WorkState.DONE, WorkState.DEAD), DeliveryState.DEAD),
        ((WorkState.DEAD, WorkState.WAITING), DeliveryState.WORKING),
        ((WorkState.DEAD, WorkState.RUNNING), DeliveryState.WORKING),
        ((WorkState.DONE, WorkState.RUNNING), DeliveryState.WORKING),
    ],
)
async def test_a_delivery_is_as_far_as_all_its_work(
    opened: Opened, states: tuple[WorkState, WorkState], seen: DeliveryState
) -> None:
    """Dead only when nothing of it can still run."""
    await opened.add(delivery())
    ids = await opened.route(ONE, TWO)
    await opened.queue.settle(
        [
            ended(work_id, state)
            for work_id, state in zip(ids, states, strict=True)
            if state is not WorkState.RUNNING
        ]
    )

    assert (await opened.reports.detail(DeliveryKey("k"))).summary.state is seen
    assert await opened.reports.unfinished() == (seen is DeliveryState.WORKING)


async def test_a_long_listing_yields_each_delivery_once(opened: Opened) -> None:
    """In many pages, while more is coming in."""
    await opened.add(*[delivery(f"{n:04}") for n in range(1_201)])
    seen: list[str] = []

    async for summary in opened.reports.deliveries(DeliveryFilter()):
        if len(seen) == 600:
            await opened.add(delivery("later"))
        seen.append(summary.key)

    assert seen == [f"{n:04}" for n in reversed(range(1_201))]
    assert len(await opened.keys(limit=1_001)) == 1_001


async def test_a_listing_can_be_left_early(opened: Opened) -> None:
    """As when the pipe behind `events list` is closed."""
    await opened.add(*[delivery(str(n)) for n in range(20)])

    async for summary in opened.reports.deliveries(DeliveryFilter()):
        assert summary.key == "19"
        break

    assert len(await opened.keys()) == 20


@pytest.mark.parametrize(
    ("prefix", "key"),
    [
        ("abc-1", "abc-1"),
        ("abc-1x", "abc-1x"),
        ("b", "beta"),
        ("sha256:0", "sha256:01"),
        ("%", "%_*[a]"),
        ("é", None),
    ],
)
async def test_a_unique_prefix_is_the_whole_key(opened: Opened, prefix: str, key: str | None) -> None:
    """A whole key is itself, even when others begin with it; nothing in a prefix is a wild card."""
    await opened.add(*[delivery(key) for key in ("abc-1", "abc-1x", "abc-2", "beta", "sha256:01", "%_*[a]", "~")])

    if key is None:
        with pytest.raises(UnknownDelivery):
            await opened.reports.resolve(prefix)
    else:
        assert await opened.reports.resolve(prefix) == key


async def test_an_ambiguous_prefix_names_the_candidates(opened: Opened) -> None:
    """Whoever asks can choose from them."""
    await opened.add(delivery("abc-1"), delivery("abc-2"), delivery("beta"))

    with pytest.raises(UnknownDelivery) as caught:
        await opened.reports.resolve("abc")

    assert "'abc'" in str(caught.value)
    assert "abc-1" in str(caught.value)
    assert "abc-2" in str(caught.value)
    assert "beta" not in str(caught.value)


async def test_many_candidates_are_not_all_named(opened: Opened) -> None:
    """A message stays readable with thousands of deliveries."""
    await opened.add(*[delivery(f"abc-{n:03}") for n in range(300)])

    with pytest.raises(UnknownDelivery) as caught:
        await opened.reports.resolve("")

    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("prefix", ["zeta", "*", "abc-1 "])
async def test_an_unknown_prefix_is_refused(opened: Opened, prefix: str) -> None:
    """With the words that were asked."""
    await opened.add(delivery("abc-1"))

    with pytest.raises(UnknownDelivery, match=prefix.replace("*", r"\*")):
        await opened.reports.resolve(prefix)


async def test_detail_is_for_whole_keys(opened: Opened) -> None:
    """Anything else is unknown, and said so."""
    await opened.add(delivery("abc-1"))

    with pytest.raises(UnknownDelivery, match="abc"):
        await opened.reports.detail(DeliveryKey("abc"))


async def test_detail_shows_work_in_the_order_it_was_made(opened: Opened) -> None:
    """With state, attempts, error and due time of each."""
    await opened.add(delivery())
    one, _ = await opened.route(ONE, TWO)
    await opened.queue.settle([ended(one, WorkState.WAITING, error="x", due=SECOND)])

    detail = await opened.reports.detail(DeliveryKey("k"))

    assert detail.work == (
        WorkSummary(ONE, WorkState.WAITING, 1, "x", NOON + SECOND),
        WorkSummary(TWO, WorkState.RUNNING, 1, None, None),
    )


async def test_unfinished_counts_deliveries_and_not_their_work(opened: Opened) -> None:
    """New ones and those with something open."""
    assert await opened.reports.unfinished() == 0
    await opened.add(delivery("a"), delivery("b"))
    assert await opened.reports.unfinished() == 2
    ids = await opened.route(ONE, TWO)
    await opened.add(delivery("c"))
    assert await opened.reports.unfinished() == 3
    await opened.queue.settle([ended(work_id) for work_id in ids[:3]])
    assert await opened.reports.unfinished() == 2
