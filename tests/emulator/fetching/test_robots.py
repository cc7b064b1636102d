"""robots.txt: which groups count, what they allow, and how little a hostile file costs."""

from datetime import timedelta
from typing import Any

import pytest

from receiver.core.clock import VirtualClock
from receiver.emulator.fetching.fetcher import Fetcher
from receiver.emulator.fetching.robots import MAX_ROBOTS_BYTES, RobotsRules, fetch_robots
from receiver.emulator.options import EmulatorOptions, SiteSource
from tests.emulator.fetching.raw_server import RawServer, answer

SITE = "https://acme.test"


def allows(text: str, path: str, *agents: str) -> bool:
    rules = RobotsRules(text, agents) if agents else RobotsRules(text)
    return rules.allows(f"{SITE}{path}")


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/", True),
        ("/private/x", False),
        ("/private", False),  # the folder's rule holds for its name, too
        ("/privately", True),
        ("/private/open/x", True),
        ("/a/secret.pdf", False),
        ("/a/secret.pdf?x=1", True),
        ("/search?q=1", False),
        ("/robots.txt", True),
    ],
)
def test_the_longest_rule_decides(path: str, allowed: bool) -> None:
    text = "User-agent: *\nDisallow: /private/\nAllow: /private/open/\nDisallow: /*.pdf$\nDisallow: /*?q="

    assert allows(text, path) is allowed


@pytest.mark.parametrize("agent", ["FireCrawlAgent", "firecrawlagent", "FirecrawlAgent/1.0", "FIRECRAWLAGENT"])
def test_the_group_of_the_service_comes_before_that_of_all(agent: str) -> None:
    text = f"User-agent: *\nDisallow: /\n\nUser-agent: {agent}\nDisallow: /own\n"

    assert (allows(text, "/x"), allows(text, "/own")) == (True, False)


def test_another_agent_can_be_asked_for() -> None:
    text = "User-agent: mybot\nDisallow: /mine\n\nUser-agent: FirecrawlAgent\nDisallow: /theirs"

    assert [allows(text, path, "MyBot/2.1") for path in ("/mine", "/theirs")] == [False, True]


@pytest.mark.parametrize(
    "text",
    [
        "User-agent: other\nUser-agent: *\nDisallow: /x",
        "User-agent: *\nUser-agent: other\nDisallow: /x",
        "User-agent: *\nCrawl-delay: 5\nDisallow: /x",
        "\ufeffUser-agent: *\r\nDisallow: /x # no\r\n",
        "USER-AGENT : *\nDISALLOW : /x",
        "User-agent: *\nAllow: /\nUser-agent: other\nDisallow: /y\nUser-agent: *\nDisallow: /x",
    ],
)
def test_groups_are_read_as_they_are_meant(text: str) -> None:
    assert (allows(text.removeprefix("\ufeff"), "/x"), allows(text.removeprefix("\ufeff"), "/y")) == (False, True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<html>no such file</html>",
        "Disallow: /",
        "User-agent: other\nDisallow: /",
        "User-agent: *\nDisallow:\n\nUser-agent: other\nDisallow: /",
        "User-agent: *\nDisallow:\nUser-agent: other\nDisallow: /",
        "\0\1\2",
        ":::\n:\nuser-agent\ndisallow",
    ],
)
def test_everything_is_allowed_unless_a_rule_says_otherwise(text: str) -> None:
    assert allows(text, "/x")


def test_an_empty_group_is_not_joined_with_the_next() -> None:
    text = "User-agent: *\nDisallow:\n\nUser-agent: FirecrawlAgent\nDisallow: /own"

    assert (allows(text, "/own", "otherbot"), allows(text, "/own")) == (True, False)


def test_sitemaps_are_found_in_any_group() -> None:
    text = "Sitemap: https://a.test/1.xml\nUser-agent: other\nsitemap:/2.xml\nDisallow: /"

    assert RobotsRules(text).sitemaps == ("https://a.test/1.xml", "/2.xml")


def test_thousands_of_agents_and_rules_are_not_multiplied() -> None:
    """The parser would keep each of 20,000 rules for each of 20,000 agents; only rules for us reach it, and no more
    than 10,000."""
    agents = "".join(f"User-agent: a{number}\n" for number in range(20_000))
    rules = "".join(f"Disallow: /{number}/\n" for number in range(20_000))

    robots = RobotsRules(f"{agents}User-agent: *\n{rules}")

    assert (robots.allows(f"{SITE}/9/"), robots.allows(f"{SITE}/19999/")) == (False, True)


def test_wildcards_take_linear_time() -> None:
    """Backtracking would take longer than the age of the world."""
    text = "User-agent: *\nDisallow: /" + "*a" * 900 + "$"

    assert allows(text, "/" + "a" * 899 + "b" * 500)


async def fetched(sites: dict[str, SiteSource], url: str, **options: Any) -> RobotsRules:
    async with Fetcher(EmulatorOptions(sites=sites, **options), VirtualClock()) as fetcher:
        return await fetch_robots(fetcher, url)


async def test_the_robots_of_a_site_are_at_its_root() -> None:
    robots = await fetched({SITE: {"/robots.txt": "User-agent: *\nDisallow: /x"}}, f"{SITE}/a/b?c#d")

    assert (robots.allows(f"{SITE}/x"), robots.allows(f"{SITE}/a")) == (False, True)


@pytest.mark.parametrize("status", ["404 Not Found", "403 Forbidden", "500 Broken"])
async def test_a_site_without_robots_allows_all(server: RawServer, status: str) -> None:
    server.answers["/robots.txt"] = answer(b"User-agent: *\nDisallow: /", status=status)

    assert (await fetched({}, server.url())).allows(server.url("/x"))


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/", "https://example.org/", "no url"])
async def test_a_site_that_cannot_be_reached_allows_all(url: str) -> None:
    assert (await fetched({}, url)).allows(url)


async def test_of_a_large_file_only_the_beginning_is_read(server: RawServer) -> None:
    text = b"User-agent: *\nDisallow: /first\n" + b"# filler\n" * (MAX_ROBOTS_BYTES // 9) + b"Disallow: /last\n"
    server.answers["/robots.txt"] = answer(text.ljust(10 * 1024 * 1024))

    robots = await fetched({}, server.url())

    assert (robots.allows(server.url("/first")), robots.allows(server.url("/last"))) == (False, True)


async def test_robots_are_given_eight_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[timedelta] = []
    original = Fetcher.fetch_file

    async def noted(self: Fetcher, url: str, *, timeout: timedelta, **others: Any) -> Any:
        waits.append(timeout)
        return await original(self, url, timeout=timeout, **others)

    monkeypatch.setattr(Fetcher, "fetch_file", noted)
    await fetched({SITE: {}}, SITE)

    assert waits == [timedelta(seconds=8)]
