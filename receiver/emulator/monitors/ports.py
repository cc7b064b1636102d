"""What monitors need of others: pages of sites, hits of searches, outgoing events, and the account that pays."""

import sqlite3
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from receiver.emulator.contracts import WebhookTarget
from receiver.emulator.failures import ScrapeFailed
from receiver.emulator.scrapes import ScrapedPage
from receiver.emulator.webhooks.table import PreparedDelivery
from receiver.emulator.wire.jobs import CrawlPlan
from receiver.emulator.wire.monitors import QueriesTarget


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

        A crawl that was begun before goes on where it was. ScrapeFailed says that it could not begin.
        """

    def forget(self, connection: sqlite3.Connection, crawl_id: str) -> None:
        """Forget a crawl, as a part of the caller's transaction."""


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


class CheckEvents(Protocol):
    """Keeps the events of checks for delivery, together with what they tell of."""

    def prepare(
        self,
        target: WebhookTarget | None,
        event_type: str,
        job_id: str,
        *,
        success: bool = True,
        data: list[dict[str, Any]] | None = None,
        error: str | None = None,
    ) -> PreparedDelivery | None:
        """Return the delivery of an event; None if there is no target, or its filter refuses the type."""

    def keep(self, connection: sqlite3.Connection, *prepared: PreparedDelivery | None) -> None:
        """Keep deliveries, as a part of the caller's transaction."""

    def wake(self, *prepared: PreparedDelivery | None) -> None:
        """Send what was kept, now that its transaction is committed."""


class CheckAccount(Protocol):
    """The credits of a team, taken off together with what they pay for."""

    async def remaining(self, team: str) -> int:
        """Return the credits that are left."""

    def charge_within(self, connection: sqlite3.Connection, team: str, amount: int) -> None:
        """Take an amount of credits off, never below 0, as a part of the caller's transaction."""
