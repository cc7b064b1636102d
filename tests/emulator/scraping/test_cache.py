"""The cache: what answers from it, what goes into it, and how it stays small."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from receiver.core.clock import VirtualClock
from receiver.emulator.scrapes import FetchedPage
from receiver.emulator.scraping import cache
from receiver.emulator.scraping.cache import PageCache, copy_of, is_kept, key_of_page, looks_up
from receiver.emulator.state.database import StateDatabase
from tests.emulator.pages import HOME, failure_of, plan_of, scene, tracking

HOUR = 3_600_000


async def test_a_young_copy_is_taken_and_an_older_one_is_not() -> None:
    """A copy may be as old as maxAge, on the emulator's clock."""
    async with scene() as one:
        one.web.show("first")
        before = await one.scrape(max_age=HOUR)
        one.web.show("second")
        one.clock.advance(timedelta(hours=1))
        hit = await one.scrape(max_age=HOUR)
        one.clock.advance(timedelta(milliseconds=1))
        miss = await one.scrape(max_age=HOUR)

    assert [page["markdown"] for page in (before, hit, miss)] == ["first", "first", "second"]
    assert [page["metadata"]["cacheState"] for page in (before, hit, miss)] == ["miss", "hit", "miss"]
    assert hit["metadata"]["cachedAt"] == "2026-01-01T12:00:00.000Z"
    assert "cachedAt" not in before["metadata"]


async def test_without_max_age_no_copy_is_looked_for() -> None:
    async with scene() as one:
        one.web.show("page")
        await one.scrape(max_age=HOUR)
        page = await one.scrape(max_age=0)

        assert len(one.web.fetched) == 2
        assert "cacheState" not in page["metadata"]


async def test_every_format_is_made_from_the_copy() -> None:
    """The copy is the page as it was sent, not what the first scrape asked for."""
    async with scene() as one:
        one.web.show("<p>Text</p><a href='/a'>A</a>")
        await one.scrape(HOME, "markdown")
        page = await one.scrape(HOME, "links", "rawHtml", max_age=HOUR)

        assert one.web.fetched == [HOME]
        assert page["links"] == ["https://shop.example/a"]
        assert "<p>Text</p>" in page["rawHtml"]


async def test_a_hit_costs_the_same() -> None:
    async with scene() as one:
        one.web.show("page")
        first, second = [await one.scrape(max_age=HOUR) for _ in range(2)]

    assert first["metadata"]["creditsUsed"] == second["metadata"]["creditsUsed"] == 1


@pytest.mark.parametrize("options", [{"min_age": HOUR, "max_age": 3 * HOUR}, {"lockdown": True}])
async def test_a_scrape_that_allows_only_a_copy_fetches_nothing(options: dict[str, Any]) -> None:
    async with scene() as one:
        one.web.show("page")
        nothing = await failure_of(one.scrape(**options))
        await one.scrape()
        one.clock.advance(timedelta(hours=2))
        page = await one.scrape(**options)

        assert one.web.fetched == [HOME]
        assert page["markdown"] == "page"
        assert nothing.status == 404


async def test_a_copy_has_to_be_older_than_min_age() -> None:
    async with scene() as one:
        one.web.show("page")
        await one.scrape()
        one.clock.advance(timedelta(minutes=59))

        failure = await failure_of(one.scrape(min_age=HOUR, max_age=2 * HOUR))

    assert (failure.code, failure.status, failure.credits) == ("SCRAPE_NO_CACHED_DATA", 404, 0)


async def test_an_older_copy_is_taken_if_the_newest_is_too_young() -> None:
    async with scene() as one:
        one.web.show("old")
        await one.scrape()
        one.clock.advance(timedelta(hours=2))
        one.web.show("young")
        await one.scrape()
        page = await one.scrape(min_age=HOUR, max_age=3 * HOUR)

    assert page["markdown"] == "old"


async def test_a_lockdown_without_copy_costs_one_credit() -> None:
    async with scene() as one:
        failure = await failure_of(one.scrape(lockdown=True))

    assert (failure.code, failure.credits) == ("SCRAPE_LOCKDOWN_CACHE_MISS", 1)


async def test_lockdown_takes_copies_of_two_years() -> None:
    async with scene() as one:
        one.web.show("page")
        await one.scrape()
        one.clock.advance(timedelta(days=730))
        page = await one.scrape(lockdown=True)
        one.clock.advance(timedelta(seconds=1))
        failure = await failure_of(one.scrape(lockdown=True))

    assert page["metadata"]["creditsUsed"] == 5
    assert failure.code == "SCRAPE_LOCKDOWN_CACHE_MISS"


async def test_three_newer_errors_make_a_copy_worthless() -> None:
    """A page that answered with errors since then is fetched again."""
    async with scene() as one:
        one.web.show("page")
        await one.scrape()
        one.web.statuses[HOME] = 503
        for number in range(3):
            one.clock.advance(timedelta(seconds=1))
            taken = await one.scrape(max_age=HOUR)
            assert taken["metadata"]["cacheState"] == "hit", number
            await one.scrape(max_age=0)
        page = await one.scrape(max_age=HOUR)

    assert (page["metadata"]["cacheState"], page["metadata"]["statusCode"]) == ("miss", 503)


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({}, True),
        ({"store_in_cache": False}, False),
        ({"headers": {"Cookie": "a"}}, False),
        ({"actions": ({"type": "wait", "milliseconds": 1},)}, False),
        ({"zero_data_retention": True}, False),
        ({"parsers": ()}, False),
        ({"parsers": ({"type": "pdf", "maxPages": 2},)}, False),
        ({"mobile": True, "country": "DE"}, True),
    ],
)
def test_what_is_kept(options: dict[str, Any], kept: bool) -> None:
    assert is_kept(plan_of(**options)) is kept


@pytest.mark.parametrize(
    ("formats", "options", "looks"),
    [
        (("markdown",), {}, False),
        (("markdown",), {"max_age": 1}, True),
        (("markdown",), {"min_age": 0}, True),
        (("markdown",), {"lockdown": True}, True),
        (("markdown",), {"max_age": 1, "headers": {"Cookie": "a"}}, False),
        (("markdown", tracking()), {"max_age": 1}, False),
        (("markdown", tracking()), {"max_age": 1, "lockdown": True}, True),
    ],
)
def test_what_may_be_answered_from_the_cache(formats: Any, options: dict[str, Any], looks: bool) -> None:
    """A page is not compared with an older copy of itself, and own headers ask for an own page."""
    assert looks_up(plan_of(HOME, *formats, **options)) is looks


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"url": "HTTPS://Shop.Example:443"}, {"url": "https://shop.example/"}, True),
        ({"url": "https://shop.example/#top"}, {"url": "https://shop.example/"}, True),
        ({"url": "https://shop.example/#/app"}, {"url": "https://shop.example/"}, False),
        ({"url": "https://shop.example/a?b=1"}, {"url": "https://shop.example/a?b=2"}, False),
        ({"url": "https://shop.example:8443/"}, {"url": "https://shop.example/"}, False),
        ({"url": "http://shop.example/"}, {"url": "https://shop.example/"}, False),
        ({"mobile": True}, {}, False),
        ({"block_ads": False}, {}, False),
        ({"proxy": "stealth"}, {"proxy": "enhanced"}, True),
        ({"proxy": "stealth"}, {"proxy": "auto"}, False),
        ({"country": "DE"}, {}, False),
        ({"languages": ("de",)}, {}, False),
        ({"only_main_content": False, "timeout": 1_000}, {}, True),
        ({"url": "https://[broken/"}, {"url": "https://[broken/"}, True),
    ],
)
def test_what_a_copy_depends_on(one: dict[str, Any], other: dict[str, Any], same: bool) -> None:
    assert (key_of_page(plan_of(**one)) == key_of_page(plan_of(**other))) is same


def page_with(body: bytes, clock: VirtualClock, url: str = HOME) -> FetchedPage:
    return FetchedPage(
        source_url=url, url=url, status=200, content_type="text/html", body=body, fetched_at=clock.now()
    )


async def test_the_oldest_copies_make_room() -> None:
    """The cache has an upper bound for the bytes of all copies, and one for the copies of a page."""
    clock = VirtualClock()
    async with StateDatabase(None, [cache.SCHEMA]) as database:
        kept = PageCache(database, clock, max_bytes=100_000)
        for number in range(300):
            clock.advance(timedelta(seconds=1))
            url = f"{HOME}{number}"
            noise = bytes((number * 7 + at * at * 31 + at // 3) % 256 for at in range(2_000))
            copy = copy_of(plan_of(url), page_with(noise, clock, url))
            await database.run(partial(kept.insert, copy=copy))
        size = await database.run(lambda one: one.execute("SELECT sum(length(body)) FROM page_cache").fetchone()[0])

        assert 0 < size <= 100_000
        assert await kept.find(plan_of(f"{HOME}299", max_age=HOUR)) is not None
        assert await kept.find(plan_of(f"{HOME}0", max_age=HOUR)) is None


async def test_few_copies_of_a_page_are_kept() -> None:
    async with scene() as one:
        one.web.show("page")
        for _ in range(30):
            one.clock.advance(timedelta(seconds=1))
            await one.scrape()
        count = await one.database.run(lambda db: db.execute("SELECT count(*) FROM page_cache").fetchone()[0])

    assert count == cache.MAX_COPIES
