"""What is told of a job, and what may be wrong with it, by numbers alone."""

from dataclasses import replace
from datetime import timedelta

import pytest

from receiver.core.jobs import ENDINGS, JobEnd, JobState, JobSummary, ends_job, family_of, is_page, warnings
from tests.doubles import NOON

HOUR = timedelta(hours=1)
COMPLETED = JobEnd("crawl.completed", True, NOON)
JOB = JobSummary(
    job_id="a",
    family="crawl",
    last_seq=9,
    first_at=NOON,
    last_at=NOON,
    deliveries=9,
    duplicates=0,
    backfilled=0,
    started=True,
    good=7,
    failed=0,
    late=0,
    failed_lately=0,
    end=COMPLETED,
)


def codes(job: JobSummary, after: timedelta = timedelta(0)) -> list[str]:
    """Return the warnings so long after noon."""
    return [one.code for one in warnings(job, now=NOON + after)]


def test_a_job_that_went_well_has_no_warnings() -> None:
    """However long ago that was."""
    assert codes(JOB, 100 * HOUR) == []


@pytest.mark.parametrize("family", ["crawl", "batch_scrape"])
def test_completed_without_a_page_is_a_warning(family: str) -> None:
    """Not while it is open, and not once there is one page, good or failed."""
    job = replace(JOB, family=family, good=0)

    assert codes(job) == ["no_pages"]
    assert codes(replace(job, end=None)) == codes(replace(job, failed=1)) == codes(replace(job, good=1)) == []
    assert codes(replace(job, end=replace(COMPLETED, type=f"{family}.failed"))) == []


@pytest.mark.parametrize("family", ["monitor", "extract", "agent", "schedule"])
def test_a_family_that_may_have_no_pages_is_not_warned_about(family: str) -> None:
    """Many ask for a monitor's checks alone."""
    end = replace(COMPLETED, type=f"{family}.completed")

    assert codes(replace(JOB, family=family, good=0, end=end)) == []
    assert codes(replace(JOB, family=family, good=None, failed=None, end=end)) == []


def test_pages_after_the_end_are_counted_in_the_warning() -> None:
    """One is told in the singular."""
    (one,), (many,) = (warnings(replace(JOB, late=number), now=NOON) for number in (1, 1200))

    assert (one.code, many.code) == ("late_pages", "late_pages")
    assert one.text.startswith("1 page came")
    assert many.text.startswith("1,200 pages came")


def test_a_job_is_silent_from_the_hour_on() -> None:
    """An open one, an hour after its last delivery; one that has ended may be silent."""
    job = replace(JOB, end=None)

    assert codes(job, HOUR - timedelta(microseconds=1)) == []
    assert codes(job, HOUR) == ["silent"]
    assert codes(replace(job, last_at=NOON + HOUR), HOUR) == []


@pytest.mark.parametrize("end", [None, COMPLETED])
def test_a_burst_of_failures_at_the_end_looks_like_a_cancel(end: JobEnd | None) -> None:
    """Ten of the last twenty pages; the cancelled job itself ends as completed, later."""
    assert codes(replace(JOB, end=end, failed=10, failed_lately=9)) == []
    assert codes(replace(JOB, end=end, failed=10, failed_lately=10)) == ["failed_pages"]


def test_the_burst_says_of_how_many_pages() -> None:
    """A job may have fewer than are looked at."""
    (small,) = warnings(replace(JOB, good=2, failed=10, failed_lately=10), now=NOON)
    (large,) = warnings(replace(JOB, good=90, failed=10, failed_lately=10), now=NOON)

    assert small.text.startswith("10 of its last 12 pages failed")
    assert large.text.startswith("10 of its last 20 pages failed")


def test_pages_of_a_check_that_fail_are_no_cancel() -> None:
    """Cancelling is something of crawls and batch scrapes."""
    assert codes(replace(JOB, family="monitor", failed=15, failed_lately=15)) == []


@pytest.mark.parametrize(
    ("kind", "state"),
    [
        ("crawl.completed", JobState.COMPLETED),
        ("monitor.check.completed", JobState.COMPLETED),
        ("agent.failed", JobState.FAILED),
        ("agent.cancelled", JobState.CANCELLED),
    ],
)
def test_the_state_is_that_of_the_end(kind: str, state: JobState) -> None:
    """The last part of its type."""
    assert replace(JOB, end=replace(COMPLETED, type=kind)).state is state
    assert replace(JOB, end=None).state is JobState.OPEN


def test_types_are_read_by_their_parts() -> None:
    """A word alone is no family's event."""
    assert [family_of(kind) for kind in ("crawl.page", "monitor.check.completed", "odd")] == [
        "crawl",
        "monitor",
        "odd",
    ]
    assert all(ends_job(f"x.{ending}") for ending in ENDINGS)
    assert not any(ends_job(kind) for kind in ("completed", "crawl.page", "crawl.uncompleted", "crawl.completed.x"))
    assert is_page("monitor.page")
    assert not is_page("page")
