"""The site of a crawl, as it is found by fetching: robots.txt, sitemaps, and the scope."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from receiver.service.emulator.fetching.fetcher import Fetcher
from receiver.service.emulator.fetching.robots import ALLOW_ALL, SERVICE_AGENTS, RobotsRules, fetch_robots
from receiver.service.emulator.fetching.scope import CrawlRules, CrawlScope, LinkVerdict
from receiver.service.emulator.fetching.sitemaps import sitemap_urls
from receiver.service.emulator.fetching.zones import NetworkZone
from receiver.service.emulator.jobs.site_rules import LinkDenial, OpenSite, SiteRules
from receiver.service.emulator.wire.plans import CrawlPlan

_AT_ONCE = 200
"""How many URLs of a sitemap are looked at together."""
_BY_PATHS = frozenset({LinkVerdict.EXCLUDED, LinkVerdict.NOT_INCLUDED})


class FetchedSite:
    """The SiteRules of a site whose robots.txt was read."""

    def __init__(self, fetcher: Fetcher, plan: CrawlPlan, robots: RobotsRules, zone: NetworkZone) -> None:
        self._fetcher = fetcher
        self._plan = plan
        self._robots = robots
        self._zone = zone
        self._scope = CrawlScope(plan.url, _rules_of(plan), self._obeyed(robots))

    def key(self, url: str) -> str:
        """Return what is equal for URLs that count as one page."""
        return self._scope.key(url)

    def denial(self, url: str) -> LinkDenial | None:
        """Return why the crawl does not take a URL, None if it does."""
        verdict = self._scope.judge(url)
        if verdict.is_taken:
            return None
        return LinkDenial(
            f"The crawl does not take this URL: {verdict}",
            by_robots=verdict is LinkVerdict.ROBOTS,
            by_paths=verdict in _BY_PATHS,
        )

    def nearest(self, url: str) -> int:
        """Return how near to this machine a page may be: one of another host, as far as the site of the crawl is.

        A site on the internet has no say in what is fetched from networks that it cannot reach itself, also by a
        name that leads there.
        """
        return NetworkZone.LOOPBACK if self._scope.is_own(url) else self._zone

    async def move_to(self, url: str) -> None:
        """Take this URL for the origin of the crawl. The robots.txt of its host counts from here on."""
        robots = await _robots_of(self._fetcher, self._plan, url)
        self._zone = await self._fetcher.zone_of_site(url)
        self._scope = self._scope.moved_to(url, self._obeyed(robots))

    async def sitemap(self) -> AsyncGenerator[Sequence[str], None]:
        """Yield the absolute URLs of the site's sitemaps; a sitemap that cannot be read is left out."""
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
