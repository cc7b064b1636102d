"""The site of a crawl: its robots.txt, its sitemaps, and which of its links the crawl follows."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Protocol
from urllib.parse import urlsplit

from typing_extensions import override

from receiver.emulator.fetching.fetcher import Fetcher
from receiver.emulator.fetching.network import NetworkZone
from receiver.emulator.fetching.robots import ALLOW_ALL, SERVICE_AGENTS, RobotsRules, fetch_robots
from receiver.emulator.fetching.scope import CrawlRules, CrawlScope, LinkVerdict
from receiver.emulator.fetching.sitemaps import sitemap_urls
from receiver.emulator.jobs.records import PageFailed, PageOutcome, PageScraped, WaitingPage
from receiver.emulator.jobs.table import FoundLink
from receiver.emulator.scrapes import ScrapedPage, ScrapePlan
from receiver.emulator.wire.jobs import CrawlPlan

MAX_REMEMBERED = 20_000
"""How many links of a crawl are remembered as looked at, so that the menu of a site costs nothing on each page."""
_MANY = 50
"""So many links are looked at in a thread."""
_SEED = 1
"""The number of the page where the crawl begins."""
_AT_ONCE = 200
"""How many URLs of a sitemap are looked at together."""
_BY_PATHS = frozenset({LinkVerdict.EXCLUDED, LinkVerdict.NOT_INCLUDED})


@dataclass(frozen=True, slots=True)
class LinkDenial:
    """Why a crawl does not take a URL."""

    reason: str
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


class FetchedSite(SiteRules):
    """The rules of a site whose robots.txt was read."""

    def __init__(self, fetcher: Fetcher, plan: CrawlPlan, robots: RobotsRules, zone: NetworkZone) -> None:
        self._fetcher = fetcher
        self._plan = plan
        self._robots = robots
        self._zone = zone
        self._scope = CrawlScope(plan.url, _rules_of(plan), self._obeyed(robots))

    @override
    def key(self, url: str) -> str:
        return self._scope.key(url)

    @override
    def denial(self, url: str) -> LinkDenial | None:
        verdict = self._scope.judge(url)
        if verdict.is_taken:
            return None
        return LinkDenial(
            f"The crawl does not take this URL: {verdict}",
            by_robots=verdict is LinkVerdict.ROBOTS,
            by_paths=verdict in _BY_PATHS,
        )

    @override
    def nearest(self, url: str) -> int:
        """Return how near to this machine a page may be: one of another host, no nearer than the site of the crawl.

        So a site on the internet cannot have something fetched from networks that it cannot reach itself, not even
        through a name that leads there.
        """
        return NetworkZone.LOOPBACK if self._scope.is_own(url) else self._zone

    @override
    async def move_to(self, url: str) -> None:
        """Take this URL for the origin of the crawl. The robots.txt of its host counts from here on."""
        robots = await _robots_of(self._fetcher, self._plan, url)
        self._zone = await self._fetcher.zone_of_site(url)
        self._scope = self._scope.moved_to(url, self._obeyed(robots))

    @override
    async def sitemap(self) -> AsyncGenerator[Sequence[str], None]:
        some: list[str] = []
        found = sitemap_urls(self._fetcher, self._plan.url, self._robots)
        async with aclosing(found) as urls:
            async for url in urls:
                some.append(url)
                if len(some) == _AT_ONCE:
                    yield some
                    some = []
        if some:
            yield some

    def _obeyed(self, robots: RobotsRules) -> RobotsRules:
        return ALLOW_ALL if self._plan.ignore_robots_txt else robots


def site_opener(fetcher: Fetcher) -> OpenSite:
    """Return what opens sites with a fetcher."""

    async def open_site(plan: CrawlPlan) -> SiteRules:
        robots = await _robots_of(fetcher, plan, plan.url)
        return FetchedSite(fetcher, plan, robots, await fetcher.zone_of_site(plan.url))

    return open_site


async def _robots_of(fetcher: Fetcher, plan: CrawlPlan, url: str) -> RobotsRules:
    agents = (plan.robots_user_agent,) if plan.robots_user_agent else SERVICE_AGENTS
    return await fetch_robots(fetcher, url, agents)


def _rules_of(plan: CrawlPlan) -> CrawlRules:
    return CrawlRules(
        include_paths=plan.include_paths,
        exclude_paths=plan.exclude_paths,
        regex_on_full_url=plan.regex_on_full_url,
        max_depth=plan.max_depth,
        crawl_entire_domain=plan.crawl_entire_domain,
        allow_external_links=plan.allow_external_links,
        allow_subdomains=plan.allow_subdomains,
        ignore_query_parameters=plan.ignore_query_parameters,
        deduplicate_similar_urls=plan.deduplicate_similar_urls,
    )


@dataclass(frozen=True, slots=True)
class ChosenLinks:
    """The new links of a page, in their order."""

    found: tuple[FoundLink, ...] = ()
    """Those that the crawl takes."""
    blocked: tuple[str, ...] = ()
    """Those that robots.txt forbids."""
    refused: tuple[str, ...] = ()
    """Those that the crawl does not take, the blocked ones among them."""


NO_LINKS = ChosenLinks()


class LinkFollower:
    """Applies the rules of one crawl: which links of a page it follows, and whether it takes the page itself."""

    def __init__(self, plan: CrawlPlan, rules: SiteRules) -> None:
        self._plan = plan
        self._rules = rules
        self._looked_at: dict[str, None] = {}

    def seed_key(self) -> str:
        """Return the key of the page where the crawl begins."""
        return self._rules.key(self._plan.url)

    async def move_to(self, origin: str) -> None:
        """Take this URL for the origin of the crawl."""
        await self._rules.move_to(origin)
        self._looked_at.clear()

    def plan_of(self, page: WaitingPage) -> ScrapePlan:
        """Return the plan for a page of the crawl."""
        return replace(self._plan.scrape, url=page.url, nearest=self._rules.nearest(page.url))

    def forbids_visit(self, page: WaitingPage) -> PageFailed | None:
        """Return the failure of the page where the crawl begins, if robots.txt forbids it.

        Other pages are checked when their links are found.
        """
        denial = self._rules.denial(page.url) if page.number == _SEED else None
        return _denied(denial) if denial is not None and denial.by_robots else None

    async def judge(self, page: WaitingPage, scraped: ScrapedPage) -> PageOutcome:
        """Return what a page counts as: it may have led out of the crawl, or to another page of it."""
        own, final = self._rules.key(page.url), self._rules.key(scraped.url)
        if page.number == _SEED:
            origin = scraped.url if _host(scraped.url) != _host(page.url) else None
            if origin is not None:
                await self.move_to(origin)
            elif (denial := self._rules.denial(page.url)) is not None and denial.by_paths:
                return _denied(denial)
            return PageScraped(scraped, final if final != own else None, origin)
        if final == own:
            return PageScraped(scraped)
        denial = self._rules.denial(scraped.url)
        return PageScraped(scraped, final) if denial is None else _denied(denial)

    async def links_of(self, page: WaitingPage, scraped: ScrapedPage, outcome: PageOutcome) -> ChosenLinks:
        """Return the new links that lie within the depth of the crawl.

        A page that led out of the crawl has none. The first one gives its links in any case.
        """
        deepest = self._plan.max_discovery_depth
        if isinstance(outcome, PageFailed) and page.number != _SEED:
            return NO_LINKS
        if self._plan.sitemap == "only" or (deepest is not None and page.depth >= deepest):
            return NO_LINKS
        return await self.choose(scraped.links)

    async def choose(self, urls: Sequence[str]) -> ChosenLinks:
        """Return the new ones of some URLs, each once."""
        fresh = [url for url in dict.fromkeys(urls) if url not in self._looked_at]
        if len(fresh) > _MANY:
            return await asyncio.to_thread(self._sort, fresh)
        return self._sort(fresh)

    def remember(self, chosen: ChosenLinks, looked_at: int) -> None:
        """Ignore these links from now on: the refused ones, and the first `looked_at` of those that were found."""
        for url in (*chosen.refused, *(link.url for link in chosen.found[:looked_at])):
            if len(self._looked_at) >= MAX_REMEMBERED:
                del self._looked_at[next(iter(self._looked_at))]
            self._looked_at[url] = None

    def _sort(self, urls: Sequence[str]) -> ChosenLinks:
        found: list[FoundLink] = []
        blocked: list[str] = []
        refused: list[str] = []
        for url in urls:
            denial = self._rules.denial(url)
            if denial is None:
                found.append(FoundLink(url, self._rules.key(url)))
                continue
            refused.append(url)
            if denial.by_robots:
                blocked.append(url)
        return ChosenLinks(tuple(found), tuple(blocked), tuple(refused))


def _denied(denial: LinkDenial) -> PageFailed:
    return PageFailed("CRAWL_DENIAL", denial.reason, by_robots=denial.by_robots)


def _host(url: str) -> str:
    return (urlsplit(url).hostname or "").removeprefix("www.")
