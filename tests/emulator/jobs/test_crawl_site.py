"""The rules of a crawl as they are fetched from a site."""

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from receiver.core.clock import VirtualClock
from receiver.emulator.failures import ScrapeFailed
from receiver.emulator.fetching.fetcher import Fetcher
from receiver.emulator.fetching.network import NetworkZone
from receiver.emulator.jobs.sites import SiteRules, site_opener
from receiver.emulator.options import EmulatorOptions
from receiver.emulator.scrapes import ScrapePlan
from receiver.emulator.wire.jobs import CrawlPlan

HOME = "https://home.test"
THERE = "https://there.test"
ROBOTS = "User-agent: *\nDisallow: /private\n\nUser-agent: Friend\nDisallow: /foe\n"
LIST = (
    '<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
    + "".join(f"<url><loc>{HOME}/p{number}</loc></url>" for number in range(450))
    + "</urlset>"
)
SITES = {
    HOME: {"/robots.txt": ROBOTS, "/sitemap.xml": LIST, "/": "<p>home"},
    THERE: {"/robots.txt": "User-agent: *\nDisallow: /x\n", "/": "<p>there"},
}


@asynccontextmanager
async def opened(**options: Any) -> AsyncIterator[SiteRules]:
    """Open the site of a crawl."""
    async with Fetcher(EmulatorOptions(sites=SITES), VirtualClock()) as fetcher:
        yield await site_opener(fetcher)(CrawlPlan(url=f"{HOME}/", **options))


@pytest.mark.parametrize(
    ("options", "url", "by_robots", "by_paths"),
    [
        ({}, f"{HOME}/private/x", True, False),
        ({"robots_user_agent": "Friend"}, f"{HOME}/foe", True, False),
        ({"exclude_paths": ("^/blog",)}, f"{HOME}/blog/x", False, True),
        ({"include_paths": ("^/docs",)}, f"{HOME}/blog/x", False, True),
        ({}, f"{THERE}/x", False, False),
        ({}, f"{HOME}/picture.png", False, False),
    ],
)
async def test_a_url_is_refused_with_a_reason(
    options: dict[str, Any], url: str, by_robots: bool, by_paths: bool
) -> None:
    """And with what it was refused by."""
    async with opened(**options) as rules:
        denial = rules.denial(url)

    assert denial is not None
    assert denial.reason
    assert (denial.by_robots, denial.by_paths) == (by_robots, by_paths)


@pytest.mark.parametrize(
    ("options", "url"),
    [
        ({}, f"{HOME}/a"),
        ({"ignore_robots_txt": True}, f"{HOME}/private/x"),
        ({"robots_user_agent": "Friend"}, f"{HOME}/private/x"),
        ({"allow_external_links": True}, f"{THERE}/x"),
    ],
)
async def test_a_url_is_taken(options: dict[str, Any], url: str) -> None:
    """As the options say."""
    async with opened(**options) as rules:
        assert rules.denial(url) is None


async def test_a_crawl_that_moves_obeys_the_new_host() -> None:
    """Its robots.txt counts, and its pages are those of the crawl."""
    async with opened() as rules:
        await rules.move_to(f"{THERE}/")

        assert rules.denial(f"{THERE}/a") is None
        assert rules.denial(f"{HOME}/a") is not None
        denial = rules.denial(f"{THERE}/x")
        assert denial is not None
        assert denial.by_robots


async def test_sitemaps_come_in_parts() -> None:
    """All of them, and no more than some at one time; somebody may stop in the middle."""
    async with opened() as rules:
        parts = [list(some) async for some in rules.sitemap()]
        assert [url for some in parts for url in some] == [f"{HOME}/p{number}" for number in range(450)]
        assert max(map(len, parts)) == 200
        async with aclosing(rules.sitemap()) as urls:
            async for some in urls:
                assert len(some) == 200
                break


@pytest.mark.parametrize(
    ("options", "same"),
    [({}, True), ({"deduplicate_similar_urls": False}, False)],
)
async def test_similar_urls_are_one_page_if_that_is_asked_for(options: dict[str, Any], same: bool) -> None:
    """With and without `www`, and a slash at the end."""
    async with opened(**options) as rules:
        keys = {rules.key(url) for url in (f"{HOME}/a", "https://www.home.test/a/")}

    assert (len(keys) == 1) is same


async def test_pages_of_other_hosts_are_as_far_as_the_site() -> None:
    """A name that leads to this machine counts as this machine, whatever it looks like."""
    names = {"evil.example": ["127.0.0.1"], "wiki.corp.internal": ["10.0.0.5"], "acme.example": ["8.8.8.8"]}

    async def resolve(host: str, port: int) -> list[str]:
        return names.get(host, [])

    options = EmulatorOptions(sites=SITES, allow_internet=True, allow_private=True)
    async with Fetcher(options, VirtualClock(), resolve=resolve) as fetcher:
        rules = await site_opener(fetcher)(CrawlPlan(url=f"{HOME}/", allow_external_links=True))
        nearest = {
            url: await fetcher.zone_of_site(url)
            for url in (f"{HOME}/", *(f"http://{name}/x" for name in (*names, "127.0.0.1", "nobody.example")))
        }
        with pytest.raises(ScrapeFailed, match="ERR_BLOCKED_BY_CLIENT"):
            await fetcher.fetch(
                ScrapePlan(url="http://evil.example:9/x", nearest=rules.nearest("http://evil.example:9/x"))
            )

    assert rules.denial("http://evil.example:9/x") is None
    assert rules.nearest(f"{HOME}/a") == NetworkZone.LOOPBACK
    assert list(nearest.values()) == [
        NetworkZone.INTERNET,
        NetworkZone.LOOPBACK,
        NetworkZone.PRIVATE,
        NetworkZone.INTERNET,
        NetworkZone.LOOPBACK,
        NetworkZone.INTERNET,
    ]
