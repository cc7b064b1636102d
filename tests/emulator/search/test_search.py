"""Searches over HTTP: what is found, in which order and form, what it costs, and what has no effect."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from firecrawl import V1FirecrawlApp

from receiver.requests import ScrapeOptions
from receiver.service.client import AsyncClient
from tests.doubles import soon
from tests.emulator.answering import CheckedService, checked_service
from tests.emulator.content.files import pdf
from tests.emulator.search.library import QUERIES, library
from tests.emulator.shop import SHOP, shop

SITE = "https://news.test"
ARTICLE = (
    "<html><head><title>{title}</title><meta property='og:type' content='article'>"
    "<meta property='article:published_time' content='{date}'><meta property='og:image' content='/{title}.jpg'>"
    "</head><body><article><h1>{title}</h1><p>{text}</p></article></body></html>"
)
Json = dict[str, Any]


def news() -> dict[str, str | bytes]:
    """Return a site with articles, images, a PDF and a page in Japanese."""
    return {
        "/": "<title>News</title><main><h1>News</h1><a href='/fire'>Fire</a></main>",
        "/fire": ARTICLE.format(title="Fire", date="2025-12-30T08:00:00Z", text="The harbour burned all night."),
        "/flood": ARTICLE.format(title="Flood", date="2024-02-01", text="The harbour was under water."),
        "/harbour": "<title>The harbour</title><main><h1>The harbour</h1>"
        "<p>Ships, cranes and cats: what there is to see.</p>"
        "<figure><img src='/big.jpg' width='1920' height='1080'><figcaption>Harbour at dawn</figcaption></figure>"
        "<img src='/small.png' alt='Harbour map' width='300px' height='200'><img src='/count.gif' width=1 height=1>"
        "<img src='data:image/png;base64,AAAA' alt='harbour'></main>",
        "/plan.pdf": pdf("The plan of the harbour", title="Harbour plan"),
        "/tokyo": "<title>東京の港</title><main><h1>東京の港</h1><p>港には船が多い。</p></main>",
        "/secret": "<title>Harbour secrets</title><main>Hidden from robots.</main>",
        "/robots.txt": "User-agent: *\nDisallow: /secret",
    }


async def search(service: CheckedService, query: str, version: str = "v2", **options: Any) -> Json:
    """Return the answer to a search of all given sites: it asks again when they have been read."""
    body = {"query": query, **options}
    answer: Json = await service.ask("POST", f"/{version}/search", body)
    if "still being read" in answer.get("warning", ""):
        await soon(service.emulator.settled())
        answer = await service.ask("POST", f"/{version}/search", body)
    return answer


def paths(hits: list[Json]) -> list[str]:
    """Return the paths of hits."""
    return [httpx.URL(hit["url"]).path for hit in hits]


def given(pages: dict[str, str | bytes] | None = None) -> dict[str, Any]:
    """Return the options of an emulator that has the news site."""
    return {"sites": {SITE: news() if pages is None else pages}}


async def found(query: str, **options: Any) -> list[str]:
    """Return the paths of the pages of the news site that a search finds."""
    async with checked_service(**given()) as service:
        return paths((await search(service, query, **options))["data"]["web"])


async def test_the_right_page_is_among_the_first_three() -> None:
    """A made site of 40 pages: 95 of 100 queries at least."""
    async with checked_service(sites={"https://lib.test": library()}) as service:
        right = 0
        for query, path in QUERIES:
            right += path in paths((await search(service, query, limit=3))["data"]["web"])

    assert len(QUERIES) == 100
    assert right >= 95


async def test_given_sites_are_found_without_being_scraped() -> None:
    """What robots.txt forbids is not. The pages have their title, a passage and their place."""
    async with checked_service(**given()) as service:
        answer = await search(service, "What is there to see in the harbour?")
        asked_for = await search(service, "harbour secrets hidden")

    hits = answer["data"]["web"]
    assert hits[0] == {
        "url": f"{SITE}/harbour",
        "title": "The harbour",
        "description": "Ships, cranes and cats: what there is to see.",
        "position": 1,
    }
    assert {"/harbour", "/fire", "/flood", "/plan.pdf"} == set(paths(hits))
    assert [hit["position"] for hit in hits] == [1, 2, 3, 4]
    assert answer.keys() == {"success", "data", "creditsUsed", "id"}
    assert "/secret" not in paths(asked_for["data"]["web"])


async def test_sources_have_lists_of_their_own() -> None:
    """News have a date and a picture, images a size as far as the page says it; other sources are missing."""
    async with checked_service(**given()) as service:
        sources = ["web", {"type": "news"}, "images"]
        answer = await search(service, "harbour", sources=sources, tbs="sbd:1")
        only = await search(service, "harbour", sources=["images"], limit=1)

    assert answer["data"]["news"] == [
        {
            "title": title,
            "url": f"{SITE}/{title.lower()}",
            "snippet": text,
            "date": date,
            "imageUrl": f"{SITE}/{title}.jpg",
            "position": place,
        }
        for place, (title, text, date) in enumerate(
            [
                ("Fire", "The harbour burned all night.", "2025-12-30T08:00:00+00:00"),
                ("Flood", "The harbour was under water.", "2024-02-01T00:00:00+00:00"),
            ],
            1,
        )
    ]
    images = {hit["title"]: hit for hit in answer["data"]["images"]}
    assert images.keys() == {"Harbour map", "Harbour at dawn"}
    assert (images["Harbour map"]["imageWidth"], images["Harbour map"]["imageHeight"]) == (300, 200)
    assert images["Harbour at dawn"]["imageUrl"] == f"{SITE}/big.jpg"
    assert images["Harbour at dawn"]["url"] == f"{SITE}/harbour"
    assert only["data"].keys() == {"images"}
    assert len(only["data"]["images"]) == 1


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ('"harbour burned"', {"/fire"}),
        ('"burned harbour"', set()),
        ('"harbour burn"', set()),
        ("harbour -burned -water -site:other.test -filetype:pdf", {"/harbour"}),
        ("intitle:flood", {"/flood"}),
        ("harbour intitle:fire", {"/fire"}),
        ("allintitle:the harbour", {"/harbour"}),
        ("inurl:plan", {"/plan.pdf"}),
        ("allinurl: news test flood", {"/flood"}),
        ("harbour filetype:pdf", {"/plan.pdf"}),
        ("harbour ext:pdf", {"/plan.pdf"}),
        ("site:news.test/fire", {"/fire"}),
        ("site:https://www.news.test/fire harbour", {"/fire"}),
        ("harbour -site:news.test/fire -site:news.test/flood -ext:pdf", {"/harbour"}),
        ("site:*.test intitle:flood", {"/flood"}),
        ("harbour site:elsewhere.test", set()),
        ("-site:test", set()),
        ("-harbour -intitle:news", {"/tokyo"}),
        ("intitle:fire OR intitle:flood", {"/fire", "/flood"}),
        ("burned OR cranes -intitle:fire", {"/harbour"}),
        ("東京", {"/tokyo"}),
        ("船が", {"/tokyo"}),
        ("東船", set()),
        ("the", {"/fire", "/flood", "/harbour", "/plan.pdf"}),
    ],
)
async def test_operators_narrow_a_search(query: str, expected: set[str]) -> None:
    """Those that the service documents."""
    assert set(await found(query)) == expected


@pytest.mark.parametrize(
    "query", ["HARBOURS crane", "hárboür cranes cats", "what are harbours like at dawn with cats?"]
)
async def test_words_that_a_page_lacks_do_not_hide_it(query: str) -> None:
    """Forms, accents and case do not matter; pages with all words come before those with some."""
    assert (await found(query))[0] == "/harbour"


async def test_a_search_for_a_site_lists_its_pages() -> None:
    """The start page first. Operators that cannot work here are told."""
    async with checked_service(**given()) as service:
        answer = await search(service, "site:news.test related:other.test", tbs="li:1")

    assert paths(answer["data"]["web"])[0] == "/"
    assert len(answer["data"]["web"]) == 6
    assert "related:" in answer["warning"]
    assert "li:1" in answer["warning"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("harbour imagesize:300x200", ["/small.png"]),
        ("harbour larger:1000x1000", ["/big.jpg"]),
        ("harbour larger:3000x100", []),
        ("nothing-of-this", []),
    ],
)
async def test_images_are_found_by_their_size(query: str, expected: list[str]) -> None:
    async with checked_service(**given()) as service:
        images = (await search(service, query, sources=["images"]))["data"]["images"]

    assert [httpx.URL(one["imageUrl"]).path for one in images] == expected


@pytest.mark.parametrize(
    ("tbs", "expected"),
    [
        ("qdr:w", {"/fire", "/harbour", "/plan.pdf"}),
        ("qdr:h", {"/harbour", "/plan.pdf"}),
        ("qdr:y3", {"/fire", "/flood", "/harbour", "/plan.pdf"}),
        ("cdr:1,cd_min:1/1/2024,cd_max:12/31/2024", {"/flood"}),
        ("cdr:1,cd_max:2/1/2024", {"/flood"}),
        ("cdr:1,cd_min:99/99/2024", {"/fire", "/flood", "/harbour", "/plan.pdf"}),
    ],
)
async def test_a_period_narrows_a_search(tbs: str, expected: set[str]) -> None:
    """By what a page says of its date, or else by when it was read, on the emulator's clock."""
    assert set(await found("harbour", tbs=tbs)) == expected


async def test_domains_and_categories_narrow_a_search() -> None:
    """A hit says which of the categories it belongs to."""
    sites = {
        "https://github.com": {"/acme/lamp": "<title>acme/lamp</title><main>A lamp driver</main>"},
        "https://arxiv.org": {"/abs/1": "<title>On lamps</title><main>A lamp theory</main>"},
        "https://docs.acme.co.uk": {"/": "<title>Lamp docs</title><main>A lamp</main>", "/a.pdf": pdf("lamp")},
    }
    async with checked_service(sites=sites) as service:
        cases: list[tuple[Json, set[str]]] = [
            ({"includeDomains": ["acme.co.uk"]}, {"docs.acme.co.uk"}),
            ({"includeDomains": ["github.com", "arxiv.org"]}, {"github.com", "arxiv.org"}),
            ({"excludeDomains": ["acme.co.uk", "github.com"]}, {"arxiv.org"}),
        ]
        for options, expected in cases:
            hits = (await search(service, "lamp", **options))["data"]["web"]
            assert {httpx.URL(hit["url"]).host for hit in hits} == expected
        wanted = ["github", {"type": "research"}, "pdf"]
        hits = (await search(service, "lamp", categories=wanted))["data"]["web"]
        assert {(httpx.URL(hit["url"]).path, hit["category"]) for hit in hits} == {
            ("/acme/lamp", "github"),
            ("/abs/1", "research"),
            ("/a.pdf", "pdf"),
        }
        both = {"includeDomains": ["a.test"], "excludeDomains": ["b.test"]}
        await service.ask("POST", "/v2/search", {"query": "x", **both}, status=400)


async def test_hits_can_be_scraped_too() -> None:
    """Each keeps its title and its passage. A hit that cannot be scraped says why, and the others come."""
    pages = news()
    async with checked_service(**given(pages)) as service:
        await search(service, "harbour")
        pages["/_redirects"] = "/flood /flood 302!\n"
        answer = await search(
            service, "harbour", limit=4, scrapeOptions={"formats": ["markdown", "links"], "onlyMainContent": True}
        )
        hits = {httpx.URL(hit["url"]).path: hit for hit in answer["data"]["web"]}
        assert hits["/fire"]["markdown"] == "# Fire\n\nThe harbour burned all night."
        assert hits["/fire"]["metadata"]["statusCode"] == 200
        assert hits["/fire"]["description"] == "The harbour burned all night."
        assert "markdown" not in hits["/flood"]
        assert "ERR_TOO_MANY_REDIRECTS" in hits["/flood"]["metadata"]["error"]
        assert "1 of the hits" in answer["warning"]
        assert answer["creditsUsed"] == 2 + 3
        kept = await service.ask("GET", f"/v2/scrape/{hits['/fire']['metadata']['scrapeId']}")
        assert kept["data"]["markdown"] == hits["/fire"]["markdown"]
        unscraped = await search(service, "harbour", scrapeOptions={"formats": []})
        assert "metadata" not in unscraped["data"]["web"][0]


async def test_version_1_answers_with_a_flat_list() -> None:
    """It scrapes hits only if formats are asked for."""
    async with checked_service(**given()) as service:
        plain = await search(service, "harbour burned", "v1", limit=1, lang="en", country="us")
        scraped = await search(service, "fire", "v1", limit=1, scrapeOptions={"formats": ["markdown"]})
        ignored = await search(
            service, "fire", "v1", lang="de", country="fr", location="Paris", filter="x", scrapeOptions={}
        )

    assert plain["data"] == [
        {"url": f"{SITE}/fire", "title": "Fire", "description": "The harbour burned all night."}
    ]
    assert "warning" not in plain
    assert scraped["data"][0]["markdown"].startswith("# Fire")
    assert all(name in ignored["warning"] for name in ("lang", "country", "location", "filter"))
    assert "metadata" not in ignored["data"][0]


async def test_a_search_costs_two_credits_for_ten_hits() -> None:
    """No hits cost nothing. A search that asks for more than one account has is refused before it begins."""
    pages: dict[str, str | bytes] = {f"/{n}": f"<title>Lamp {n}</title><main>A lamp</main>" for n in range(25)}
    async with checked_service(sites={SITE: pages}, credits=11) as service:
        for limit, cost in ((10, 2), (11, 4), (100, 5)):
            answer = await search(service, "lamp", limit=limit)
            assert answer["creditsUsed"] >= cost
        await service.ask("POST", "/v2/search", {"query": "lamp"}, status=402)
    async with checked_service(sites={SITE: pages}) as service:
        assert (await search(service, "unheard-of"))["creditsUsed"] == 0
        assert len((await search(service, "lamp", limit=100))["data"]["web"]) == 25


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"query": ""},
        {"query": "  "},
        {"query": 5},
        {"query": "x", "limit": 0},
        {"query": "x", "limit": 101},
        {"query": "x", "sources": ["videos"]},
        {"query": "x", "categories": ["cats"]},
        {"query": "x", "categories": ["gov", "research"]},
        {"query": "x", "timeout": 0},
        {"query": "x", "unknown": 1},
        {"query": "x", "scrapeOptions": {"formats": ["changeTracking"]}},
        {"query": "x", "scrapeOptions": {"formats": ["nothing"]}},
        {"query": "x", "includeDomains": ["https://a.test/x"]},
    ],
)
async def test_wrong_searches_are_refused(body: Json) -> None:
    async with checked_service() as service:
        answer = await service.ask("POST", "/v2/search", body, status=400)
        assert answer["code"] == "BAD_REQUEST"


async def test_scraped_pages_come_in_by_themselves() -> None:
    """Those that may be cached. A page that changes is found by its new text; one that is gone is not found."""
    pages: dict[str, str | bytes] = {
        "/a?x=1": "<title>Alpha</title><main>first text</main>",
        "/b?x=1": "<title>Beta</title><main>other text</main>",
        "/c?x=1": "<title>Gamma</title><main><p class='x'>shown</p><p>gamma text</p></main>",
    }

    async def scrape(path: str, **options: Any) -> None:
        await service.ask(
            "POST", "/v2/scrape", {"url": f"{SITE}{path}", "maxAge": 0, **options}, schema={"type": "object"}
        )

    async def titles(query: str) -> list[str]:
        return [hit["title"] for hit in (await search(service, query))["data"]["web"]]

    async with checked_service(sites={SITE: pages}) as service:
        assert await titles("text") == []
        await scrape("/a?x=1", formats=["links"])
        await scrape("/b?x=1", headers={"Cookie": "a=b"})
        await scrape("/b?x=1", storeInCache=False)
        await scrape("/b?x=1", zeroDataRetention=True)
        await scrape("/c?x=1", includeTags=[".x"])
        assert await titles("alpha") == ["Alpha"]
        assert await titles("beta") == []
        assert await titles("gamma text") == ["Gamma", "Alpha"]
        pages["/a?x=1"] = "<title>Alpha</title><main>newer words</main>"
        await scrape("/a?x=1")
        assert await titles("newer") == ["Alpha"]
        assert await titles('"first text"') == []
        del pages["/a?x=1"]
        await scrape("/a?x=1")
        assert await titles("newer") == []


async def test_given_sites_are_read_again_after_a_while() -> None:
    """The search that begins it does not wait. Pages that are gone leave the index."""
    pages = news()
    async with checked_service(**given(pages)) as service:
        assert paths((await search(service, "intitle:flood"))["data"]["web"]) == ["/flood"]
        del pages["/flood"]
        pages["/storm"] = ARTICLE.format(title="Storm", date="2025-12-31", text="The wind took the roofs.")
        await search(service, "storm")
        await service.clock.advance(minutes=11)
        await search(service, "storm")
        await soon(service.emulator.settled())
        assert paths((await search(service, "intitle:storm"))["data"]["web"]) == ["/storm"]
        assert (await search(service, "intitle:flood"))["data"]["web"] == []


async def test_the_index_survives_a_restart_and_a_reset_empties_it(tmp_path: Path) -> None:
    state = tmp_path / "state.db"
    pages: dict[str, str | bytes] = {"/a?x=1": "<title>Alpha</title><main>text</main>"}
    async with checked_service(sites={SITE: pages}, state=state) as service:
        await service.ask("POST", "/v2/scrape", {"url": f"{SITE}/a?x=1"})
    async with checked_service(sites={SITE: pages}, state=state) as service:
        assert len((await search(service, "alpha"))["data"]["web"]) == 1
        await service.emulator.settled()
        reset = await service.http.post("http://127.0.0.1/_emulator/reset")
        assert reset.status_code == 200
        assert (await search(service, "alpha"))["data"]["web"] == []
        await service.ask("POST", "/v2/scrape", {"url": f"{SITE}/a?x=1"})
        assert len((await search(service, "alpha"))["data"]["web"]) == 1


async def test_hits_that_are_blocked_are_left_out() -> None:
    """The check of each address costs two credits."""
    async with checked_service(**given(), threat_protection="on") as service:
        policy = {"mode": "normal", "blacklist": ["news.test"], "failurePolicy": "open"}
        answer = await search(service, "harbour", threatProtection=policy)
        allowed = await search(service, "harbour", threatProtection={"mode": "off"})

    assert answer["data"]["web"] == []
    assert "Threat protection left out 4" in answer["warning"]
    assert (allowed["creditsUsed"], len(allowed["data"]["web"])) == (2, 4)


async def test_a_search_that_takes_too_long_ends() -> None:
    """The given sites go on being read, and a later search has them."""
    async with checked_service(**given()) as service:
        answer = await service.ask("POST", "/v2/search", {"query": "x", "timeout": 1}, status=408)
        assert answer["code"] == "SEARCH_TIMEOUT"
        await soon(service.emulator.settled())
        assert (await search(service, "harbour"))["data"]["web"]


@pytest.mark.filterwarnings("ignore:The `.*` method is deprecated")
async def test_our_client_and_the_sdk_search() -> None:
    """Version 1 and 2; a scraped hit is a document."""
    async with checked_service(**given()) as service:
        await search(service, "harbour")  # the sites have been read
        transport = httpx.ASGITransport(service.emulator)
        async with AsyncClient("fc-test", "http://emulator.test", transport=transport) as client:
            answer = await client.search(
                "harbour burned",
                limit=2,
                sources=["web", "news"],
                scrape_options=ScrapeOptions(formats=["markdown"]),
            )
    first = answer.data.web[0]
    assert (first.url, first.position) == (f"{SITE}/fire", 1)
    assert first.document is not None
    assert (first.document.markdown or "").startswith("# Fire")
    assert answer.data.news[0].date == "2025-12-30T08:00:00+00:00"
    async with shop() as one:
        await one.call("search", "city bike")
        await soon(one.emulator.settled())  # the site has been read
        hits = await one.call("search", "city bike", sources=["web", "images"], limit=2)
        documents = await one.call("search", "bikes", scrape_options={"formats": ["markdown"]})
        app = V1FirecrawlApp(api_key="fc-any", api_url=one.address)
        old = await soon(asyncio.to_thread(app.search, "city bike", limit=3))
    assert (hits.web[0].url, hits.web[0].title, hits.news) == (f"{SHOP}/", "Bikes", None)
    assert any((one.markdown or "").startswith("# City bike") for one in documents.web)
    assert old.data[0]["url"] == f"{SHOP}/"


async def test_many_searches_at_one_time_are_answered() -> None:
    """They share the first reading of the sites."""
    async with checked_service(**given()) as service:
        answers = await asyncio.gather(*(search(service, "harbour") for _ in range(20)))
        await service.emulator.advance(timedelta(hours=1))

    assert len({str(answer["data"]) for answer in answers}) == 1
