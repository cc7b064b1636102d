"""What monitors need of others: the pages of a site, and the hits of searches."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

from receiver.service.emulator.failures import ScrapeFailed
from receiver.service.emulator.scrapes import ScrapedPage
from receiver.service.emulator.wire.plans import CrawlPlan, QueriesTarget


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


@dataclass(frozen=True, slots=True)
class WatchedHit:
    """A page that a search found."""

    url: str
    """Its address."""
    title: str
    """Its title."""
    passage: str
    """What it says about the query."""


@dataclass(frozen=True, slots=True)
class WatchedSearch:
    """The hits of a target, each page once, and what the searches cost."""

    hits: tuple[WatchedHit, ...]
    """In the order of the queries."""
    cost: int
    """Credits."""


class HitFinder(Protocol):
    """Searches for monitors."""

    async def find(self, target: QueriesTarget) -> WatchedSearch:
        """Return what the queries of a target find now."""
