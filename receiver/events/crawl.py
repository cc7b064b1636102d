"""Events of crawls."""

from typing import ClassVar

from pydantic import Field

from receiver.events.base import Event, TerminalEvent
from receiver.events.documents.pages import LegacyDocuments
from receiver.events.pages import PageEvent


class CrawlEvent(Event):
    """Any event of a crawl."""


class CrawlStarted(CrawlEvent):
    """A crawl began. Page events can come before it."""

    type_name: ClassVar[str] = "crawl.started"
    type: str = type_name


class CrawlPage(PageEvent, CrawlEvent):
    """A crawl scraped a page, or could not."""

    type_name: ClassVar[str] = "crawl.page"
    type: str = type_name


class CrawlCompleted(TerminalEvent, CrawlEvent):
    """A crawl is over; a cancelled one ends so too."""

    type_name: ClassVar[str] = "crawl.completed"
    type: str = type_name
    data: LegacyDocuments = Field(default_factory=list)
    """Empty, but for v0 jobs: their pages."""


class CrawlFailed(TerminalEvent, CrawlEvent):
    """A crawl could not be done. The service's crawl guide names this event."""

    type_name: ClassVar[str] = "crawl.failed"
    type: str = type_name


class CrawlCancelled(TerminalEvent, CrawlEvent):
    """A crawl was cancelled. Proposed for the service; today's senders end a cancelled crawl as completed."""

    type_name: ClassVar[str] = "crawl.cancelled"
    type: str = type_name
