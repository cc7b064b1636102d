"""What a scrape needs of others: pages from sites, their content, and a policy about addresses."""

import sqlite3
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from receiver.emulator.scrapes import FetchedPage, Json, ScrapePlan

FetchPage = Callable[[ScrapePlan], Awaitable[FetchedPage]]
"""Fetches the plan's URL. It raises ScrapeFailed if that cannot be done."""


class ReadContent(Protocol):
    """The content of a page, as far as the plan's formats need it."""

    @property
    def markdown(self) -> str | None:
        """Its text as Markdown."""

    @property
    def html(self) -> str | None:
        """Its cleaned HTML."""

    @property
    def raw_html(self) -> str | None:
        """The page as it was sent, decoded."""

    @property
    def raw_base64(self) -> str | None:
        """The page as it was sent, as base64."""

    @property
    def links(self) -> Sequence[str]:
        """Absolute links of the cleaned page."""

    @property
    def images(self) -> Sequence[str]:
        """Absolute addresses of its images."""

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What the page's own tags say."""

    @property
    def attributes(self) -> Sequence[Json] | None:
        """The values of attributes that were asked for."""

    @property
    def num_pages(self) -> int | None:
        """Pages of a PDF that were read."""

    @property
    def total_pages(self) -> int | None:
        """Pages that the PDF has."""

    @property
    def outline(self) -> Json | None:
        """What a search index needs, if the plan asked for it."""

    @property
    def pages(self) -> Sequence[Json] | None:
        """The pages of a PDF one by one, if they were asked for."""

    @property
    def blocks(self) -> Sequence[Json] | None:
        """The paragraphs of a PDF, if they were asked for."""

    @property
    def warnings(self) -> Sequence[str]:
        """What could not be done."""


ReadPage = Callable[[FetchedPage, ScrapePlan], Awaitable[ReadContent]]
"""Reads a page; the event loop goes on meanwhile. It raises ScrapeFailed for a page it cannot read."""


WritePage = Callable[[sqlite3.Connection], None]
"""Writes what was made of a page, in the caller's transaction."""


class PageIndex(Protocol):
    """Takes in pages, so that they can be searched."""

    def entry(self, page: FetchedPage, content: ReadContent) -> WritePage:
        """Return what writes a page into the index. This takes a while; it is called in a thread."""

    def removal(self, page: FetchedPage) -> WritePage:
        """Return what removes a page that is gone."""


class AddressGuard(Protocol):
    """Decides whether an address may be scraped."""

    async def check(self, url: str, override: Json | None) -> int:
        """Return the credits of the check; `override` is the request's own policy.

        It raises ScrapeFailed with the code unsafe_domain_blocked, and with the credits of the check.
        """


class NoThreats:
    """Lets every address pass."""

    async def check(self, url: str, override: Json | None) -> int:
        """Return 0."""
        return 0
