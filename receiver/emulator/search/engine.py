"""Answers searches from the index, and from a SearXNG server if there is one."""

import asyncio
import re
import sqlite3
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TypeVar

from typing_extensions import override

from receiver.core.clock import Clock
from receiver.emulator.failures import CallRefused, ScrapeFailed
from receiver.emulator.monitors.findings import HitFinder, WatchedHit, WatchedSearch
from receiver.emulator.scraping.ports import AddressGuard
from receiver.emulator.search.finding import (
    CANDIDATES,
    FoundRow,
    PageHit,
    PictureHit,
    SearchScope,
    find_images,
    find_pages,
    image_hits,
    load_images,
    load_pages,
    page_hits,
)
from receiver.emulator.search.queries import LONGEST, SearchQuery, SitePart, kinds_of, read_query, site_part
from receiver.emulator.search.searxng import SearxngClient, SearxngFailed
from receiver.emulator.search.site_reading import SiteReader
from receiver.emulator.state.database import StateDatabase
from receiver.emulator.wire.monitors import QueriesTarget
from receiver.emulator.wire.searches import SearchPlan
from receiver.requests.prices import SEARCH

_DAYS = {"h": 1 / 24, "n": 1 / 1440, "s": 1 / 86400, "d": 1, "w": 7, "m": 31, "y": 366}
_RECENT = re.compile(r"qdr:([hnsdwmy])(\d{0,4})")
_DAY = re.compile(r"cd_(min|max):(\d{1,2})/(\d{1,2})/(\d{4})")
_TIME_RANGES = {"h": "day", "n": "day", "s": "day", "d": "day", "w": "week", "m": "month", "y": "year"}


@dataclass(frozen=True, slots=True)
class SearchPeriod:
    """The meaning of `tbs`: the age and the order of hits, in the terms of the service's search engine."""

    since: datetime | None = None
    until: datetime | None = None
    by_date: bool = False
    time_range: str = ""
    """The period as `day`, `week`, `month` or `year`; empty for others."""
    unknown: tuple[str, ...] = ()
    """Parts that were not understood, and have no effect."""


def period_of(tbs: str, now: datetime) -> SearchPeriod:
    """Return the meaning of `qdr:d`, `sbd:1,qdr:w`, `cdr:1,cd_min:1/31/2026,cd_max:2/28/2026` and the like."""
    since = until = None
    by_date, time_range = False, ""
    unknown: list[str] = []
    for part in filter(None, (one.strip() for one in tbs.split(",")[:20])):
        if recent := _RECENT.fullmatch(part):
            since, until = now - timedelta(days=_DAYS[recent[1]] * int(recent[2] or 1)), now
            time_range = _TIME_RANGES[recent[1]] if recent[2] in ("", "1") else ""
        elif (found := _DAY.fullmatch(part)) and (day := _day(found)) is not None:
            since, until = (day, until) if found[1] == "min" else (since, day + timedelta(days=1))
        elif part in ("sbd:1", "sbd:0"):
            by_date = part == "sbd:1"
        elif part != "cdr:1":
            unknown.append(part[:100])
    return SearchPeriod(since, until, by_date, time_range, tuple(unknown))


def _day(found: re.Match[str]) -> datetime | None:
    try:
        return datetime(int(found[4]), int(found[2]), int(found[3]), tzinfo=UTC)
    except ValueError:
        return None


_READING_SECONDS = 10.0
"""Real seconds in which the first search waits for the given sites."""
_SHARE = 0.5
"""The part of the time-out that this wait, or a SearXNG server, may take."""

Hit = TypeVar("Hit", PageHit, PictureHit)


@dataclass(slots=True)
class SearchFindings:
    """The hits of a search."""

    web: list[PageHit] = field(default_factory=list)
    news: list[PageHit] = field(default_factory=list)
    images: list[PictureHit] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    check_credits: int = 0

    @property
    def count(self) -> int:
        """The number of hits."""
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
        """Return the hits of a search. Raises CallRefused with status 408 after its time-out."""
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
        elsewhere = await self._elsewhere(
            found, partial(SearxngClient.pages, query=_as_text(plan), source=source), plan, period
        )
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
        elsewhere = await self._elsewhere(found, partial(SearxngClient.images, query=_as_text(plan)), plan, period)
        scope = _scope(plan, period, only_news=False)
        most = min(CANDIDATES, 3 * plan.limit)

        def find(connection: sqlite3.Connection) -> list[tuple[FoundRow, sqlite3.Row]]:
            return load_images(connection, find_images(connection, query, scope, limit=plan.limit, most=most))

        own = image_hits(await self._state.run(find), plan.limit)
        return await self._allowed(plan, found, [*elsewhere, *own])

    async def _elsewhere(
        self,
        found: SearchFindings,
        ask: Callable[..., Awaitable[list[Hit]]],
        plan: SearchPlan,
        period: SearchPeriod,
    ) -> list[Hit]:
        """Return the hits of the SearXNG server; empty without one, or if it fails."""
        if self._searxng is None:
            return []
        seconds = _SHARE * plan.timeout / 1000 / len(plan.sources)
        try:
            return await ask(self._searxng, most=plan.limit, time_range=period.time_range, seconds=seconds)
        except SearxngFailed as exc:
            found.warnings.append(f"The SearXNG server was of no use: {exc}. The index was searched.")
            return []

    async def _allowed(self, plan: SearchPlan, found: SearchFindings, hits: list[Hit]) -> list[Hit]:
        """Return the hits up to the limit, each once, without those that threat protection blocks."""
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
    """Return the query for another search engine, with operators for the domains and categories."""
    sites = [f"site:{host}" for host in plan.include_domains]
    for kind in kinds_of(plan.categories):
        if not plan.include_domains:  # joined by OR, these would admit other hosts
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


_WINDOWS = {"5m": "qdr:n5", "15m": "qdr:n15", "1h": "qdr:h1", "6h": "qdr:h6", "24h": "qdr:d1", "7d": "qdr:w1"}


class SearchWatcher(HitFinder):
    """Searches for monitors, with each page once among the hits of a target."""

    def __init__(self, engine: SearchEngine) -> None:
        self._engine = engine

    @override
    async def find(self, target: QueriesTarget) -> WatchedSearch:
        hits: dict[str, WatchedHit] = {}
        cost = 0
        for query in target.queries:
            found = await self._engine.search(
                SearchPlan(
                    query=query,
                    limit=target.max_results,
                    tbs=_WINDOWS.get(target.search_window or "", ""),
                    include_domains=target.include_domains,
                    exclude_domains=target.exclude_domains,
                )
            )
            cost += SEARCH * -(-found.count // 10) + found.check_credits
            for hit in found.web:
                hits.setdefault(hit.url, WatchedHit(hit.url, hit.title, hit.passage))
        return WatchedSearch(tuple(hits.values()), cost)
