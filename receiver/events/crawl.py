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
    """A crawl scraped a page, or failed to."""

    type_name: ClassVar[str] = "crawl.page"
    type: str = type_name


class CrawlCompleted(TerminalEvent, CrawlEvent):
    """A crawl is over. A cancelled crawl ends with this event too."""

    type_name: ClassVar[str] = "crawl.completed"
    type: str = type_name
    data: LegacyDocuments = Field(default_factory=list)
    """Empty; for a v0 job, its pages."""


class CrawlFailed(TerminalEvent, CrawlEvent):
    """A crawl failed. The service's crawl guide names this event."""

    type_name: ClassVar[str] = "crawl.failed"
    type: str = type_name


class CrawlCancelled(TerminalEvent, CrawlEvent):
    """A crawl was cancelled. This event is only proposed: today a cancelled crawl ends as completed."""

    type_name: ClassVar[str] = "crawl.cancelled"
    type: str = type_name
