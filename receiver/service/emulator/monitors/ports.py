"""What monitors need of the jobs: the pages of a site."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

from receiver.service.emulator.failures import ScrapeFailed
from receiver.service.emulator.scrapes import ScrapedPage
from receiver.service.emulator.wire.plans import CrawlPlan


@dataclass(frozen=True, slots=True)
class SitePage:
    """One page of a crawl."""

    url: str
    """Its address, as the crawl found it."""
    result: ScrapedPage | ScrapeFailed
    """The page, or why it could not be scraped."""


class SiteCrawler(Protocol):
    """Crawls sites without making a job of it: no events, no results to ask for."""

    def pages(self, plan: CrawlPlan, *, team: str) -> AsyncIterator[SitePage]:
        """Yield the pages of a site as they are scraped. ScrapeFailed says that the crawl could not begin."""
