"""Events of batch scrapes."""

from typing import ClassVar

from pydantic import Field

from receiver.events.base import Event, TerminalEvent
from receiver.events.documents.pages import LegacyDocuments
from receiver.events.pages import PageEvent


class BatchScrapeEvent(Event):
    """Any event of a batch scrape."""


class BatchScrapeStarted(BatchScrapeEvent):
    """A batch scrape began. This event is sent after the pages were queued, so page events can come before it."""

    type_name: ClassVar[str] = "batch_scrape.started"
    type: str = type_name


class BatchScrapePage(PageEvent, BatchScrapeEvent):
    """A batch scrape scraped a page, or failed to."""

    type_name: ClassVar[str] = "batch_scrape.page"
    type: str = type_name


class BatchScrapeCompleted(TerminalEvent, BatchScrapeEvent):
    """A batch scrape is over. A cancelled batch ends with this event too."""

    type_name: ClassVar[str] = "batch_scrape.completed"
    type: str = type_name
    data: LegacyDocuments = Field(default_factory=list)
    """Empty; for a v0 job, its pages."""


class BatchScrapeFailed(TerminalEvent, BatchScrapeEvent):
    """A batch scrape failed. The service's interface description names this event."""

    type_name: ClassVar[str] = "batch_scrape.failed"
    type: str = type_name
