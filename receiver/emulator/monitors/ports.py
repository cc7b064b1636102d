"""What checks of monitors ask of others: pages of sites, and hits of searches."""

import sqlite3
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Protocol

from receiver.emulator.failures import ScrapeFailed
from receiver.emulator.scrapes import ScrapedPage
from receiver.emulator.wire.plans import CrawlPlan, QueriesTarget


@dataclass(frozen=True, slots=True)
class SitePage:
    """One page of a check."""

    url: str
    """Its address, as the target or the crawl has it."""
    result: ScrapedPage | ScrapeFailed
    """The page, or why it could not be scraped."""
    note: Callable[[sqlite3.Connection], bool] = lambda connection: True
    """Notes that the page is done, in the transaction that records it. False: it is not to be recorded."""


class SiteCrawler(Protocol):
    """Crawls sites without making a job of it: no events, no results to ask for."""

    def pages(self, plan: CrawlPlan, *, team: str, crawl_id: str) -> AsyncGenerator[SitePage, None]:
        """Yield the pages of a site as they are scraped; the next one when this one is noted.

        A crawl that was begun before is resumed where it was. ScrapeFailed says that it could not begin.
        """

    def forget(self, connection: sqlite3.Connection, crawl_id: str) -> None:
        """Forget a crawl, as a part of the caller's transaction."""


@dataclass(frozen=True, slots=True)
class WatchedHit:
    """A page that a search found."""

    url: str
    title: str
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
