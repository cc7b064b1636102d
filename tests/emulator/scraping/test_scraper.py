"""Scrapes from plan to document: formats, metadata, warnings, limits and failures."""

import asyncio
import json
from typing import Any

import httpx
import pytest

from receiver.emulator.content.page import PageContent
from receiver.emulator.failures import ScrapeFailed, TooManyAtOnce
from receiver.emulator.scrapes import FetchedPage, Json, ScrapePlan
from tests.doubles import event_of, turns
from tests.emulator.pages import HOME, failure_of, model_that, page_of, plan_of, said, scene

SCHEMA = {"type": "object", "properties": {"title": {"type": "string"}, "price": {"type": "number"}}}
SHOP = page_of(
    "<h1>Shop</h1><p>Price: 5 €</p><p>We sell bikes of all kinds.</p><a href='/a'>A</a>", "<title>Shop</title>"
)


@pytest.mark.parametrize(
    ("formats", "keys"),
    [
        (("markdown",), {"markdown"}),
        (("html", "rawHtml", "rawBase64"), {"html", "rawHtml", "rawBase64"}),
        (("links", "images"), {"links", "images"}),
        (("summary",), {"summary"}),
        (({"type": "json", "schema": SCHEMA},), {"json"}),
        (({"type": "deterministicJson", "schema": SCHEMA},), {"json"}),
        (({"type": "question", "question": "What is the price?"},), {"answer"}),
        (({"type": "highlights", "query": "bikes"},), {"highlights"}),
        (({"type": "query", "prompt": "bikes"},), {"answer"}),
        (({"type": "query", "prompt": "bikes", "mode": "directQuote"},), {"highlights"}),
        (({"type": "attributes", "selectors": [{"selector": "a", "attribute": "href"}]},), {"attributes"}),
        (("markdown", {"type": "changeTracking", "modes": []}), {"markdown", "changeTracking"}),
    ],
)
async def test_a_document_has_the_formats_that_were_asked_for_and_no_others(formats: Any, keys: set[str]) -> None:
    async with scene() as one:
        one.web.pages[HOME] = SHOP
        page = await one.scrape(HOME, *formats)

    assert page.keys() - {"metadata", "warning"} == keys
    assert all(page[key] is not None for key in keys)


@pytest.mark.parametrize(
    ("format_", "keys"),
    [
        ({"type": "json", "schema": SCHEMA}, {"json", "llm_extraction"}),
        ({"type": "extract", "schema": SCHEMA}, {"extract", "llm_extraction"}),
    ],
)
async def test_version_1_has_the_older_name_of_extracted_data_too(format_: Json, keys: set[str]) -> None:
    async with scene() as one:
        one.web.pages[HOME] = SHOP
        page = await one.scrape(HOME, format_, version=1)

    found = {"title": "Shop", "price": 5}
    assert {key: page[key] for key in page.keys() - {"metadata"}} == dict.fromkeys(sorted(keys), found)


async def test_the_pages_tags_never_replace_what_the_scrape_knows() -> None:
    head = "".join(
        f'<meta name="{name}" content="forged">'
        for name in ("statusCode", "url", "sourceURL", "scrapeId", "creditsUsed", "numPages", "cacheState", "error")
    )
    async with scene() as one:
        one.web.pages[HOME] = page_of("text", f'{head}<meta name="theme-color" content="#fff">')
        one.web.moved[HOME] = "https://shop.example/home"
        page = await one.scrape()

    metadata = page["metadata"]
    assert "forged" not in json.dumps(page)
    assert metadata["theme-color"] == "#fff"
    assert metadata | {"scrapeId": ""} == {
        "theme-color": "#fff",
        "scrapeId": "",
        "sourceURL": HOME,
        "url": "https://shop.example/home",
        "statusCode": 200,
        "contentType": "text/html; charset=utf-8",
        "proxyUsed": "basic",
        "creditsUsed": 1,
    }


@pytest.mark.parametrize(
    ("status", "error"), [(200, None), (404, "Not Found"), (503, "Service Unavailable"), (599, "HTTP status 599")]
)
async def test_a_page_that_answers_with_an_error_is_scraped_too(status: int, error: str | None) -> None:
    async with scene() as one:
        one.web.show("text")
        one.web.statuses[HOME] = status
        page = await one.scrape()

    assert (page["markdown"], page["metadata"]["statusCode"], page["metadata"].get("error")) == (
        "text",
        status,
        error,
    )


@pytest.mark.parametrize(
    ("proxy", "used"), [("basic", "basic"), ("auto", "basic"), ("stealth", "stealth"), ("enhanced", "stealth")]
)
async def test_the_proxy_has_one_of_two_names(proxy: str, used: str) -> None:
    async with scene() as one:
        one.web.show("text")
        page = await one.scrape(proxy=proxy)

    assert page["metadata"]["proxyUsed"] == used


@pytest.mark.parametrize(
    ("formats", "options", "words"),
    [
        (("screenshot",), {}, "screenshot needs a browser"),
        (("branding",), {}, "cannot make the format branding"),
        (("markdown",), {"without_effect": ("mobile", "waitFor")}, "mobile, waitFor had no effect"),
        (("markdown",), {"only_clean_content": True}, "onlyCleanContent"),
        (({"type": "json", "schema": {"properties": {"isbn": {}}}},), {}, "no value for"),
    ],
)
async def test_what_cannot_be_done_is_a_warning(formats: Any, options: Json, words: str) -> None:
    async with scene() as one:
        one.web.show("text")
        page = await one.scraper.scrape(plan_of(HOME, *formats, **options))

    assert page.warning is not None
    assert words in page.warning
    assert page.document["warning"] == page.warning


async def test_actions_need_a_browser() -> None:
    async with scene() as one:
        failure = await failure_of(one.scrape(actions=({"type": "wait", "milliseconds": 1},)))

        assert (failure.code, failure.status) == ("SCRAPE_ACTIONS_NOT_SUPPORTED", 400)
        assert one.web.fetched == []


async def test_links_are_there_for_crawls_whatever_was_asked_for() -> None:
    async with scene() as one:
        one.web.pages[HOME] = SHOP
        page = await one.scraper.scrape(plan_of(HOME, "rawHtml"))

    assert page.links == ("https://shop.example/a",)


@pytest.mark.parametrize(
    ("content_type", "body", "markdown", "data"),
    [
        (
            "application/json",
            '{"title": "T", "price": 5}',
            '```json\n{"title": "T", "price": 5}\n```',
            {"title": "T", "price": 5},
        ),
        ("text/plain", "Title: T\nPrice: £5.50", "Title: T\nPrice: £5.50", {"title": "T", "price": 5.5}),
    ],
)
async def test_data_are_extracted_from_other_pages_than_html(
    content_type: str, body: str, markdown: str, data: Json
) -> None:
    async with scene() as one:
        one.web.pages[HOME] = body
        one.web.types[HOME] = content_type
        page = await one.scrape(HOME, "markdown", {"type": "json", "schema": SCHEMA})

    assert (page["markdown"], page["json"]) == (markdown, data)


async def test_personal_data_are_redacted_in_all_texts() -> None:
    async with scene() as one:
        one.web.pages[HOME] = page_of(
            "<p>Mail ann@example.com for more of it.</p>", "<title>ann@example.com</title>"
        )
        page = await one.scrape(HOME, "markdown", "html", "summary", redact_pii=True)

    assert page["markdown"] == "Mail <EMAIL> for more of it."
    assert page["summary"] == "Mail <EMAIL> for more of it."
    assert "ann@" not in page["html"]
    assert page["metadata"]["creditsUsed"] == 5


async def test_the_timeout_ends_a_scrape() -> None:
    """It is real time, and the page that never comes is given up."""
    async with scene() as one:
        one.web.gate = asyncio.Event()
        failure = await failure_of(one.scrape(timeout=1))

    assert (failure.code, failure.status) == ("SCRAPE_TIMEOUT", 408)


async def test_a_limited_number_of_pages_is_scraped_at_one_time() -> None:
    """A scrape that waited says for how long."""
    async with scene(max_concurrency=2) as one:
        one.web.show("text")
        one.web.gate = asyncio.Event()
        tasks = [asyncio.create_task(one.scrape()) for _ in range(3)]
        await turns()
        begun = len(one.web.fetched)
        one.web.gate.set()
        pages = await asyncio.gather(*tasks)

    assert begun == 2
    waits = [page["metadata"].get("concurrencyQueueDurationMs") for page in pages]
    assert waits[:2] == [None, None]
    assert isinstance(waits[2], int)
    assert pages[2]["metadata"]["concurrencyLimited"] is True
    assert "waited for a free place" in pages[2]["warning"]


async def test_a_scrape_does_not_wait_for_a_place_without_end() -> None:
    async with scene(max_concurrency=1) as one:
        one.web.show("text")
        one.web.gate = asyncio.Event()
        first = asyncio.create_task(one.scrape())
        await turns()
        failure = await failure_of(one.scrape(timeout=3))
        one.web.gate.set()
        await first
        again = await one.scrape()

    assert failure.code == "SCRAPE_TIMEOUT"
    assert again["markdown"] == "text"


async def test_a_plan_refuses_what_finds_no_place() -> None:
    """The answer is 429 and says when to come again. Another team has places of its own."""
    async with scene(max_concurrency=1, refuses=True) as one:
        one.web.show("text")
        one.web.gate = asyncio.Event()
        first = asyncio.create_task(one.scrape())
        await turns()
        failure = await failure_of(one.scrape(timeout=3))
        other = asyncio.create_task(one.scraper.scrape(plan_of(), history_team="another"))
        await turns()
        begun = len(one.web.fetched)
        one.web.gate.set()
        await asyncio.gather(first, other)

    assert isinstance(failure, TooManyAtOnce)
    assert (failure.status, failure.refusal().headers) == (429, {"Retry-After": "5"})
    assert begun == 2


async def test_a_crash_is_an_error_of_that_page(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody foresaw it: it is logged in full, and the caller gets an id."""

    async def broken(page: FetchedPage, plan: ScrapePlan) -> PageContent:
        raise RecursionError("too deep")

    async with scene(read=broken) as one:
        one.web.show("text")
        failure = await failure_of(one.scrape())

    assert (failure.code, failure.status) == ("UNKNOWN_ERROR", 500)
    assert [event_of(record) for record in caplog.records] == ["scrape_crashed"]
    assert caplog.records[0].__dict__["scrape"] in str(failure)


async def test_a_page_that_cannot_be_fetched_fails_with_its_code_and_costs_nothing() -> None:
    async with scene() as one:
        one.web.failures[HOME] = ScrapeFailed("SCRAPE_DNS_RESOLUTION_ERROR", "no such host")
        failure = await failure_of(one.scrape())

    assert (failure.code, failure.status, failure.credits) == ("SCRAPE_DNS_RESOLUTION_ERROR", 200, 0)


class Guarded:
    """Checks every address, and blocks some of them."""

    def __init__(self, *blocked: str) -> None:
        self.blocked = blocked
        self.checked: list[tuple[str, Json | None]] = []

    async def check(self, url: str, override: Json | None) -> int:
        self.checked.append((url, override))
        if url in self.blocked:
            raise ScrapeFailed("unsafe_domain_blocked", "blocked", credits=2)
        return 2


async def test_every_address_on_the_way_is_checked_and_paid_for() -> None:
    guard = Guarded()
    policy = {"mode": "normal"}
    async with scene(guard=guard) as one:
        one.web.show("text")
        one.web.moved[HOME] = "https://other.example/"
        page = await one.scrape(threat_protection=policy)

    assert guard.checked == [(HOME, policy), ("https://other.example/", policy)]
    assert page["metadata"]["creditsUsed"] == 5


@pytest.mark.parametrize(("blocked", "cost", "fetched"), [(HOME, 2, []), ("https://other.example/", 4, [HOME])])
async def test_a_blocked_address_is_not_scraped_and_its_checks_are_paid(
    blocked: str, cost: int, fetched: list[str]
) -> None:
    async with scene(guard=Guarded(blocked)) as one:
        one.web.show("text")
        one.web.moved[HOME] = "https://other.example/"
        failure = await failure_of(one.scrape())

        assert (failure.code, failure.status, failure.credits) == ("unsafe_domain_blocked", 403, cost)
        assert one.web.fetched == fetched


async def test_checks_before_a_failure_are_paid() -> None:
    async with scene(guard=Guarded()) as one:
        one.web.failures[HOME] = ScrapeFailed("SCRAPE_SITE_ERROR", "refused")
        failure = await failure_of(one.scrape())

    assert failure.credits == 2


async def test_a_deterministic_program_is_cheaper_when_it_is_used_again() -> None:
    """The same wish for another page of the same site uses it again."""
    format_ = {"type": "deterministicJson", "schema": SCHEMA}
    other = {"type": "deterministicJson", "prompt": "other"}
    async with scene() as one:
        found = [
            (await one.scrape(url, asked))["metadata"]["creditsUsed"]
            for url, asked in (
                (HOME, format_),
                (f"{HOME}b", format_),
                (HOME, other),
                ("https://b.example/", format_),
            )
        ]

    assert found == [10, 3, 10, 10]


async def test_a_model_writes_summaries_and_data() -> None:
    asked: list[Json] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(json.loads(request.content))
        is_data = "response_format" in asked[-1]
        return said('{"title": "By model", "price": 1}' if is_data else "A summary by a model.")

    async with scene(model=model_that(answer)) as one:
        one.web.pages[HOME] = SHOP
        page = await one.scrape(HOME, "summary", {"type": "json", "schema": SCHEMA})

    assert page["summary"] == "A summary by a model."
    assert page["json"] == {"title": "By model", "price": 1}
    assert "warning" not in page
    assert all("We sell bikes" in one["messages"][1]["content"] for one in asked)


async def test_a_model_that_fails_is_a_warning_and_rules_take_its_place() -> None:
    async with scene(model=model_that(lambda request: httpx.Response(500))) as one:
        one.web.pages[HOME] = SHOP
        page = await one.scrape(HOME, "summary", {"type": "json", "schema": SCHEMA})

    assert "We sell bikes" in page["summary"]
    assert page["json"] == {"title": "Shop", "price": 5}
    assert page["warning"].count("answered 500") == 2


async def test_the_same_page_gives_the_same_document() -> None:
    """Everything but the scrape's id is the same again."""

    async def document() -> Json:
        async with scene() as one:
            one.web.pages[HOME] = SHOP
            page = await one.scrape(HOME, "markdown", "summary", {"type": "json", "prompt": "title and price"})
            return page | {"metadata": page["metadata"] | {"scrapeId": ""}}

    assert await document() == await document()


async def test_metadata_stand_in_the_order_of_the_service() -> None:
    """As in the webhooks that the service has sent: somebody may compare bytes."""
    async with scene() as one:
        one.web.show("<title>A</title>text")
        page = await one.scrape(max_age=1000)

    own = ["url", "sourceURL", "scrapeId", "statusCode", "contentType", "proxyUsed", "creditsUsed", "cacheState"]
    assert list(page["metadata"]) == ["title", *own]
