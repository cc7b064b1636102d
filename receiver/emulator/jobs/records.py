"""Jobs and their pages as they are kept."""

from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import TypeAdapter

from receiver.emulator.scrapes import ScrapedPage
from receiver.emulator.wire.jobs import BatchPlan, CrawlPlan
from receiver.emulator.wire.research import ResearchPlan
from receiver.errors import ReceiverError

Json = dict[str, Any]
JobPlan = CrawlPlan | BatchPlan | ResearchPlan


class JobKind(StrEnum):
    """The kinds of stored jobs. The value is the family of their events; a crawl of a monitor has none."""

    CRAWL = "crawl"
    SITE = "site_crawl"
    BATCH = "batch_scrape"
    EXTRACT = "extract"
    AGENT = "agent"


class EmulatedJobState(StrEnum):
    """The status of a crawl or a batch scrape, as the answers have it."""

    SCRAPING = "scraping"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredJob:
    """A job of any kind as it is now."""

    seq: int = 0
    id: str
    kind: JobKind
    team: str
    plan: JobPlan = field(repr=False)
    """What was asked for; a batch's is without its URLs."""
    state: str
    error: str | None = None
    """Why the job as a whole failed."""
    created_at: datetime
    ended_at: datetime | None = None
    """When the last page had ended; a cancelled crawl still has pages that end."""
    expires_at: datetime
    """When its results are deleted."""
    credits: int = 0
    completed: int = 0
    """Pages that were scraped."""
    prepared: bool = False
    """Whether the pages to begin with are known: the sitemaps of a crawl were read to their end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord(StoredJob):
    """A crawl or a batch scrape as it is now."""

    plan: CrawlPlan | BatchPlan = field(repr=False)
    state: EmulatedJobState
    found: int = 0
    """Pages that the job has taken up, whatever became of them."""
    failed: int = 0
    blocked: int = 0
    """URLs that robots.txt forbids."""
    origin: str | None = None
    """Where a crawl has moved to, if the page where it began led to another host."""

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
    depth: int
    """How many links lie between the crawl's start, or its sitemap, and this page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageError:
    """A page that a job could not scrape."""

    id: str
    at: datetime
    url: str
    """The page, as the job found it."""
    code: str
    """The service's code; empty if it gives none."""
    text: str


@dataclass(frozen=True, slots=True)
class PageScraped:
    """The page is a result of the job."""

    page: ScrapedPage
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
    by_robots: bool = False
    credits: int = 0


PageOutcome = PageScraped | PageFailed

CANCELLED = PageFailed("", "Parent crawl/batch scrape was cancelled")
"""The error of every page that still waited when its job was cancelled."""
OUT_OF_CREDITS = PageFailed("", "Insufficient credits: the account could not pay for this page")
"""The error of every page that a job could not pay for."""


class CreditsUsedUp(Exception):
    """The account cannot pay for a page. Nothing of it was noted."""


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
    JobKind.SITE: TypeAdapter(CrawlPlan),
    JobKind.BATCH: TypeAdapter(BatchPlan),
    JobKind.EXTRACT: TypeAdapter(ResearchPlan),
    JobKind.AGENT: TypeAdapter(ResearchPlan),
}


def kind_of(plan: JobPlan) -> JobKind:
    """Return the kind of a job with this plan."""
    if isinstance(plan, ResearchPlan):
        return JobKind(plan.kind)
    return JobKind.CRAWL if isinstance(plan, CrawlPlan) else JobKind.BATCH


def plan_to_json(plan: JobPlan) -> bytes:
    """Return a plan for the state; a batch's without its URLs, which are pages of the job."""
    kept = replace(plan, urls=(), body={}) if isinstance(plan, BatchPlan) else plan
    return _PLANS[kind_of(plan)].dump_json(kept)


def plan_from_json(kind: JobKind, text: bytes) -> Any:
    """Return the plan that `plan_to_json` wrote, of the type that the kind has."""
    return _PLANS[kind].validate_json(text)
