"""The site of a crawl, as it is found by fetching: robots.txt, sitemaps, and the scope."""

import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol

from receiver.emulator.fetching.fetcher import Fetcher
from receiver.emulator.fetching.network import NetworkZone
from receiver.emulator.fetching.robots import ALLOW_ALL, SERVICE_AGENTS, RobotsRules, fetch_robots
from receiver.emulator.fetching.scope import CrawlRules, CrawlScope, LinkVerdict
from receiver.emulator.fetching.sitemaps import sitemap_urls
from receiver.emulator.jobs.records import WaitingPage
from receiver.emulator.jobs.table import FoundLink, choose_new
from receiver.emulator.wire.jobs import CrawlPlan


# FOLDED: What a crawl has to know of the site that it crawls.
@dataclass(frozen=True, slots=True)
class LinkDenial:
    """Why a crawl does not take a URL."""

    reason: str
    """For people."""
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


# FOLDED: The pages that crawls of monitors have found. Every function is a part of the caller's transaction.
SCHEMA = """
CREATE TABLE IF NOT EXISTS site_crawls (
    id TEXT PRIMARY KEY,
    page_limit INTEGER NOT NULL,
    found INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    sitemap_read INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS site_crawl_pages (
    crawl TEXT NOT NULL,
    number INTEGER NOT NULL,
    url TEXT NOT NULL,
    depth INTEGER NOT NULL,
    waiting INTEGER NOT NULL DEFAULT 1,
    PRIMARY KEY (crawl, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS site_crawl_keys (
    crawl TEXT NOT NULL,
    key TEXT NOT NULL,
    PRIMARY KEY (crawl, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS crawl_origins (
    crawl TEXT PRIMARY KEY,
    url TEXT NOT NULL
) STRICT, WITHOUT ROWID;
"""


def begin_crawl(connection: sqlite3.Connection, crawl: str, seed: FoundLink, limit: int) -> bool:
    """Begin a crawl with its first page, unless it was begun; tell whether its sitemaps are still to be read."""
    begun = connection.execute("INSERT OR IGNORE INTO site_crawls (id, page_limit) VALUES (?, ?)", (crawl, limit))
    if begun.rowcount == 1:
        add_links(connection, crawl, [seed], 0)
        return True
    row = connection.execute("SELECT sitemap_read FROM site_crawls WHERE id = ?", (crawl,)).fetchone()
    return not row[0]


def add_links(connection: sqlite3.Connection, crawl: str, links: Iterable[FoundLink], depth: int) -> int:
    """Take up the links that are new, first come, first served, and return how many were looked at.

    Those behind have found no place: the crawl is at its limit.
    """
    row = connection.execute("SELECT found, failed, page_limit FROM site_crawls WHERE id = ?", (crawl,)).fetchone()
    if row is None:  # a reset has forgotten the crawl
        return 0
    taken, looked_at = choose_new(links, row, lambda key: take_key(connection, crawl, key))
    connection.executemany(
        "INSERT INTO site_crawl_pages (crawl, number, url, depth) VALUES (?, ?, ?, ?)",
        ((crawl, number, link.url, depth) for number, link in enumerate(taken, start=row["found"] + 1)),
    )
    connection.execute("UPDATE site_crawls SET found = found + ? WHERE id = ?", (len(taken), crawl))
    return looked_at


def take_key(connection: sqlite3.Connection, crawl: str, key: str) -> bool:
    """Note that a crawl has a page with this key; False if it had one before."""
    return connection.execute("INSERT OR IGNORE INTO site_crawl_keys VALUES (?, ?)", (crawl, key)).rowcount == 1


def note_sitemap(connection: sqlite3.Connection, crawl: str) -> None:
    """Note that the sitemaps of the site are read."""
    connection.execute("UPDATE site_crawls SET sitemap_read = 1 WHERE id = ?", (crawl,))


def next_page(connection: sqlite3.Connection, crawl: str) -> WaitingPage | None:
    """Return the page that was found first and that nobody has scraped."""
    row = connection.execute(
        "SELECT number, url, depth FROM site_crawl_pages WHERE crawl = ? AND waiting ORDER BY number LIMIT 1",
        (crawl,),
    ).fetchone()
    return None if row is None else WaitingPage(*row)


def end_page(connection: sqlite3.Connection, crawl: str, number: int) -> bool:
    """Note that a page waits no more; False if it did not."""
    ended = connection.execute(
        "UPDATE site_crawl_pages SET waiting = 0 WHERE crawl = ? AND number = ? AND waiting", (crawl, number)
    )
    return ended.rowcount == 1


def give_place_back(connection: sqlite3.Connection, crawl: str) -> None:
    """Count a page that is no result: another one takes its place."""
    connection.execute("UPDATE site_crawls SET failed = failed + 1 WHERE id = ?", (crawl,))


def keep_origin(connection: sqlite3.Connection, crawl: str, origin: str | None) -> None:
    """Keep where a crawl, or a crawl job, has moved to; None changes nothing."""
    if origin is not None:
        connection.execute("INSERT OR REPLACE INTO crawl_origins VALUES (?, ?)", (crawl, origin))


def origin_of(connection: sqlite3.Connection, crawl: str) -> str | None:
    """Return where a crawl has moved to; None if it is where it began."""
    row = connection.execute("SELECT url FROM crawl_origins WHERE crawl = ?", (crawl,)).fetchone()
    return None if row is None else str(row[0])


def delete_crawl(connection: sqlite3.Connection, crawl: str) -> None:
    """Forget a crawl."""
    connection.execute("DELETE FROM site_crawls WHERE id = ?", (crawl,))
    for name in ("site_crawl_pages", "site_crawl_keys", "crawl_origins"):
        connection.execute(f"DELETE FROM {name} WHERE crawl = ?", (crawl,))  # noqa: S608 - constants


def forget_origins(connection: sqlite3.Connection) -> None:
    """Forget the origins of crawls that have ended."""
    connection.execute(
        "DELETE FROM crawl_origins WHERE crawl NOT IN (SELECT id FROM jobs WHERE ended_at IS NULL)"
        " AND crawl NOT IN (SELECT id FROM site_crawls)"
    )
