"""The contract of listings that go on behind a row: what a page of the console shows next."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from receiver.core.activity import PruneRule
from receiver.core.deliveries import DeliveryFilter, ListingPage, LookEnd, Quarantined, QuarantineFilter
from receiver.core.jobs import JobFilter
from receiver.core.types import DeliveryState, HandlerName, WorkState
from receiver.core.work import WorkFilter
from tests.doubles import NOON, delivery
from tests.stores.opened import AFTER, DEAD, ONE, SECOND, TWO, Opened, ended


async def test_deliveries_go_on_behind_a_seq(opened: Opened) -> None:
    await opened.add(*(delivery(f"k{number}") for number in range(5)))
    first = [one async for one in opened.reports.deliveries(DeliveryFilter(limit=2))]

    rest = [one async for one in opened.reports.deliveries(DeliveryFilter(limit=2), before=first[-1].seq)]

    assert [one.key for one in (*first, *rest)] == ["k4", "k3", "k2", "k1"]
    assert [one async for one in opened.reports.deliveries(DeliveryFilter(), before=1)] == []


async def test_work_items_go_on_behind_an_id(opened: Opened) -> None:
    await opened.add(*(delivery(f"k{number}") for number in range(3)))
    await opened.route(ONE, TWO)
    everything = [one async for one in opened.reports.work_items(WorkFilter())]

    rest = [one async for one in opened.reports.work_items(WorkFilter(), before=everything[1].id)]

    assert rest == everything[2:]
    assert rest


async def test_jobs_go_on_behind_the_seq_of_their_last_delivery(opened: Opened) -> None:
    await opened.add(*(delivery(f"k{number}", job_id=job) for number, job in enumerate("abac")))
    first = [one async for one in opened.reports.jobs(JobFilter(limit=1))]

    rest = [one async for one in opened.reports.jobs(JobFilter(limit=2), before=first[-1].last_seq)]

    assert [one.job_id for one in (*first, *rest)] == ["c", "a", "b"]


async def test_jobs_end_with_the_seq_of_a_last_delivery(opened: Opened) -> None:
    """A job counts where its last delivery is, however many it has before."""
    await opened.add(*(delivery(f"k{number}", job_id=job) for number, job in enumerate("abacda")))
    end = await opened.reports.look_end(examine=3)
    assert end is not None

    near = [one async for one in opened.reports.jobs(JobFilter(), through=end.place)]
    far = [one async for one in opened.reports.jobs(JobFilter(), before=end.place)]

    assert [one.job_id for one in near] == ["a", "d", "c"]
    assert [one.job_id for one in far] == ["b"]
    assert near[0].deliveries == 3
    assert await opened.reports.look_end(examine=3, before=end.place) is None


async def test_requests_in_quarantine_go_on_behind_an_id(opened: Opened) -> None:
    for number in range(3):
        await opened.log.quarantine(Quarantined(NOON, "malformed", f"no {number}", None, (), b""))
    first = [one async for one in opened.reports.quarantined_requests(QuarantineFilter(limit=1))]

    rest = [one async for one in opened.reports.quarantined_requests(QuarantineFilter(), before=first[-1].id)]

    assert [one.detail for one in (*first, *rest)] == ["no 2", "no 1", "no 0"]


COUNT = 12
EXAMINED = (1, 3, 5, COUNT, 100)
LATER = HandlerName("later")


async def fill(opened: Opened) -> None:
    """Append deliveries a second apart, with gaps in their seqs; the third has work of a handler of its own."""
    for number in range(COUNT):
        kind = "monitor.page" if number in (1, 9) else "crawl.page"
        job = "short" if number < 2 else "long"
        await opened.add(delivery(f"k{number}", kind=kind, job_id=job, received_at=NOON + number * SECOND))
        (work_id, *_) = await opened.route(*((ONE, LATER) if number == 2 else (ONE,)))
        if number < 4:
            await opened.settle(ended(work_id, DEAD, error=f"no {number}"))
    await opened.maintenance.prune(PruneRule(AFTER, type="monitor.*"), after=8, limit=100, now=AFTER)


async def looks(
    page: Callable[..., Awaitable[ListingPage[Any]]], place: Callable[[Any], int]
) -> tuple[list[Any], int]:
    """Return all rows, and how many looks it took to find them."""
    rows: list[Any] = []
    before: int | None = None
    for count in range(1, 100):
        found = await page(before=before)
        assert [place(one) for one in found.rows] == sorted(map(place, found.rows), reverse=True)
        rows += found.rows
        before = found.end.place if found.end else None
        if before is None:
            return rows, count
    raise AssertionError("the looks come to no end")


@pytest.mark.parametrize(
    "wanted",
    [
        DeliveryFilter(),
        DeliveryFilter(type="monitor.*"),
        DeliveryFilter(handler="lat*"),
        DeliveryFilter(handler="none"),
        DeliveryFilter(job_id="short"),
        DeliveryFilter(job_id="long", handler="later"),
        DeliveryFilter(failed=True),
        DeliveryFilter(state=DeliveryState.DEAD, until=NOON + 2 * SECOND),
        DeliveryFilter(state=DeliveryState.WORKING, type="crawl.*"),
        DeliveryFilter(type="nothing"),
    ],
)
async def test_looks_find_all_deliveries_that_a_listing_finds(opened: Opened, wanted: DeliveryFilter) -> None:
    """None is found twice or left out, wherever a look ends."""
    await fill(opened)
    listed = [one async for one in opened.reports.deliveries(wanted)]

    for examine in EXAMINED:
        page = partial(opened.reports.delivery_page, wanted, examine=examine)
        rows, count = await looks(page, lambda one: one.seq)

        assert rows == listed
        assert count <= COUNT // examine + 1


@pytest.mark.parametrize(
    "wanted",
    [
        WorkFilter(),
        WorkFilter(type="monitor.*"),
        WorkFilter(handler="lat*"),
        WorkFilter(handler="none"),
        WorkFilter(job_id="short"),
        WorkFilter(job_id="long", state=WorkState.DEAD),
        WorkFilter(state=WorkState.DEAD, error="no [01]"),
        WorkFilter(state=WorkState.RUNNING, type="crawl.*"),
        WorkFilter(action=7),
    ],
)
async def test_looks_find_all_work_that_a_listing_finds(opened: Opened, wanted: WorkFilter) -> None:
    await fill(opened)
    listed = [one async for one in opened.reports.work_items(wanted)]

    for examine in EXAMINED:
        rows, count = await looks(partial(opened.reports.work_page, wanted, examine=examine), lambda one: one.id)

        assert rows == listed
        assert count <= (COUNT + 1) // examine + 1


async def test_a_look_that_finds_nothing_tells_how_far_it_went(opened: Opened) -> None:
    """Its end is the oldest delivery that it examined, and gaps count for nothing."""
    await fill(opened)
    there = [one async for one in opened.reports.deliveries(DeliveryFilter())]

    page = await opened.reports.delivery_page(DeliveryFilter(handler="later"), examine=4)
    work = await opened.reports.work_page(WorkFilter(handler="later"), examine=4)

    assert page == ListingPage((), LookEnd(there[3].seq, there[3].received_at))
    assert work.rows == ()
    assert work.end is not None
    assert work.end.received_at == there[3].received_at


async def test_a_look_ends_with_the_rows_that_are_asked_for(opened: Opened) -> None:
    """Then it says nothing of how far it went: the next one goes on behind the last row."""
    await fill(opened)

    page = await opened.reports.delivery_page(DeliveryFilter(limit=2, type="crawl.*"), examine=5)

    assert [one.key for one in page.rows] == ["k11", "k10"]
    assert page.end is None
