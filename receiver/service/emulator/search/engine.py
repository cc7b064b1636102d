"""Answers searches: from the index, and from a SearXNG server if there is one."""

import asyncio
import sqlite3
from dataclasses import dataclass, field
from typing import TypeVar

from receiver.core.clock import Clock
from receiver.service.emulator.failures import CallRefused, ScrapeFailed
from receiver.service.emulator.scraping.ports import AddressGuard
from receiver.service.emulator.search.categories import kinds_of
from receiver.service.emulator.search.finding import CANDIDATES, FoundRow, SearchScope, find_images, find_pages
from receiver.service.emulator.search.hits import (
    PageHit,
    PictureHit,
    image_hits,
    load_images,
    load_pages,
    page_hits,
)
from receiver.service.emulator.search.periods import SearchPeriod, period_of
from receiver.service.emulator.search.queries import LONGEST, SearchQuery, SitePart, read_query, site_part
from receiver.service.emulator.search.searxng import SearxngClient, SearxngFailed
from receiver.service.emulator.search.site_reading import SiteReader
from receiver.service.emulator.state.database import StateDatabase
from receiver.service.emulator.wire.searches import SearchPlan

_READING_SECONDS = 10.0
"""Real seconds for which the first search waits for the given sites."""
_SHARE = 0.5
"""The part of the time-out that this wait, or a SearXNG server, may take."""

Hit = TypeVar("Hit", PageHit, PictureHit)


@dataclass(slots=True)
class SearchFindings:
    """What was found."""

    web: list[PageHit] = field(default_factory=list)
    """Pages."""
    news: list[PageHit] = field(default_factory=list)
    """Articles."""
    images: list[PictureHit] = field(default_factory=list)
    """Images."""
    warnings: list[str] = field(default_factory=list)
    """What had no effect, or could not be done."""
    check_credits: int = 0
    """What the checks of addresses have cost."""

    @property
    def count(self) -> int:
        """How many hits there are."""
        return len(self.web) + len(self.news) + len(self.images)


class SearchEngine:
    """Finds pages and images for plans."""

    def __init__(
        self,
        *,
        state: StateDatabase,
        clock: Clock,
        sites: SiteReader,
        guard: AddressGuard,
        searxng: SearxngClient | None = None,
    ) -> None:
        self._state = state
        self._clock = clock
        self._sites = sites
        self._guard = guard
        self._searxng = searxng

    async def search(self, plan: SearchPlan) -> SearchFindings:
        """Return the hits of a search within its time-out; CallRefused has status 408 after that."""
        try:
            async with asyncio.timeout(plan.timeout / 1000):
                return await self._search(plan)
        except TimeoutError:
            text = f"The search was not done within {plan.timeout} milliseconds"
            raise CallRefused(408, text, code="SEARCH_TIMEOUT") from None

    async def _search(self, plan: SearchPlan) -> SearchFindings:
        found = SearchFindings()
        if not await self._sites.ready(min(_READING_SECONDS, _SHARE * plan.timeout / 1000)):
            found.warnings.append("The given sites are still being read: a later search may find more.")
        query = read_query(plan.query)
        period = period_of(plan.tbs, self._clock.now())
        found.warnings += _warnings(plan, query, period)
        if "web" in plan.sources:
            found.web = await self._pages(plan, query, period, "web", found)
        if "news" in plan.sources:
            found.news = await self._pages(plan, query, period, "news", found)
        if "images" in plan.sources:
            found.images = await self._images(plan, query, period, found)
        return found

    async def _pages(
        self, plan: SearchPlan, query: SearchQuery, period: SearchPeriod, source: str, found: SearchFindings
    ) -> list[PageHit]:
        elsewhere: list[PageHit] = []
        if self._searxng is not None:
            asked = _as_text(plan)
            try:
                elsewhere = await self._searxng.pages(
                    asked, source, plan.limit, time_range=period.time_range, seconds=_seconds(plan)
                )
            except SearxngFailed as exc:
                found.warnings.append(f"The SearXNG server was of no use: {exc}. The index was searched.")
        scope = _scope(plan, period, only_news=source == "news")
        most = min(CANDIDATES, 50 + 3 * plan.limit)

        def find(connection: sqlite3.Connection) -> list[tuple[FoundRow, sqlite3.Row]]:
            return load_pages(connection, find_pages(connection, query, scope, limit=plan.limit, most=most))

        loaded = await self._state.run(find)
        own = await asyncio.to_thread(page_hits, loaded, query, plan.limit, by_date=period.by_date)
        return await self._allowed(plan, found, [*elsewhere, *own])

    async def _images(
        self, plan: SearchPlan, query: SearchQuery, period: SearchPeriod, found: SearchFindings
    ) -> list[PictureHit]:
        elsewhere: list[PictureHit] = []
        if self._searxng is not None:
            try:
                elsewhere = await self._searxng.images(
                    _as_text(plan),
                    plan.limit,
                    time_range=period.time_range,
                    seconds=_seconds(plan),
                )
            except SearxngFailed as exc:
                found.warnings.append(f"The SearXNG server was of no use: {exc}. The index was searched.")
        scope = _scope(plan, period, only_news=False)
        most = min(CANDIDATES, 3 * plan.limit)

        def find(connection: sqlite3.Connection) -> list[tuple[FoundRow, sqlite3.Row]]:
            return load_images(connection, find_images(connection, query, scope, limit=plan.limit, most=most))

        own = image_hits(await self._state.run(find), plan.limit)
        return await self._allowed(plan, found, [*elsewhere, *own])

    async def _allowed(self, plan: SearchPlan, found: SearchFindings, hits: list[Hit]) -> list[Hit]:
        """Return as many hits as were asked for, each once, without those that threat protection blocks."""
        kept: dict[str, Hit] = {}
        blocked = 0
        for hit in hits:
            key = hit.url if isinstance(hit, PageHit) else hit.image
            if key in kept or len(kept) >= plan.limit:
                continue
            try:
                found.check_credits += await self._guard.check(hit.url, plan.threat_protection)
            except ScrapeFailed as exc:
                found.check_credits += exc.credits
                blocked += 1
                continue
            kept[key] = hit
        if blocked:
            found.warnings.append(f"Threat protection left out {blocked} of the hits.")
        return list(kept.values())


def _seconds(plan: SearchPlan) -> float:
    """Return how long another search engine may take for one source."""
    return _SHARE * plan.timeout / 1000 / len(plan.sources)


def _scope(plan: SearchPlan, period: SearchPeriod, *, only_news: bool) -> SearchScope:
    return SearchScope(
        sites=_parts(plan.include_domains),
        other_sites=_parts(plan.exclude_domains),
        kinds=kinds_of(plan.categories),
        since=period.since,
        until=period.until,
        only_news=only_news,
    )


def _parts(hosts: tuple[str, ...]) -> list[SitePart]:
    return [part for host in hosts if (part := site_part(host)) is not None]


def _as_text(plan: SearchPlan) -> str:
    """Return the query with what else was asked for as operators, for another search engine."""
    sites = [f"site:{host}" for host in plan.include_domains]
    for kind in kinds_of(plan.categories):
        if not plan.include_domains:  # joined by OR, these would let other hosts in
            sites += [f"site:{part.host}" for part in kind.sites]
        sites += [f"filetype:{one}" for one in kind.file_types]
    others = [f"-site:{host}" for host in plan.exclude_domains]
    return " ".join([plan.query[:LONGEST], " OR ".join(sites), *others]).strip()


def _warnings(plan: SearchPlan, query: SearchQuery, period: SearchPeriod) -> list[str]:
    found = []
    if plan.without_effect:
        found.append(f"The emulator has no places and languages: {', '.join(plan.without_effect)} had no effect.")
    if query.ignored:
        found.append(f"Operators without effect in the query: {', '.join(dict.fromkeys(query.ignored))}")
    if period.unknown:
        found.append(f"tbs: {', '.join(period.unknown)} had no effect.")
    if len(plan.query) > LONGEST:
        found.append(f"Only the first {LONGEST:,} characters of the query were read.")
    return found
