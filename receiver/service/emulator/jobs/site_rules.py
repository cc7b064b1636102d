"""What a crawl has to know of the site that it crawls."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from receiver.service.emulator.wire.plans import CrawlPlan


@dataclass(frozen=True, slots=True)
class LinkDenial:
    """Why a crawl does not take a URL."""

    reason: str
    """For people."""
    by_robots: bool = False
    """Whether the site's robots.txt forbids it; the URL is then listed in `robotsBlocked`."""
    by_paths: bool = False
    """Whether the expressions for paths leave it out. Nothing else is asked of the page where a crawl begins."""


class SiteRules(Protocol):
    """The rules of one crawl. `key` and `denial` may be called from any thread."""

    def key(self, url: str) -> str:
        """Return what is equal for URLs that count as one page."""

    def denial(self, url: str) -> LinkDenial | None:
        """Return why the crawl does not take a URL, None if it does."""

    def nearest(self, url: str) -> int:
        """Return how near to this machine a page of the crawl may be, for its ScrapePlan."""

    async def move_to(self, url: str) -> None:
        """Take this URL for the origin of the crawl, because the first page redirected to another host."""

    def sitemap(self) -> AsyncGenerator[Sequence[str], None]:
        """Yield the absolute URLs of the site's sitemaps; a sitemap that cannot be read is left out."""


OpenSite = Callable[[CrawlPlan], Awaitable[SiteRules]]
"""Reads a site's robots.txt and returns the rules of a crawl. One that cannot be read allows everything."""
