"""Maps: which URLs they list, in which order, and how they fail."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import pytest

from receiver.core.clock import VirtualClock
from receiver.emulator.api.calls import ApiCall
from receiver.emulator.api.map import MapOperations
from receiver.emulator.failures import CallRefused, ScrapeFailed
from receiver.emulator.fetching.fetcher import Fetcher
from receiver.emulator.fetching.scope import SiteLink, sorted_by_likeness
from receiver.emulator.ids import IdSource
from receiver.emulator.options import EmulatorOptions, SiteSource
from receiver.emulator.scrapes import ScrapedPage, ScrapePlan
from receiver.emulator.scraping import history
from receiver.emulator.scraping.history import KnownUrls, entry_of, insert_entry
from receiver.emulator.state.database import StateDatabase
from receiver.emulator.wire.bodies import RequestPolicy

SITE = "https://docs.acme.test"
Pages = dict[str, str | bytes]


class LinkScraper:
    """Scrapes a page whose content is a list of its links, after a first line with its title."""

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher
        self.plans: list[ScrapePlan] = []
        self.fails: ScrapeFailed | None = None
        self.hangs = False

    async def scrape(self, plan: ScrapePlan, *, history_team: str = "") -> ScrapedPage:
        self.plans.append(plan)
        if self.fails is not None:
            raise self.fails
        if self.hangs:
            await asyncio.Event().wait()
        page = await self._fetcher.fetch(plan)
        title, *links = page.body.decode().split()
        return ScrapedPage(
            scrape_id="1",
            source_url=plan.url,
            url=page.url,
            status=page.status,
            document={"metadata": {"title": title, "description": ["a", "b"]}},
            links=tuple(links),
            credits=5,
        )


class Purse:
    def __init__(self) -> None:
        self.charged: list[tuple[str, int]] = []

    async def remaining(self, team: str) -> int:
        return 10

    async def charge(self, team: str, amount: int) -> None:
        self.charged.append((team, amount))


class Mapping:
    """The operations over some sites."""

    def __init__(self, fetcher: Fetcher, database: StateDatabase) -> None:
        self.database = database
        self.purse = Purse()
        self.noted: list[tuple[str, str, str]] = []
        self.scraper = LinkScraper(fetcher)
        self.operations = MapOperations(
            fetcher=fetcher,
            scraper=self.scraper,
            account=self.purse,
            known=KnownUrls(database),
            ids=IdSource(VirtualClock(), 1),
            note=self.note,
            policy=RequestPolicy(threat_protection="on"),
        )

    async def note(self, team: str, job_id: str, endpoint: str) -> None:
        self.noted.append((team, job_id, endpoint))

    async def answer(self, version: Literal[1, 2] = 2, **body: Any) -> dict[str, Any]:
        answer = await self.operations.map(ApiCall(version=version, team="team-1", body={"url": SITE, **body}))
        assert answer.status == 200
        return answer.body

    async def urls(self, **body: Any) -> list[str]:
        return [link["url"] for link in (await self.answer(**body))["links"]]

    async def scraped_before(self, team: str, url: str) -> None:
        async with Fetcher(EmulatorOptions(sites={SITE: {"/": ""}}), VirtualClock()) as fetcher:
            page = await fetcher.fetch(ScrapePlan(url=SITE))
        entry = entry_of(team, ScrapePlan(url=url), "id", VirtualClock().now(), "", page)
        await self.database.run(lambda connection: insert_entry(connection, entry))


@asynccontextmanager
async def mapping(pages: Pages, **others: SiteSource) -> AsyncIterator[Mapping]:
    sites: dict[str, SiteSource] = {SITE: pages, **{f"https://{host}": one for host, one in others.items()}}
    async with (
        Fetcher(EmulatorOptions(sites=sites), VirtualClock()) as fetcher,
        StateDatabase(None, [history.SCHEMA]) as database,
    ):
        yield Mapping(fetcher, database)


def sitemap(*urls: str) -> str:
    return f"<urlset>{''.join(f'<url><loc>{url}</loc></url>' for url in urls)}</urlset>"


PAGES: Pages = {
    "/": f"Home {SITE}/linked {SITE}/both/ https://other.test/x mailto:a@b.test",
    "/sitemap.xml": sitemap(
        f"{SITE}/listed?utm=1", f"{SITE}/both", "https://acme.test/above", "https://evil.test/"
    ),
}


async def test_a_map_has_the_page_its_sitemap_and_its_links() -> None:
    async with mapping(PAGES) as maps:
        body = await maps.answer()

    assert body == {
        "success": True,
        "links": [
            {"url": SITE, "title": "Home"},
            {"url": f"{SITE}/listed"},
            {"url": f"{SITE}/both"},
            {"url": "https://acme.test/above"},
            {"url": f"{SITE}/linked"},
        ],
        "id": maps.noted[0][1],
    }
    assert maps.noted == [("team-1", body["id"], "map")]
    assert maps.purse.charged == [("team-1", 1)]


async def test_version_1_lists_texts() -> None:
    async with mapping(PAGES) as maps:
        body = await maps.answer(1, limit=2)

    assert body == {"success": True, "links": [SITE, f"{SITE}/listed"]}


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        ({"includeSubdomains": False}, ["", "/listed", "/both", "/linked"]),
        ({"includeSubdomains": False, "sitemap": "only"}, ["/listed", "/both"]),
        ({"includeSubdomains": False, "sitemap": "skip"}, ["", "/linked", "/both"]),
        ({"includeSubdomains": False, "ignoreQueryParameters": False}, ["", "/listed?utm=1", "/both", "/linked"]),
        ({"includeSubdomains": False, "limit": 1}, [""]),
        ({"includeSubdomains": False, "search": "linked"}, ["/linked", "", "/listed", "/both"]),
        ({"includeSubdomains": False, "search": "linked", "limit": 1}, ["/linked"]),
    ],
)
async def test_options_choose_the_urls(body: dict[str, Any], paths: list[str]) -> None:
    async with mapping(PAGES) as maps:
        assert await maps.urls(**body) == [f"{SITE}{path}" for path in paths]


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        ({"ignoreSitemap": True}, ["", "/linked", "/both"]),
        ({"sitemapOnly": True}, ["/listed", "/both"]),
        ({"useIndex": False, "origin": "python-sdk@4", "integration": "x"}, ["", "/listed", "/both", "/linked"]),
    ],
)
async def test_options_of_version_1(body: dict[str, Any], paths: list[str]) -> None:
    async with mapping(PAGES) as maps:
        answer = await maps.answer(1, includeSubdomains=False, **body)

    assert answer["links"] == [f"{SITE}{path}" for path in paths]


async def test_only_urls_below_the_path_count_unless_that_is_off() -> None:
    pages: Pages = {"/docs": f"Docs {SITE}/docs/a {SITE}/docsy {SITE}/blog", "/sitemap.xml": sitemap()}
    async with mapping(pages) as maps:
        assert await maps.urls(url=f"{SITE}/docs") == [f"{SITE}/docs", f"{SITE}/docs/a"]
        assert len(await maps.urls(url=f"{SITE}/docs", filterByPath=False)) == 4


async def test_pages_that_the_team_scraped_before_are_known() -> None:
    async with mapping({"/": "Home", "/sitemap.xml": sitemap()}) as maps:
        await maps.scraped_before("team-1", f"{SITE}/old")
        await maps.scraped_before("team-1", "https://other.test/?from=docs.acme.test")
        await maps.scraped_before("team-2", f"{SITE}/of-others")

        assert await maps.urls() == [SITE, f"{SITE}/old"]


async def test_a_map_goes_on_where_the_page_redirects_to() -> None:
    moved: dict[str, SiteSource] = {"new.test": {"/": "New https://new.test/a", "/sitemap.xml": sitemap()}}
    async with mapping({"/_redirects": "/ https://new.test/"}, **moved) as maps:
        assert await maps.urls() == ["https://new.test", "https://new.test/a"]


async def test_a_page_that_cannot_be_scraped_is_a_warning() -> None:
    async with mapping({}) as maps:
        body = await maps.answer(url="https://nowhere.invalid/")

    assert (body["success"], body["links"]) == (True, [])
    assert "nowhere.invalid" in body["warning"]
    assert "fewer than 2" in body["warning"]


async def test_a_missing_page_is_not_listed() -> None:
    async with mapping({"/404.html": "404", "/sitemap.xml": sitemap()}) as maps:
        assert (await maps.answer())["links"] == []


async def test_a_blocked_url_is_refused_and_its_check_is_paid() -> None:
    async with mapping(PAGES) as maps:
        maps.scraper.fails = ScrapeFailed("unsafe_domain_blocked", "blocked", credits=2)
        with pytest.raises(ScrapeFailed) as caught:
            await maps.answer()

    assert caught.value.status == 403
    assert maps.purse.charged == [("team-1", 2)]


async def test_a_map_that_takes_too_long_costs_nothing() -> None:
    async with mapping(PAGES) as maps:
        maps.scraper.hangs = True
        with pytest.raises(ScrapeFailed) as caught:
            await maps.answer(timeout=20)

    assert (caught.value.code, caught.value.status) == ("MAP_TIMEOUT", 408)
    assert maps.purse.charged == []


async def test_how_the_page_is_scraped() -> None:
    location = {"country": "de", "languages": ["de-AT"]}
    threats = {"mode": "normal"}
    async with mapping(PAGES) as maps:
        await maps.answer(headers={"X-A": "1"}, location=location, ignoreCache=True, threatProtection=threats)
        await maps.answer()

    first, second = maps.scraper.plans
    assert (dict(first.headers), first.country, first.languages) == ({"X-A": "1"}, "DE", ("de-AT",))
    assert (first.max_age, first.only_main_content, first.zero_data_retention) == (0, False, True)
    assert first.threat_protection == threats
    assert second.max_age > 0


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        ({"url": "file:///etc/passwd"}, ["url"]),
        ({"url": 5}, ["url"]),
        ({"limit": 0}, ["limit"]),
        ({"limit": 100_001}, ["limit"]),
        ({"limit": "5"}, ["limit"]),
        ({"timeout": 0}, ["timeout"]),
        ({"search": 1}, ["search"]),
        ({"includeSubdomains": "no"}, ["includeSubdomains"]),
        ({"location": {"country": "Germany"}}, ["location", "country"]),
        ({"headers": {"X A": "1"}}, ["headers"]),
        ({"unknown": 1}, []),
    ],
)
async def test_a_wrong_body_is_refused(version: Literal[1, 2], wrong: dict[str, Any], path: list[str]) -> None:
    async with mapping({}) as maps:
        with pytest.raises(CallRefused) as caught:
            await maps.answer(version, **wrong)

    assert (caught.value.status, caught.value.code) == (400, "BAD_REQUEST")
    assert caught.value.details is not None
    assert caught.value.details[0]["path"] == path


@pytest.mark.parametrize(
    ("version", "body"),
    [(1, {"sitemap": "only"}), (2, {"ignoreSitemap": True}), (1, {"ignoreSitemap": True, "sitemapOnly": True})],
)
async def test_each_version_has_its_own_words_for_the_sitemap(version: Literal[1, 2], body: dict[str, Any]) -> None:
    async with mapping({}) as maps:
        with pytest.raises(CallRefused):
            await maps.answer(version, **body)


def test_a_search_puts_what_resembles_its_words_first_and_drops_nothing() -> None:
    links = [
        SiteLink("https://a.test/other"),
        SiteLink("https://a.test/webhooks-guide"),
        SiteLink("https://a.test/x", title="All about webhook retries"),
        SiteLink("https://a.test/y", description="retries"),
    ]

    found = sorted_by_likeness(links, "Webhook, RETRIES!")

    assert [link.url for link in found] == [links[place].url for place in (2, 3, 1, 0)]


async def test_credentials_of_the_url_are_not_listed() -> None:
    async with mapping(PAGES) as maps:
        body = await maps.answer(url="https://user:s3cret@docs.acme.test/")

    assert "s3cret" not in str(body)
