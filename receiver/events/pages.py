"""The base of the page events of crawls and batch scrapes."""

from typing import ClassVar

from pydantic import Field

from receiver.events.base import Data, Event
from receiver.events.documents.pages import Document


class PageEvent(Event):
    """One page of a job was scraped, or failed.

    Pages come in any order, also after the job's last event. The same URL can succeed first and fail later.
    """

    cancellation: ClassVar[str] = "Parent crawl/batch scrape was cancelled"
    """The error text of the pages that were waiting when their job was cancelled."""

    data: Data[Document] = Field(default_factory=list)
    """One item: the page. Empty when a scrape gave no document."""

    @property
    def page(self) -> Document | None:
        """The page. None when the scrape gave no document; the service counts that as a success."""
        return self.data[0] if self.data else None

    @property
    def url(self) -> str | None:
        """The URL that was asked for, else the one after redirects. Of a failed page only this is known."""
        return self.page.url if self.page else None

    @property
    def status_code(self) -> int | None:
        """The page's own HTTP status. The scrape of a page that answered 404 succeeds."""
        return self.page.metadata.status_code if self.page else None

    @property
    def failed(self) -> bool:
        """Whether the page could not be scraped: `success` is false, or there is an error text."""
        return self.success is False or self.error is not None

    @property
    def cancelled_by_parent(self) -> bool:
        """Whether the page failed only because its job was cancelled. Such events come in a burst."""
        return self.error == self.cancellation
