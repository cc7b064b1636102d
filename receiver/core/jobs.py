"""Jobs of the service as their deliveries show them: counts by type, one line for each, and warnings."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from receiver.core.text import counted
from receiver.core.types import HandlerName, HandlerSwitch, WorkState

ENDINGS = ("completed", "failed", "cancelled")
"""Last part of the type of a job's last event, in every family (`monitor.check.completed` for a check)."""
PAGE = "page"
"""Last part of the type of an event about one page."""

LAST_PAGES = 20
"""How many of a job's last pages are examined for a burst of failures."""
_BURST = 10
_SILENCE = timedelta(hours=1)
"""The sender's last retry of an event starts 21 min 30 s after its first attempt; anything later is new."""

_WITH_PAGES = frozenset({"crawl", "batch_scrape", "monitor"})
_WITHOUT_PAGES = frozenset({"extract", "agent"})
_WITHOUT_START = frozenset({"monitor"})
_CANCELLED_IN_SILENCE = frozenset({"crawl", "batch_scrape"})


class JobState(StrEnum):
    """How far a job has come, by its first event that ends a job. ENDED is COMPLETED, FAILED or CANCELLED."""

    OPEN = "open"
    ENDED = "ended"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs a report is about. None does not narrow.

    `type` is a glob for the family or for the type of at least one delivery. A job matches a span of time if its
    last delivery came at or after `since`, and its first before `until`.
    """

    type: str | None = None
    job_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    state: JobState | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class JobArrivals:
    """How many deliveries of one type and success a job has. `first_seq` is the seq of the first.

    `backfilled` counts those that a backfill fetched from the service.
    """

    type: str
    success: bool | None
    count: int
    duplicates: int
    first_seq: int
    backfilled: int = 0


@dataclass(frozen=True, slots=True)
class JobEnd:
    """The first delivery that ends a job, with the `success` of its event."""

    type: str
    success: bool | None
    at: datetime


@dataclass(frozen=True, slots=True)
class JobSummary:
    """One job: a crawl, batch scrape, extract or agent job, or one check of a monitor.

    `last_seq` is the seq of its last delivery; `first_at` and `last_at` are the arrivals of its first and last one.
    `started` is None for families without an event for the start. `good` and `failed` count pages by `success` (an
    event without that value is good), and are None for families without pages. `late` counts pages after the end,
    and `failed_lately` those of the last 20 that failed; both leave out backfilled pages.
    """

    job_id: str
    family: str
    last_seq: int
    first_at: datetime
    last_at: datetime
    deliveries: int
    duplicates: int
    backfilled: int
    started: bool | None
    good: int | None
    failed: int | None
    late: int
    failed_lately: int
    end: JobEnd | None

    @property
    def state(self) -> JobState:
        """The state that follows from its end."""
        return JobState.OPEN if self.end is None else JobState(self.end.type.rpartition(".")[2])


@dataclass(frozen=True, slots=True)
class JobWork:
    """One handler's work items for a job, counted by state."""

    handler: HandlerName
    switch: HandlerSwitch
    counts: Mapping[WorkState, int]


@dataclass(frozen=True, slots=True)
class JobDetail:
    """A job, its deliveries by type in the order of their first arrival, and the work on them.

    `new` counts its deliveries that no worker has routed.
    """

    summary: JobSummary
    arrivals: tuple[JobArrivals, ...]
    new: int
    work: tuple[JobWork, ...]


@dataclass(frozen=True, slots=True)
class Warned:
    """Something that may be wrong with a job: a word for programs, and a sentence for people."""

    code: str
    text: str


def family_of(event_type: str) -> str:
    """Return the first part of a type, such as `crawl`."""
    return event_type.partition(".")[0]


def ends_job(event_type: str) -> bool:
    """Return whether an event of this type ends its job, judged by the name."""
    return "." in event_type and event_type.rpartition(".")[2] in ENDINGS


def is_page(event_type: str) -> bool:
    """Return whether an event of this type is about one page."""
    return event_type.endswith(f".{PAGE}")


def job_of(
    job_id: str,
    arrivals: Sequence[JobArrivals],
    *,
    last_seq: int,
    first_at: datetime,
    last_at: datetime,
    end: JobEnd | None,
    late: int,
    failed_lately: int,
) -> JobSummary:
    """Return the summary of a job with at least one delivery."""
    family = family_of(min(arrivals, key=lambda one: one.first_seq).type)
    pages = [one for one in arrivals if is_page(one.type)]
    with_pages = family in _WITH_PAGES or (family not in _WITHOUT_PAGES and bool(pages))
    failed = sum(one.count for one in pages if one.success is False)
    return JobSummary(
        job_id=job_id,
        family=family,
        last_seq=last_seq,
        first_at=first_at,
        last_at=last_at,
        deliveries=sum(one.count for one in arrivals),
        duplicates=sum(one.duplicates for one in arrivals),
        backfilled=sum(one.backfilled for one in arrivals),
        started=None if family in _WITHOUT_START else any(one.type == f"{family}.started" for one in arrivals),
        good=sum(one.count for one in pages) - failed if with_pages else None,
        failed=failed if with_pages else None,
        late=late,
        failed_lately=failed_lately,
        end=end,
    )


def warnings(job: JobSummary, *, now: datetime) -> Sequence[Warned]:
    """Return what may be wrong with a job, judged by its deliveries."""
    return tuple(_warnings(job, now))


def _warnings(job: JobSummary, now: datetime) -> Iterator[Warned]:
    completed = job.state is JobState.COMPLETED
    cancellable = job.family in _CANCELLED_IN_SILENCE
    # A check without pages is normal: many users ask for `monitor.check.completed` alone.
    if completed and cancellable and job.good == job.failed == 0:
        text = "completed, and no page came: ask the service for the results, or did the webhook ask for no pages?"
        yield Warned("no_pages", text)
    if job.late:
        yield Warned("late_pages", f"{counted(job.late, 'page')} came after its end; the service keeps no order")
    if cancellable and job.failed_lately >= _BURST:
        text = (
            f"{job.failed_lately} of its last {min(LAST_PAGES, (job.good or 0) + (job.failed or 0))} pages failed, "
            "as when a job is cancelled: every page that waits fails then, and it ends as completed"
        )
        yield Warned("failed_pages", text)
    if job.end is None and now - job.last_at >= _SILENCE:
        text = (
            "nothing came for an hour and no end of it: ask the service for its status, the last event may be lost"
        )
        yield Warned("silent", text)
