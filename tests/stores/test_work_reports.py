"""The contract of reports about work items, handlers and the backlog."""

from datetime import timedelta

import pytest

from receiver.core.claims import Settlement
from receiver.core.types import DeliveryKey, HandlerName, HandlerSwitch, WorkState
from receiver.core.work import Backlog, HandlerReport, Hold, LaneHead, WorkFilter, WorkSummary
from receiver.errors import UnknownWork
from tests.doubles import NOON, delivery
from tests.stores.opened import (
    AFTER,
    DAY,
    DEAD,
    DONE,
    HELD,
    LEASE,
    NOTHING,
    ONE,
    QUEUED,
    RUNNING,
    SECOND,
    SKIPPED,
    TWO,
    WAITING,
    A,
    B,
    Opened,
    after_noon,
    ended,
)

# --- Listings


async def test_a_work_item_is_listed_with_all_that_is_known_of_it(opened: Opened) -> None:
    """The listing has its delivery too."""
    await opened.add(delivery("k", kind="crawl.page", job_id="j", received_at=NOON - SECOND))
    (work_id,) = await opened.route(ONE, lane="l")
    await opened.settle(ended(work_id, WAITING, error="E: x", due=LEASE))

    expected = WorkSummary(
        id=work_id,
        key=DeliveryKey("k"),
        type="crawl.page",
        job_id="j",
        received_at=NOON - SECOND,
        handler=ONE,
        state=WAITING,
        attempts=1,
        lane="l",
        due_at=after_noon(LEASE),
        last_error="E: x",
        note=None,
    )
    assert await opened.work() == [expected]
    assert await opened.seen(work_id) == expected


@pytest.mark.parametrize("state", WorkState)
async def test_waiting_and_held_items_have_a_due_time(opened: Opened, state: WorkState) -> None:
    """Others have none."""
    work_id = await opened.in_state(state)

    due_at = {WAITING: NOON, HELD: NOON + SECOND}.get(state)
    assert (await opened.seen(work_id)).due_at == due_at


async def test_work_items_are_listed_newest_first(opened: Opened) -> None:
    """The order is that in which they were made."""
    await opened.add(delivery("a"), delivery("b", received_at=NOON - SECOND))
    ids = await opened.route(ONE, TWO)

    assert [one.id for one in await opened.work()] == list(reversed(ids))
    assert sorted(ids) == ids


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, "gfedcba"),
        ({"type": "crawl.page"}, "ba"),
        ({"type": "crawl.*"}, "gfeba"),
        ({"type": "[!b]*.page"}, "ba"),
        ({"type": "Crawl.*"}, ""),
        ({"job_id": "j1"}, "edca"),
        ({"job_id": "j"}, ""),
        ({"since": NOON + SECOND}, "gfedcb"),
        ({"until": NOON + SECOND}, "a"),
        ({"since": NOON + SECOND, "until": NOON + 2 * SECOND}, "b"),
        ({"handler": "pages.one"}, "gfecba"),
        ({"handler": "pages.*"}, "gfecba"),
        ({"handler": "*.one"}, "gfecba"),
        ({"handler": "[!p]*"}, "d"),
        ({"handler": "pages"}, ""),
        ({"handler": "Pages.*"}, ""),
        ({"state": DEAD}, "a"),
        ({"state": DONE}, "b"),
        ({"state": WAITING}, "d"),
        ({"state": RUNNING}, "c"),
        ({"state": QUEUED}, "e"),
        ({"state": HELD}, "f"),
        ({"state": SKIPPED}, "g"),
        ({"limit": 0}, ""),
        ({"limit": 2}, "gf"),
        ({"limit": 99}, "gfedcba"),
        ({"job_id": "j1", "limit": 2}, "ed"),
        ({"handler": "pages.*", "type": "*.page", "limit": 2}, "cb"),
        ({"job_id": "j1", "handler": "pages.*", "state": RUNNING, "since": NOON, "type": "b*"}, "c"),
        ({"job_id": "j1", "state": DONE}, ""),
    ],
    ids=str,
)
async def test_listings_of_work_are_narrowed(opened: Opened, wanted: dict[str, object], expected: str) -> None:
    """Type, job, moment of arrival, handler, state and number narrow alone and together."""
    pages, other = HandlerName("pages.one"), HandlerName("other")

    async def make(kind: str, job: str, at: int, *names: HandlerName, hold: Hold | None = None) -> list[int]:
        await opened.add(delivery(f"{kind} {job} {hold}", kind=kind, job_id=job, received_at=NOON + at * SECOND))
        return await opened.route(*names, hold=hold, lane=job)

    a = await make("crawl.page", "j1", 0, pages)
    await opened.settle(ended(a[0], DEAD, error="x"))
    b = await make("crawl.page", "j2", 1, pages)
    await opened.settle(ended(b[0]))
    c, d = await make("batch_scrape.page", "j1", 2, pages, other)
    await opened.settle(ended(d, WAITING, error="x"))
    await make("crawl.started", "j1", 3, pages)
    await make("crawl.failed", "j3", 3, pages, hold=Hold(AFTER, AFTER))
    await opened.controls.switch(pages, HandlerSwitch.DISABLED)
    (g,) = await make("crawl.completed", "j3", 3, pages)
    letters = dict(zip(range(a[0], g + 1), "abcdefg", strict=True))
    assert letters[c] == "c"

    assert "".join(letters[one.id] for one in await opened.work(**wanted)) == expected


async def test_a_long_listing_of_work_yields_each_item_once(opened: Opened) -> None:
    """It has many pages. More items arrive and the listed ones change meanwhile."""
    ids = await opened.items(1_201)
    seen: list[int] = []

    async for one in opened.reports.work_items(WorkFilter()):
        if len(seen) == 600:
            await opened.items(1)
            await opened.controls.bury(ids[:100], "x", now=NOON)
        seen.append(one.id)

    assert seen == list(reversed(ids))
    for limit in (499, 500, 501, 1_000, 1_001):
        assert len(await opened.work(limit=limit)) == limit
    assert len(await opened.work(state=DEAD)) == 100
    assert len(await opened.work(state=WAITING, limit=700)) == 700


async def test_a_listing_of_work_can_be_left_early(opened: Opened) -> None:
    """That happens when the pipe behind `work-items list` is closed."""
    ids = await opened.items(20)

    async for one in opened.reports.work_items(WorkFilter()):
        assert one.id == ids[-1]
        break

    assert len(await opened.work()) == 20


@pytest.mark.parametrize("unknown", [0, -1, 2, 12_345])
async def test_an_unknown_work_item_is_refused(opened: Opened, unknown: int) -> None:
    """The message has the number."""
    assert await opened.items(1) == [1]

    with pytest.raises(UnknownWork, match=str(unknown)):
        await opened.reports.work_item(unknown)


async def test_a_work_item_has_its_attempts_in_order(opened: Opened) -> None:
    """They are those that have ended. The present one is only counted."""
    (work_id,) = await opened.items(1, claim=True)
    first = ended(work_id, WAITING, error="x")
    await opened.settle(first)
    await opened.claim()
    second = ended(work_id, WAITING, number=2, error="y")
    await opened.settle(second)
    await opened.claim()

    detail = await opened.reports.work_item(work_id)

    assert detail.attempts == (first.attempt, second.attempt)
    assert (detail.summary.state, detail.summary.attempts, detail.summary.last_error) == (RUNNING, 3, "y")


# --- Handlers


async def test_a_store_without_work_has_no_handlers(opened: Opened) -> None:
    """Deliveries alone make none."""
    await opened.add(delivery())

    assert list(await opened.reports.handlers()) == []


async def test_handlers_are_sorted_and_all_states_are_counted(opened: Opened) -> None:
    """A handler that left the code is there too, as long as it has work items."""
    for state in WorkState:
        await opened.in_state(state, TWO)
    await opened.in_state(DONE, ONE)

    one, two = await opened.reports.handlers()

    assert (one.name, one.counts) == (ONE, {DONE: 1})
    # What is queued brought another to stand behind; what waited was skipped with what was to be skipped.
    expected = dict.fromkeys(WorkState, 1) | {WAITING: 2}
    assert (two.name, two.counts) == (TWO, expected)
    quick = await opened.reports.handlers(count_done=False)
    assert [(each.name, each.last_error, each.latency) for each in quick] == [
        (each.name, each.last_error, None) for each in (one, two)
    ]
    assert [each.counts for each in quick] == [{}, {state: n for state, n in expected.items() if state is not DONE}]


async def test_a_handler_with_a_switch_is_reported(opened: Opened) -> None:
    """It has had no work yet. When it is on again, it is absent again."""
    await opened.controls.switch(TWO, HandlerSwitch.DISABLED)
    await opened.controls.switch(ONE, HandlerSwitch.PAUSED)
    assert list(await opened.reports.handlers()) == [
        HandlerReport(ONE, HandlerSwitch.PAUSED, {}, None, None),
        HandlerReport(TWO, HandlerSwitch.DISABLED, {}, None, None),
    ]

    await opened.controls.switch(ONE, HandlerSwitch.ON)
    await opened.controls.switch(TWO, HandlerSwitch.ON)
    assert list(await opened.reports.handlers()) == []


async def test_the_last_error_of_a_handler_is_its_newest_items(opened: Opened) -> None:
    """Only items with an error count, and a success has none."""
    first, second, third = await opened.items(3, claim=True)
    await opened.items(1, TWO)
    await opened.settle(ended(second, DEAD, error="second"))
    await opened.settle(ended(first, WAITING, error="first"), ended(third))

    assert [one.last_error for one in await opened.reports.handlers()] == ["second", None]


@pytest.mark.parametrize(
    ("seconds", "median"), [([], None), ([3], 3), ([5, 1, 3], 3), ([9, 1, 1, 9, 2], 2), ([1, 1, 100], 1)], ids=str
)
async def test_the_latency_of_a_handler_is_the_median(
    opened: Opened, seconds: list[int], median: int | None
) -> None:
    """One attempt that hung does not change it, as it would an average. Lost attempts have no length."""
    (lost,) = await opened.items(1, claim=True)
    await opened.claim(B, now=LEASE)
    await opened.controls.bury([lost], "x", now=NOON)
    for length in seconds:
        (work_id,) = await opened.items(1, claim=True, now=LEASE)
        end = ended(work_id, at=LEASE + SECOND * length)
        await opened.settle(_began(end, LEASE))

    report = (await opened.reports.handlers())[0]

    assert report.latency == (None if median is None else SECOND * median)


async def test_the_latency_of_a_handler_is_of_its_latest(opened: Opened) -> None:
    """A change for the better shows, however many attempts there were before."""
    old, new = await opened.items(150, claim=True), await opened.items(101, claim=True)
    await opened.settle(*[_began(ended(one, at=SECOND * 9), NOTHING) for one in old])
    assert (await opened.reports.handlers())[0].latency == SECOND * 9

    await opened.settle(*[_began(ended(one, at=SECOND), NOTHING) for one in new])

    assert (await opened.reports.handlers())[0].latency == SECOND


def _began(end: Settlement, at: timedelta) -> Settlement:
    return end._replace(attempt=end.attempt._replace(started_at=after_noon(at)))


async def test_readers_see_the_switches(opened: Opened) -> None:
    """They see what the worker sees."""
    await opened.controls.switch(ONE, HandlerSwitch.PAUSED)
    await opened.controls.switch(TWO, HandlerSwitch.DISABLED)

    expected = {ONE: HandlerSwitch.PAUSED, TWO: HandlerSwitch.DISABLED}
    assert await opened.reports.switches() == expected == await opened.queue.switches()


async def test_what_waits_is_counted_by_handler(opened: Opened) -> None:
    """Items that wait, are queued or held count. A handler without any is absent."""
    assert await opened.reports.waiting() == {}
    for state in WorkState:
        await opened.in_state(state, TWO)
    await opened.in_state(WAITING, ONE)
    await opened.in_state(DONE, HandlerName("three"))

    assert await opened.reports.waiting() == {ONE: 1, TWO: 4}


# --- What is still to be done


async def test_an_empty_store_has_no_backlog(opened: Opened) -> None:
    """It has no age."""
    assert await opened.reports.backlog(NOON) == Backlog(0, 0, 0, None, (), 0)


async def test_a_backlog_counts_what_is_open(opened: Opened) -> None:
    """It counts new deliveries, and items that wait, are queued, held or run, but none that has ended."""
    for state in WorkState:
        await opened.in_state(state)
    await opened.add(delivery("new-1"), delivery("new-2"))

    backlog = await opened.reports.backlog(NOON)

    assert (backlog.new, backlog.waiting, backlog.running) == (2, 4, 1)


async def test_a_backlog_is_as_old_as_what_is_due_the_longest(opened: Opened) -> None:
    """Items that wait for a later retry, behind another item or for a page are not late."""
    late, later, _ = await opened.items(3, claim=True)
    await opened.items(1, hold=Hold(NOON, NOON))
    assert (await opened.reports.backlog(after_noon(LEASE))).oldest_waiting is None

    await opened.settle(ended(later, WAITING, error="x", due=DAY))
    assert (await opened.reports.backlog(after_noon(LEASE))).oldest_waiting == NOTHING

    await opened.settle(ended(late, WAITING, error="x", due=SECOND * 10))
    assert (await opened.reports.backlog(after_noon(LEASE))).oldest_waiting == SECOND * 50


async def test_a_backlog_is_as_old_as_the_first_new_delivery(opened: Opened) -> None:
    """While no worker runs, nothing else shows how far behind everything is."""
    await opened.add(delivery("first"), delivery("second", received_at=NOON + SECOND))

    assert (await opened.reports.backlog(NOON + 60 * SECOND)).oldest_waiting == 60 * SECOND


async def test_a_backlog_names_the_paused_handlers(opened: Opened) -> None:
    """They are sorted. Work of disabled handlers does not pile up."""
    for name in ("b", "a", "c"):
        await opened.controls.switch(HandlerName(name), HandlerSwitch.PAUSED)
    await opened.controls.switch(ONE, HandlerSwitch.DISABLED)
    await opened.controls.switch(HandlerName("c"), HandlerSwitch.ON)

    assert (await opened.reports.backlog(NOON)).paused == ("a", "b")


async def test_a_backlog_counts_what_dead_workers_lost(opened: Opened) -> None:
    """It counts attempts whose items ran again too."""
    await opened.items(2, claim=True)
    assert (await opened.reports.backlog(NOON)).lost == 0

    await opened.claim(now=LEASE)

    assert (await opened.reports.backlog(after_noon(LEASE))).lost == 2


async def test_readers_see_what_workers_do_at_once(opened: Opened) -> None:
    """They see each commit."""
    (work_id,) = await opened.items(1)
    assert await opened.states(work_id) == [WAITING]
    await opened.claim(A)
    assert await opened.states(work_id) == [RUNNING]
    await opened.settle(ended(work_id))
    assert await opened.states(work_id) == [DONE]


async def test_a_queued_item_names_the_head_of_its_lane(opened: Opened) -> None:
    """Other items name none. A head that never ran has no moment."""
    waiting, queued = await opened.items(2, lane="l", claim=False)
    assert (await opened.reports.work_item(queued)).summary.behind == LaneHead(waiting, WAITING, None)
    assert (await opened.reports.work_item(waiting)).summary.behind is None
