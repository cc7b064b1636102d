"""Jobs as the service tells of them: started, under way with what they found so far, failed pages."""

from typing import Any

from pydantic import Field, StrictBool, StrictInt

from receiver.events.documents.pages import Document
from receiver.events.documents.shape import Items, JsonObject, Moment, Number, ServiceModel

_FINAL = frozenset({"completed", "failed", "cancelled"})


class ScrapeResponse(ServiceModel):
    """The answer to a scrape (interface specification, section Scrape response)."""

    repr_fields = ("success",)

    success: StrictBool | None = None
    data: Document | None = None


class JobStarted(ServiceModel):
    """A job that was begun: its events and its results go by `id`."""

    repr_fields = ("id",)

    id: str | None = None
    url: str | None = None
    """Where its status is."""
    invalid_urls: Items[str] = Field(default_factory=list, alias="invalidURLs")
    """What a batch left out because it is no URL."""
    prompt_generated_options: JsonObject = Field(default_factory=dict)
    final_crawler_options: JsonObject = Field(default_factory=dict)
    """Of a crawl with a prompt: the options that the service chose by it."""
    url_trace: Any = None
    thread_id: str | None = None
    thread_turn: StrictInt | None = None


class JobStatus(ServiceModel):
    """One page of what a crawl or a batch has found. Results are kept for 24 hours, then the job is not found."""

    repr_fields = ("status", "completed", "total")

    status: str | None = None
    """`scraping`, `completed`, `failed` or `cancelled`."""
    total: StrictInt | None = None
    completed: StrictInt | None = None
    credits_used: Number | None = None
    expires_at: Moment | None = None
    next: str | None = None
    """Where the next page is; None on the last. A job under way always has one."""
    data: Items[Document] = Field(default_factory=list)
    """At most 100 documents or 10 MiB. Pages that failed are not among them."""
    created_at: Moment | None = None
    completed_at: Moment | None = None
    duration: Number | None = None
    warning: str | None = None

    @property
    def finished(self) -> bool:
        """Whether nothing will be added any more."""
        return self.status in _FINAL


class JobError(ServiceModel):
    """A page that a job failed on."""

    repr_fields = ("url", "error")

    id: str | None = None
    timestamp: Moment | None = None
    url: str | None = None
    code: str | None = None
    error: str | None = None


class JobErrors(ServiceModel):
    """The pages that a crawl or a batch failed on."""

    errors: Items[JobError] = Field(default_factory=list)
    robots_blocked: Items[str] = Field(default_factory=list)
    """URLs that robots.txt forbids."""


class ActiveCrawl(ServiceModel):
    """A crawl under way."""

    repr_fields = ("id", "url")

    id: str | None = None
    team_id: str | None = None
    url: str | None = None
    options: JsonObject = Field(default_factory=dict)


class ExtractStatus(ServiceModel):
    """How far an extraction is, and what it found."""

    repr_fields = ("status",)

    status: str | None = None
    """`processing`, `completed`, `failed` or `cancelled`."""
    data: Any = None
    error: str | None = None
    expires_at: Moment | None = None
    sources: JsonObject = Field(default_factory=dict)
    tokens_used: Number | None = None
    credits_used: Number | None = None

    @property
    def finished(self) -> bool:
        """Whether nothing will change any more."""
        return self.status in _FINAL


class AgentStatus(ServiceModel):
    """How far an agent is, and what it found."""

    repr_fields = ("status", "credits_used")

    status: str | None = None
    """`processing`, `completed` or `failed`."""
    data: Any = None
    error: str | None = None
    model: str | None = None
    expires_at: Moment | None = None
    credits_used: Number | None = None
    partial: Any = None

    @property
    def finished(self) -> bool:
        """Whether nothing will change any more."""
        return self.status in _FINAL


class QueueStatus(ServiceModel):
    """How busy the account is."""

    repr_fields = ("active_jobs_in_queue", "waiting_jobs_in_queue", "max_concurrency")

    jobs_in_queue: StrictInt | None = None
    active_jobs_in_queue: StrictInt | None = None
    waiting_jobs_in_queue: StrictInt | None = None
    max_concurrency: StrictInt | None = None
    most_recent_success: Moment | None = None
