"""The state of a job, and its warnings."""

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
    """Return the warnings at a moment after noon."""
    return [one.code for one in warnings(job, now=NOON + after)]


def test_a_job_that_went_well_has_no_warnings() -> None:
    """This does not depend on how long ago it ended."""
    assert codes(JOB, 100 * HOUR) == []


@pytest.mark.parametrize("family", ["crawl", "batch_scrape"])
def test_completed_without_a_page_is_a_warning(family: str) -> None:
    """There is none while the job is open, and none if it has a page, good or failed."""
    job = replace(JOB, family=family, good=0)

    assert codes(job) == ["no_pages"]
    assert codes(replace(job, end=None)) == codes(replace(job, failed=1)) == codes(replace(job, good=1)) == []
    assert codes(replace(job, end=replace(COMPLETED, type=f"{family}.failed"))) == []


@pytest.mark.parametrize("family", ["monitor", "extract", "agent", "schedule"])
def test_a_family_that_may_have_no_pages_is_not_warned_about(family: str) -> None:
    """Many users ask only for the checks of a monitor."""
    end = replace(COMPLETED, type=f"{family}.completed")

    assert codes(replace(JOB, family=family, good=0, end=end)) == []
    assert codes(replace(JOB, family=family, good=None, failed=None, end=end)) == []


def test_pages_after_the_end_are_counted_in_the_warning() -> None:
    """One page is in the singular."""
    (one,), (many,) = (warnings(replace(JOB, late=number), now=NOON) for number in (1, 1200))

    assert (one.code, many.code) == ("late_pages", "late_pages")
    assert one.text.startswith("1 page came")
    assert many.text.startswith("1,200 pages came")


def test_a_job_is_silent_after_an_hour() -> None:
    """That is an hour after its last delivery. A job that has ended may be silent."""
    job = replace(JOB, end=None)

    assert codes(job, HOUR - timedelta(microseconds=1)) == []
    assert codes(job, HOUR) == ["silent"]
    assert codes(replace(job, last_at=NOON + HOUR), HOUR) == []


@pytest.mark.parametrize("end", [None, COMPLETED])
def test_a_burst_of_failures_at_the_end_looks_like_a_cancel(end: JobEnd | None) -> None:
    """Ten of the last twenty pages failed. A cancelled job itself ends as completed, later."""
    assert codes(replace(JOB, end=end, failed=10, failed_lately=9)) == []
    assert codes(replace(JOB, end=end, failed=10, failed_lately=10)) == ["failed_pages"]


def test_the_warning_counts_the_pages_examined() -> None:
    """A job may have fewer than twenty."""
    (small,) = warnings(replace(JOB, good=2, failed=10, failed_lately=10), now=NOON)
    (large,) = warnings(replace(JOB, good=90, failed=10, failed_lately=10), now=NOON)

    assert small.text.startswith("10 of its last 12 pages failed")
    assert large.text.startswith("10 of its last 20 pages failed")


def test_failed_pages_of_a_check_are_not_a_cancel() -> None:
    """Only crawls and batch scrapes can be cancelled."""
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
    """It is the last part of its type."""
    assert replace(JOB, end=replace(COMPLETED, type=kind)).state is state
    assert replace(JOB, end=None).state is JobState.OPEN


def test_types_are_read_by_their_parts() -> None:
    """A single word names no event of a family."""
    assert [family_of(kind) for kind in ("crawl.page", "monitor.check.completed", "odd")] == [
        "crawl",
        "monitor",
        "odd",
    ]
    assert all(ends_job(f"x.{ending}") for ending in ENDINGS)
    assert not any(ends_job(kind) for kind in ("completed", "crawl.page", "crawl.uncompleted", "crawl.completed.x"))
    assert is_page("monitor.page")
    assert not is_page("page")
