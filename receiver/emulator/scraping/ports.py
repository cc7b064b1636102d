"""What a scrape needs from others: pages, their content, a search index, and a policy about addresses."""

import sqlite3
from collections.abc import Awaitable, Callable
from typing import Protocol

from typing_extensions import override

from receiver.emulator.content.page import PageContent
from receiver.emulator.scrapes import FetchedPage, Json, ScrapePlan

FetchPage = Callable[[ScrapePlan], Awaitable[FetchedPage]]
"""Fetches the plan's URL. Raises ScrapeFailed if that fails."""
ReadPage = Callable[[FetchedPage, ScrapePlan], Awaitable[PageContent]]
"""Reads a page beside the event loop. Raises ScrapeFailed for a page that cannot be read."""
WritePage = Callable[[sqlite3.Connection], None]
"""Writes what was made of a page in the caller's transaction."""


class PageIndex(Protocol):
    """Makes pages searchable."""

    def entry(self, page: FetchedPage, content: PageContent) -> WritePage:
        """Return the write of a page into the index. This takes a while; it is called in a thread."""

    def removal(self, page: FetchedPage) -> WritePage:
        """Return the removal of a page that is gone."""


class AddressGuard(Protocol):
    """Decides whether an address may be scraped."""

    async def check(self, url: str, override: Json | None) -> int:
        """Return the credits of the check; `override` is the request's own policy.

        Raises ScrapeFailed with the code unsafe_domain_blocked and the credits of the check.
        """


class NoThreats(AddressGuard):
    """Allows every address without cost."""

    @override
    async def check(self, url: str, override: Json | None) -> int:
        return 0
