"""Jobs in the service's answers: their start, their status with results, their failed pages."""

from typing import Annotated, Any

from pydantic import Field, StrictBool, StrictInt

from receiver.events.documents.pages import Document
from receiver.events.documents.shape import Items, JsonObject, Moment, Number, ServiceModel

_FINAL = frozenset({"completed", "failed", "cancelled"})


class ScrapeResponse(ServiceModel):
    """The answer to a scrape (interface specification, section Scrape response)."""

    repr_fields = ("success",)

    success: StrictBool | None = None
    """Whether the scrape succeeded."""
    data: Document | None = None
    """The page."""


class JobStarted(ServiceModel):
    """A job that was started. Its events and its results refer to `id`."""

    repr_fields = ("id",)

    id: str | None = None
    """UUID of the job."""
    url: str | None = None
    """URL of its status."""
    invalid_urls: Annotated[Items[str], Field(alias="invalidURLs")] = Field(default_factory=list)
    """Of a batch: texts that it left out because they are not URLs."""
    prompt_generated_options: JsonObject = Field(default_factory=dict)
    """Of a crawl with a prompt: the options that a language model made of it."""
    final_crawler_options: JsonObject = Field(default_factory=dict)
    """Of a crawl with a prompt: the options that the service chose by it."""
    url_trace: Any = None
    """Of an extraction, how pages were chosen: any JSON, mostly an empty list."""
    thread_id: str | None = None
    """Of an agent: UUID of the conversation that the job belongs to."""
    thread_turn: StrictInt | None = None
    """Of an agent: number of the job in that conversation."""


class JobStatus(ServiceModel):
    """One page of the results of a crawl or a batch. The service keeps results for 24 hours."""

    repr_fields = ("status", "completed", "total")

    status: str | None = None
    """`scraping`, `completed`, `failed` or `cancelled`."""
    total: StrictInt | None = None
    """How many pages the job has found so far."""
    completed: StrictInt | None = None
    """How many of them have been scraped."""
    credits_used: Number | None = None
    """Credits that the job has cost so far."""
    expires_at: Moment | None = None
    """When the results are deleted, in UTC."""
    next: str | None = None
    """URL of the next page; None on the last page. A running job always has one."""
    data: Items[Document] = Field(default_factory=list)
    """At most 100 documents or 10 MiB. Pages that failed are not among them."""
    created_at: Moment | None = None
    """When the job was started, in UTC."""
    completed_at: Moment | None = None
    """When the job ended, in UTC."""
    duration: Number | None = None
    """How long the job took. The service does not document the unit."""
    warning: str | None = None
    """What the service warns of, for people."""

    @property
    def finished(self) -> bool:
        """Whether the job has ended."""
        return self.status in _FINAL


class JobError(ServiceModel):
    """A page that a job could not scrape."""

    repr_fields = ("url", "error")

    id: str | None = None
    """UUID of the page's scrape."""
    timestamp: Moment | None = None
    """When it failed, in UTC."""
    url: str | None = None
    """Absolute URL of the page."""
    code: str | None = None
    """The service's code of the error, such as `SCRAPE_TIMEOUT`."""
    error: str | None = None
    """Why it failed, for people."""


class JobErrors(ServiceModel):
    """The pages that a crawl or a batch could not scrape."""

    errors: Items[JobError] = Field(default_factory=list)
    """One item per page."""
    robots_blocked: Items[str] = Field(default_factory=list)
    """URLs that robots.txt forbids."""


class ActiveCrawl(ServiceModel):
    """A running crawl."""

    repr_fields = ("id", "url")

    id: str | None = None
    """UUID of the crawl."""
    team_id: str | None = None
    """Id of the account's team."""
    url: str | None = None
    """URL where the crawl began."""
    options: JsonObject = Field(default_factory=dict)
    """The crawl's options, under their wire names."""


class ExtractStatus(ServiceModel):
    """Status and result of an extraction."""

    repr_fields = ("status",)

    status: str | None = None
    """`processing`, `completed`, `failed` or `cancelled`."""
    data: Any = None
    """The extraction: any JSON value, in the form of the schema that was asked for."""
    error: str | None = None
    """Why the extraction failed, for people."""
    expires_at: Moment | None = None
    """When the result is deleted, in UTC."""
    sources: JsonObject = Field(default_factory=dict)
    """JSON path of a value to the URLs where it was found."""
    tokens_used: Number | None = None
    """Tokens that the extraction has cost."""
    credits_used: Number | None = None
    """Credits that the extraction has cost."""

    @property
    def finished(self) -> bool:
        """Whether the job has ended."""
        return self.status in _FINAL


class AgentStatus(ServiceModel):
    """Status and result of an agent."""

    repr_fields = ("status", "credits_used")

    status: str | None = None
    """`processing`, `completed` or `failed`."""
    data: Any = None
    """The result: any JSON value, in the form of the schema that was asked for."""
    error: str | None = None
    """Why the agent failed, for people."""
    model: str | None = None
    """Name of the agent's model."""
    expires_at: Moment | None = None
    """When the result is deleted, in UTC."""
    credits_used: Number | None = None
    """Credits that the job has cost so far."""
    partial: Any = None
    """What the agent has found so far: any JSON value."""

    @property
    def finished(self) -> bool:
        """Whether the job has ended."""
        return self.status in _FINAL


class QueueStatus(ServiceModel):
    """The jobs of the account that run and wait."""

    repr_fields = ("active_jobs_in_queue", "waiting_jobs_in_queue", "max_concurrency")

    jobs_in_queue: StrictInt | None = None
    """All jobs of the account that have not ended."""
    active_jobs_in_queue: StrictInt | None = None
    """Those that run."""
    waiting_jobs_in_queue: StrictInt | None = None
    """Those that wait for a place."""
    max_concurrency: StrictInt | None = None
    """How many jobs of the account may run at one time."""
    most_recent_success: Moment | None = None
    """When a job last succeeded, in UTC."""
