"""The contract of reports about jobs."""

from dataclasses import replace
from datetime import timedelta

import pytest

from receiver.core.bulk import Imported
from receiver.core.deliveries import Delivery
from receiver.core.jobs import JobArrivals, JobFilter, JobState, JobSummary
from receiver.core.types import HandlerSwitch, Origin
from receiver.errors import UnknownJob
from tests.doubles import NOON, delivery
from tests.stores.opened import DEAD, DONE, NOTHING, ONE, SECOND, TWO, Opened, ended

MINUTE = timedelta(minutes=1)


def came(
    number: int, kind: str, job_id: str | None = "a", *, success: bool | None = True, after: timedelta = NOTHING
) -> Delivery:
    """Return a delivery of a job that came so long after noon."""
    return delivery(f"k{number}", kind=kind, job_id=job_id, success=success, received_at=NOON + after)


async def jobs(opened: Opened, **wanted: object) -> list[JobSummary]:
    """Return a listing of jobs."""
    filters = replace(JobFilter(), **wanted)  # type: ignore[arg-type]
    return [one async for one in opened.reports.jobs(filters)]


async def ids(opened: Opened, **wanted: object) -> str:
    """Return the ids of a listing of jobs, which have one letter each."""
    return "".join([one.job_id for one in await jobs(opened, **wanted)])


async def test_a_summary_has_pages_duplicates_times_and_end(opened: Opened) -> None:
    """Pages are counted by success, and one without a success counts as good."""
    await opened.add(
        came(1, "crawl.started"),
        came(2, "crawl.page", after=SECOND),
        came(3, "crawl.page", success=None, after=2 * SECOND),
        came(4, "crawl.page", success=False, after=3 * SECOND),
        came(5, "crawl.completed", after=4 * SECOND),
        came(6, "crawl.page", after=5 * SECOND),
    )
    await opened.add(came(2, "crawl.page", after=9 * SECOND), came(2, "crawl.page"), came(5, "crawl.completed"))

    (job,) = await jobs(opened)

    assert (job.job_id, job.family, job.state, job.started) == ("a", "crawl", JobState.COMPLETED, True)
    assert (job.good, job.failed, job.late, job.failed_lately) == (3, 1, 1, 1)
    assert (job.deliveries, job.duplicates) == (6, 3)
    assert (job.first_at, job.last_at) == (NOON, NOON + 5 * SECOND)
    assert job.end is not None
    assert (job.end.type, job.end.success, job.end.at) == ("crawl.completed", True, NOON + 4 * SECOND)


async def test_the_job_of_the_newest_delivery_comes_first(opened: Opened) -> None:
    """The order is that of arrival, whatever the moments say. A delivery without a job is in none."""
    await opened.add(
        came(1, "crawl.page", "a", after=9 * SECOND),
        came(2, "crawl.page", "b"),
        came(3, "crawl.page", "c"),
        came(4, "crawl.page", "b"),
        came(5, "odd", None),
    )

    assert await ids(opened) == "bca"


async def test_more_jobs_than_fit_in_one_read_come_once_each(opened: Opened) -> None:
    """They come in order, and as many as asked for."""
    await opened.add(*[came(n, "crawl.page", f"job-{n % 50:02}") for n in range(100)])

    names = [f"job-{n:02}" for n in reversed(range(50))]
    assert [one.job_id for one in await jobs(opened)] == names
    assert [one.job_id for one in await jobs(opened, limit=41)] == names[:41]
    assert await jobs(opened, limit=0) == []


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"type": "crawl"}, "da"),
        ({"type": "crawl.*"}, "da"),
        ({"type": "*.failed"}, "b"),
        ({"type": "c*"}, "da"),
        ({"type": "[!c]*"}, "cb"),
        ({"type": "page"}, ""),
        ({"job_id": "b"}, "b"),
        ({"job_id": ""}, ""),
        ({"since": NOON + MINUTE}, "dcb"),
        ({"since": NOON + MINUTE + SECOND}, "dc"),
        ({"until": NOON}, ""),
        ({"until": NOON + SECOND}, "ba"),
        ({"since": NOON + MINUTE, "until": NOON + SECOND}, "b"),
        ({"state": JobState.OPEN}, "d"),
        ({"state": JobState.ENDED}, "cba"),
        ({"state": JobState.COMPLETED}, "a"),
        ({"state": JobState.FAILED}, "b"),
        ({"state": JobState.CANCELLED}, "c"),
        ({"state": JobState.ENDED, "limit": 2}, "cb"),
        ({"state": JobState.ENDED, "type": "*.started"}, "ba"),
        ({"state": JobState.COMPLETED, "job_id": "b"}, ""),
    ],
    ids=str,
)
async def test_listings_of_jobs_are_narrowed(opened: Opened, wanted: dict[str, object], expected: str) -> None:
    """Family or type, id, span, state and number narrow it. `b` lasts from noon to a minute past it."""
    await opened.add(
        came(1, "crawl.started", "a"),
        came(2, "crawl.completed", "a"),
        came(3, "extract.started", "b"),
        came(4, "extract.failed", "b", success=False, after=MINUTE),
        came(5, "agent.cancelled", "c", success=False, after=2 * MINUTE),
        came(6, "crawl.page", "d", after=3 * MINUTE),
    )

    assert await ids(opened, **wanted) == expected


@pytest.mark.parametrize(
    ("kind", "started", "good"),
    [
        ("crawl.completed", False, 0),
        ("batch_scrape.completed", False, 0),
        ("extract.completed", False, None),
        ("agent.cancelled", False, None),
        ("monitor.check.completed", None, 0),
        ("schedule.completed", False, None),
    ],
)
async def test_what_a_family_does_not_have_is_none(
    opened: Opened, kind: str, started: bool | None, good: int | None
) -> None:
    """Extracts and agents have no pages, and no event says that a check began."""
    await opened.add(came(1, kind))

    (job,) = await jobs(opened)

    assert (job.started, job.good, job.failed) == (started, good, good)


async def test_a_partial_check_has_ended_without_success(opened: Opened) -> None:
    """Its pages are those of `monitor.page`. The `success` of its end is apart from the state."""
    await opened.add(
        came(1, "monitor.page"),
        came(2, "monitor.page", success=False),
        came(3, "monitor.check.completed", success=False),
    )

    (job,) = await jobs(opened)

    assert (job.family, job.good, job.failed, job.state) == ("monitor", 1, 1, JobState.COMPLETED)
    assert job.end is not None
    assert job.end.success is False


async def test_the_first_end_is_the_one_that_counts(opened: Opened) -> None:
    """A second end under another webhook id changes nothing. Pages between them came late."""
    await opened.add(came(1, "crawl.failed", success=False), came(2, "crawl.page"), came(3, "crawl.completed"))

    (job,) = await jobs(opened)

    assert (job.state, job.late) == (JobState.FAILED, 1)
    assert await ids(opened, state=JobState.COMPLETED) == ""


async def test_only_the_last_pages_show_a_burst(opened: Opened) -> None:
    """They are the last twenty pages, whatever other events come between."""
    await opened.add(*[came(n, "crawl.page", success=n >= 15) for n in range(30)], came(99, "crawl.completed"))

    (job,) = await jobs(opened)

    assert (job.failed, job.failed_lately) == (15, 5)


async def test_the_details_of_a_job_have_its_work(opened: Opened) -> None:
    """They count work items by handler and state, new deliveries, and arrivals by type and success."""
    await opened.add(came(1, "crawl.page"), came(2, "crawl.page", success=False), came(3, "crawl.page", "b"))
    first, _, second, _, *_ = await opened.route(ONE, TWO)
    await opened.settle(ended(first), ended(second, DEAD, error="no"))
    await opened.add(came(4, "crawl.completed"))
    await opened.controls.switch(TWO, HandlerSwitch.PAUSED)

    job = await opened.reports.job("a")

    assert job.summary == (await jobs(opened, job_id="a"))[0]
    assert job.arrivals == (
        JobArrivals("crawl.page", True, 1, 0, 1),
        JobArrivals("crawl.page", False, 1, 0, 2),
        JobArrivals("crawl.completed", True, 1, 0, 4),
    )
    assert job.new == 1
    assert [(one.handler, one.switch) for one in job.work] == [(ONE, HandlerSwitch.ON), (TWO, HandlerSwitch.PAUSED)]
    assert dict(job.work[0].counts) == {DONE: 1, DEAD: 1}
    assert sum(job.work[1].counts.values()) == 2


async def test_backfilled_deliveries_are_counted(opened: Opened) -> None:
    """They are counted by type and in all. Imported ones are not among them."""
    await opened.add(came(1, "crawl.page"))
    await opened.controls.import_deliveries(
        [
            Imported(came(2, "crawl.page"), origin=Origin.BACKFILL),
            Imported(came(3, "crawl.completed"), origin=Origin.BACKFILL),
            Imported(came(4, "crawl.completed")),
        ]
    )

    job = await opened.reports.job("a")

    assert [(one.type, one.count, one.backfilled) for one in job.arrivals] == [
        ("crawl.page", 2, 1),
        ("crawl.completed", 2, 1),
    ]
    assert job.summary.backfilled == 2


async def test_backfilled_pages_are_neither_late_nor_a_burst(opened: Opened) -> None:
    """They arrive after the end because a backfill fetched them then, and the failed ones come in a row."""
    await opened.add(came(1, "crawl.page", success=False), came(2, "crawl.completed"), came(3, "crawl.page"))
    made = [came(n, "crawl.page", success=False) for n in range(4, 30)]
    await opened.controls.import_deliveries([Imported(one, origin=Origin.BACKFILL) for one in made])

    (job,) = await jobs(opened)

    assert (job.late, job.failed_lately, job.failed) == (1, 1, 27)


async def test_a_job_without_work_has_details_too(opened: Opened) -> None:
    """Perhaps no handler wanted it."""
    await opened.add(came(1, "crawl.page"))
    await opened.route()

    job = await opened.reports.job("a")

    assert (job.work, job.new) == ((), 0)


async def test_an_id_may_be_shortened(opened: Opened) -> None:
    """A prefix stands for the only job that has it. A whole id stands for itself, also if others begin with it."""
    await opened.add(*[came(n, "crawl.page", job) for n, job in enumerate(("ab", "ab", "abc", "b", "ü1"))])

    assert await opened.reports.resolve_job("abc") == "abc"
    assert await opened.reports.resolve_job("ab") == "ab"
    assert await opened.reports.resolve_job("b") == "b"
    assert await opened.reports.resolve_job("ü") == "ü1"
    with pytest.raises(UnknownJob, match="several jobs have an id that begins with 'a': ab, abc"):
        await opened.reports.resolve_job("a")
    with pytest.raises(UnknownJob, match="no job matched 'x'"):
        await opened.reports.resolve_job("x")


async def test_of_many_candidates_some_are_named(opened: Opened) -> None:
    """More names would not help."""
    await opened.add(*[came(n, "crawl.page", f"a{n}") for n in range(9)])

    with pytest.raises(UnknownJob, match=r"a0, a1, a2, a3, a4, …"):
        await opened.reports.resolve_job("a")


async def test_a_job_that_is_not_there_is_an_error(opened: Opened) -> None:
    """The message has its name."""
    with pytest.raises(UnknownJob, match="there is no job gone"):
        await opened.reports.job("gone")
