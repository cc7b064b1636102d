"""Crawls for monitors: their limit, their pauses, and how they go on after the end of the process."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from receiver.emulator.failures import ScrapeFailed
from receiver.emulator.monitors.site_crawls import QuietCrawler
from receiver.emulator.wire.jobs import CrawlPlan
from tests.doubles import soon, turns
from tests.emulator.world import SITE, TEAM, MadePage, MadeRules, World, open_world, site

CRAWL = "crawl-1"


@dataclass
class Walk:
    """A crawl of the made site."""

    world: World
    crawler: QuietCrawler

    async def urls(self, count: int | None = None, **options: Any) -> list[str]:
        """Note and return some pages of a crawl; those that failed with a mark."""
        found: list[str] = []
        plan = CrawlPlan(url=f"{SITE}/", **options)
        if count == 0:
            return found
        async with aclosing(self.crawler.pages(plan, team=TEAM, crawl_id=CRAWL)) as pages:
            async for page in pages:
                if await self.world.database.run(page.note):
                    name = page.url.removeprefix(f"{SITE}/")
                    found.append(f"!{name}" if isinstance(page.result, ScrapeFailed) else name)
                if len(found) == count:
                    break
        return found


@asynccontextmanager
async def walk(
    pages: dict[str, MadePage], rules: MadeRules | None = None, state: Path | None = None
) -> AsyncIterator[Walk]:
    async with open_world(pages, rules=rules, state=state) as world:
        yield Walk(world, QuietCrawler(world.context))


async def test_pages_come_in_the_order_in_which_they_are_found() -> None:
    async with walk(site(home="a b", a="c", b="a c", c="")) as one:
        assert await one.urls() == ["", "a", "b", "c"]


async def test_a_page_that_fails_gives_its_place_back() -> None:
    """It is there as an error, and another page is scraped for it."""
    pages = site(home="a b c d", a="", c="", d="") | {f"{SITE}/b": MadePage(fails="SCRAPE_SITE_ERROR")}
    async with walk(pages) as one:
        # The place is free only when the page has failed, and links come from the pages after it.
        pages[f"{SITE}/c"] = MadePage([f"{SITE}/e"])
        pages[f"{SITE}/e"] = MadePage()
        found = await one.urls(limit=4)

    assert found == ["", "a", "!b", "c", "e"]


async def test_a_page_that_leads_to_a_known_one_gives_its_place_back() -> None:
    pages = site(home="a b", a="", b="c", c="") | {f"{SITE}/a": MadePage(leads_to=f"{SITE}/")}
    async with walk(pages) as one:
        assert await one.urls(limit=3) == ["", "b", "c"]


async def test_pages_of_a_sitemap_come_before_those_of_links() -> None:
    rules = MadeRules(listed=[[f"{SITE}/m"], [f"{SITE}/n"]])
    async with walk(site(home="a", a="", m="", n=""), rules) as one:
        assert await one.urls(limit=3) == ["", "m", "n"]


async def test_a_delay_passes_on_the_clock_between_two_pages() -> None:
    async with walk(site(home="a b", a="", b="")) as one:

        async def crawl() -> list[str]:
            with one.world.activity.running():
                return await one.urls(delay=5)

        crawling = asyncio.create_task(crawl())
        counts = []
        for _ in range(3):
            await turns()
            await one.world.quiet()
            counts.append(len(one.world.scraper.scraped))
            one.world.clock.advance(timedelta(seconds=5))
        assert await soon(crawling) == ["", "a", "b"]

    assert counts == [1, 2, 3]


@pytest.mark.parametrize("count", [0, 1, 2, 5])
async def test_a_crawl_goes_on_where_it_was(tmp_path: Path, count: int) -> None:
    """Sitemaps are read once, no page comes twice, and none is left out."""
    state = tmp_path / "state.db"
    pages = site(home="a b", a="c", b="d", c="", d="", m="")
    rules = MadeRules(listed=[[f"{SITE}/m"]])
    async with walk(pages, rules, state) as one:
        first = await one.urls(count)
    rules.listed = rules.listed if count == 0 else [[f"{SITE}/late"]]
    async with walk(pages, rules, state) as one:
        rest = await one.urls()

    assert first + rest == ["", "m", "a", "b", "c", "d"]


async def test_a_crawl_that_moved_to_another_host_goes_on_there(tmp_path: Path) -> None:
    """The first page redirected; the rules count from where it led."""
    state = tmp_path / "state.db"
    other = "https://other.test"
    pages = {
        f"{SITE}/": MadePage([f"{other}/a"], leads_to=f"{other}/"),
        f"{other}/a": MadePage([f"{other}/b"]),
        f"{other}/b": MadePage(),
    }
    async with walk(pages, MadeRules(), state) as one:
        first = await one.urls(1)
    async with walk(pages, MadeRules(), state) as one:
        rest = await one.urls()

    assert first + rest == ["", f"{other}/a", f"{other}/b"]


async def test_a_crawl_that_is_forgotten_leaves_nothing() -> None:
    async with walk(site(home="a", a="")) as one:
        await one.urls()
        await one.world.database.run(lambda connection: one.crawler.forget(connection, CRAWL))
        left = await one.world.database.run(count_rows)

    assert left == [0, 0, 0]


def count_rows(connection: sqlite3.Connection) -> list[int]:
    tables = ("jobs", "job_pages", "job_keys")
    return [connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in tables]
