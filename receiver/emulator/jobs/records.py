"""What became of one page of a job."""

from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import TypeAdapter

from receiver.emulator.scrapes import ScrapedPage
from receiver.emulator.wire.jobs import BatchPlan, CrawlPlan
from receiver.errors import ReceiverError


@dataclass(frozen=True, slots=True)
class PageScraped:
    """The page is a result of the job."""

    page: ScrapedPage
    """What the scrape gave."""
    final_key: str | None = None
    """The key of the page that it led to, if that is another one. If the job has it already, it is no result."""
    origin: str | None = None
    """The new origin of the crawl, if the page where it began led to another host."""


@dataclass(frozen=True, slots=True)
class PageFailed:
    """The page is an error of the job."""

    code: str
    """The service's code; empty if it gives none."""
    text: str
    """Why, for people."""
    by_robots: bool = False
    """Whether robots.txt forbids it."""
    credits: int = 0
    """What it costs nevertheless."""


PageOutcome = PageScraped | PageFailed

CANCELLED = PageFailed("", "Parent crawl/batch scrape was cancelled")
"""The error of every page that still waited when its job was cancelled."""
OUT_OF_CREDITS = PageFailed("", "Insufficient credits: the account could not pay for this page")
"""The error of every page that a job could not pay for."""


class CreditsUsedUp(Exception):
    """The account cannot pay for a page. Nothing of it was noted."""


# FOLDED: A job, and what happened to its pages.
Json = dict[str, Any]


class JobKind(StrEnum):
    """The two kinds of jobs that scrape many pages. The value is the family of their events."""

    CRAWL = "crawl"
    BATCH = "batch_scrape"


class EmulatedJobState(StrEnum):
    """The status of a job, as the answers have it."""

    SCRAPING = "scraping"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """A crawl or a batch scrape as it is now."""

    seq: int
    """Its number in the database."""
    id: str
    """UUID of version 7."""
    kind: JobKind
    """A crawl or a batch scrape."""
    team: str
    """Whose job it is."""
    plan: CrawlPlan | BatchPlan = field(repr=False)
    """A batch's is without its URLs."""
    state: EmulatedJobState
    """Where it stands."""
    error: str | None
    """Why the job as a whole failed."""
    created_at: datetime
    """When it was started."""
    ended_at: datetime | None
    """When the last page had ended; a cancelled job still has pages that end."""
    expires_at: datetime
    """When its results are deleted."""
    found: int
    """Pages that the job has taken up, whatever became of them."""
    completed: int
    """Pages that were scraped."""
    failed: int
    """Pages that were not."""
    credits: int
    """What it has cost so far."""
    blocked: int
    """URLs that robots.txt forbids."""
    sitemap_read: bool
    """Whether the sitemaps of its site were read to their end."""

    @property
    def total(self) -> int:
        """Pages that were scraped, are scraped now, or wait for it."""
        return self.found - self.failed


@dataclass(frozen=True, slots=True)
class WaitingPage:
    """A page that a job has taken up."""

    number: int
    """The first is 1."""
    url: str
    """Its absolute URL."""
    depth: int
    """How many links lie between the crawl's start, or its sitemap, and this page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageError:
    """A page that a job could not scrape."""

    id: str
    """UUID of the scrape."""
    at: datetime
    """When it failed."""
    url: str
    """The page, as the job found it."""
    code: str
    """The service's code; empty if it gives none."""
    text: str
    """Why, for people."""


class JobNotFound(ReceiverError):
    """The team has no job with this id."""


class JobExpired(JobNotFound):
    """The results of this job are deleted."""


class JobOfOtherTeam(JobNotFound):
    """The job belongs to another team."""


class JobEnded(ReceiverError):
    """The job has ended, so it cannot be cancelled, or cannot grow."""


_PLANS: dict[JobKind, TypeAdapter[Any]] = {
    JobKind.CRAWL: TypeAdapter(CrawlPlan),
    JobKind.BATCH: TypeAdapter(BatchPlan),
}


def plan_to_json(plan: CrawlPlan | BatchPlan) -> bytes:
    """Return a plan for the state; a batch's without its URLs, which are pages of the job."""
    if isinstance(plan, BatchPlan):
        return _PLANS[JobKind.BATCH].dump_json(replace(plan, urls=(), body={}))
    return _PLANS[JobKind.CRAWL].dump_json(plan)


def plan_from_json(kind: JobKind, text: bytes) -> CrawlPlan | BatchPlan:
    """Return the plan that `plan_to_json` wrote."""
    plan: CrawlPlan | BatchPlan = _PLANS[kind].validate_json(text)
    return plan
