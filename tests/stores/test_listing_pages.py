"""The contract of listings that go on behind a row: what a page of the console shows next."""

from receiver.core.deliveries import DeliveryFilter
from receiver.core.jobs import JobFilter
from receiver.core.quarantine import Quarantined, QuarantineFilter
from receiver.core.work import WorkFilter
from tests.doubles import NOON, delivery
from tests.stores.opened import ONE, TWO, Opened


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


async def test_requests_in_quarantine_go_on_behind_an_id(opened: Opened) -> None:
    for number in range(3):
        await opened.log.quarantine(Quarantined(NOON, "malformed", f"no {number}", None, (), b""))
    first = [one async for one in opened.reports.quarantined_requests(QuarantineFilter(limit=1))]

    rest = [one async for one in opened.reports.quarantined_requests(QuarantineFilter(), before=first[-1].id)]

    assert [one.detail for one in (*first, *rest)] == ["no 2", "no 1", "no 0"]
