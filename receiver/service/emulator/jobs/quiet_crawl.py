"""A crawl that is no job: a monitor looks at a site, without results to ask for and without events of a crawl."""

from collections import deque
from collections.abc import AsyncIterator
from contextlib import aclosing

from receiver.service.emulator.failures import ScrapeFailed
from receiver.service.emulator.jobs.following import LinkFollower
from receiver.service.emulator.jobs.outcomes import PageFailed
from receiver.service.emulator.jobs.records import WaitingPage
from receiver.service.emulator.jobs.site_rules import OpenSite, SiteRules
from receiver.service.emulator.monitors.ports import SitePage
from receiver.service.emulator.scrapes import ScrapedPage, Scraper
from receiver.service.emulator.wire.plans import CrawlPlan


class QuietCrawler:
    """Crawls sites for monitors: their SiteCrawler. Pages of one site are scraped one after the other."""

    def __init__(self, scraper: Scraper, open_site: OpenSite) -> None:
        self._scraper = scraper
        self._open_site = open_site

    async def pages(self, plan: CrawlPlan, *, team: str) -> AsyncIterator[SitePage]:
        """Yield the pages of a site as they are scraped, at most as many as the plan's limit."""
        rules = await self._open_site(plan)
        frontier = _Frontier(plan, LinkFollower(plan, rules))
        await frontier.read_sitemaps(rules)
        while (page := frontier.next()) is not None:
            result = await self._visit(page, frontier, team)
            if result is not None:
                yield SitePage(page.url, result)

    async def _visit(
        self, page: WaitingPage, frontier: "_Frontier", team: str
    ) -> ScrapedPage | ScrapeFailed | None:
        """Return what became of a page; None if it led to one that the crawl has already."""
        forbidden = frontier.follower.forbids_visit(page)
        if forbidden is not None:
            return _failure(forbidden)
        try:
            scraped = await self._scraper.scrape(frontier.follower.plan_of(page), history_team=team)
        except ScrapeFailed as exc:
            return exc
        outcome = await frontier.follower.judge(page, scraped)
        links = await frontier.follower.links_of(page, scraped, outcome)
        for link in links.found:
            frontier.add(link.url, link.key, page.depth + 1)
        if isinstance(outcome, PageFailed):
            return _failure(outcome)
        is_new = outcome.final_key is None or frontier.is_new(outcome.final_key)
        return scraped if is_new else None


class _Frontier:
    """The pages that a crawl has found, and those that it still has to look at."""

    def __init__(self, plan: CrawlPlan, follower: LinkFollower) -> None:
        self.follower = follower
        self._limit = plan.limit
        self._waiting: deque[WaitingPage] = deque()
        self._known: set[str] = set()
        self._sitemap = plan.sitemap
        self.add(plan.url, follower.seed_key(), 0)

    def add(self, url: str, key: str, depth: int) -> None:
        """Take up a page, unless it is known or the limit is reached."""
        if len(self._known) < self._limit and self.is_new(key):
            self._waiting.append(WaitingPage(len(self._known), url, depth))

    def is_new(self, key: str) -> bool:
        """Tell whether no page with this key was known; it is from now on."""
        is_new = key not in self._known
        self._known.add(key)
        return is_new

    def next(self) -> WaitingPage | None:
        """Return the page to scrape next."""
        return self._waiting.popleft() if self._waiting else None

    async def read_sitemaps(self, rules: SiteRules) -> None:
        """Take up the pages of the site's sitemaps."""
        if self._sitemap == "skip":
            return
        async with aclosing(rules.sitemap()) as listed:
            async for urls in listed:
                for link in (await self.follower.choose(urls)).found:
                    self.add(link.url, link.key, 0)
                if len(self._known) >= self._limit:
                    return


def _failure(failed: PageFailed) -> ScrapeFailed:
    return ScrapeFailed(failed.code or "CRAWL_DENIAL", failed.text)
