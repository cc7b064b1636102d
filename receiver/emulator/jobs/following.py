"""Which links of a page a crawl follows, and whether it takes the page itself."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from receiver.emulator.jobs.records import PageFailed, PageOutcome, PageScraped, WaitingPage
from receiver.emulator.jobs.sites import LinkDenial, SiteRules
from receiver.emulator.jobs.table import FoundLink
from receiver.emulator.scrapes import ScrapedPage, ScrapePlan
from receiver.emulator.wire.jobs import CrawlPlan

MAX_REMEMBERED = 20_000
"""How many links of a crawl are remembered as looked at, so that the menu of a site costs nothing on each page."""
_MANY = 50
"""So many links are looked at in a thread."""
_SEED = 1
"""The number of the page where the crawl begins."""


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
    """Applies the rules of one crawl."""

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
        """Return the failure of a page that robots.txt forbids; only the first one was not asked about before."""
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
        """Ignore these links from now on. Of those that were found, the first `looked_at` had a place."""
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
