"""A SearXNG server as the source of a search: a stub of its API."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from receiver.core.clock import VirtualClock
from receiver.emulator.app import Emulator
from receiver.emulator.fetching.fetcher import Fetcher
from receiver.emulator.options import EmulatorOptions
from tests.doubles import NOON

SITE = {"https://own.test": {"/": "<title>Own lamps</title><main>A lamp</main>"}}
RESULTS: dict[str, list[dict[str, Any]]] = {
    "general": [
        {"url": "https://one.test/", "title": "One", "content": "A lamp\n shines"},
        {"url": "http://127.0.0.1/x", "title": None, "content": 5},
        {"url": "https://one.test/", "title": "Twice"},
        {"url": "ftp://no.test/", "title": "No"},
        {"title": "None"},
    ],
    "news": [{"url": "https://n.test/", "title": "N", "content": "c", "publishedDate": "2026-01-01T00:00:00"}],
    "images": [
        {"url": "https://i.test/", "title": "I", "img_src": "https://i.test/i.png", "resolution": "640 \u00d7 480"},
        {"url": "https://j.test/", "title": "J", "img_src": "data:x"},
    ],
}
Answer = Callable[[httpx.Request], httpx.Response]


def stub(request: httpx.Request) -> httpx.Response:
    """Answer as SearXNG does: the same results on each page."""
    assert request.url.path == "/search"
    assert request.url.params["format"] == "json"
    return httpx.Response(200, json={"results": RESULTS[request.url.params["categories"]]})


@asynccontextmanager
async def searching(answer: Answer, **options: Any) -> AsyncIterator[Callable[..., Any]]:
    """An emulator with a SearXNG server, and a function that searches."""
    made = EmulatorOptions(sites=SITE, bundled_site=False, searxng_url="http://searx.test/", seed=1, **options)
    emulator = Emulator(made, clock=VirtualClock(NOON), transport=httpx.MockTransport(answer))
    key = {"Authorization": "Bearer x"}
    transport = httpx.ASGITransport(emulator)

    async def search(query: str, **body: Any) -> Any:
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=key) as client:
            response = await client.post("/v2/search", json={"query": query, **body})
            assert response.status_code == 200, response.text
            return response.json()

    async with emulator.lifespan():
        yield search


async def test_its_hits_come_before_our_own() -> None:
    """Each once, as far as they have an address of the web."""
    async with searching(stub) as search:
        answer = await search("lamp", sources=["web", "news", "images"], limit=5)

    assert answer["data"] == {
        "web": [
            {"url": "https://one.test/", "title": "One", "description": "A lamp shines", "position": 1},
            {"url": "http://127.0.0.1/x", "title": "", "description": "", "position": 2},
            {"url": "https://own.test/", "title": "Own lamps", "description": "A lamp", "position": 3},
        ],
        "news": [
            {
                "title": "N",
                "url": "https://n.test/",
                "snippet": "c",
                "date": "2026-01-01T00:00:00+00:00",
                "position": 1,
            }
        ],
        "images": [
            {
                "title": "I",
                "imageUrl": "https://i.test/i.png",
                "imageWidth": 640,
                "imageHeight": 480,
                "url": "https://i.test/",
                "position": 1,
            }
        ],
    }
    assert "warning" not in answer


async def test_it_is_asked_with_the_filters_of_the_search() -> None:
    """Domains, categories and the period become operators and parameters."""
    asked: list[httpx.QueryParams] = []

    def note(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.params)
        return httpx.Response(200, json={"results": []})

    async with searching(note) as search:
        await search("lamp", includeDomains=["a.test", "b.test"], tbs="qdr:w")
        await search("lamp", excludeDomains=["c.test"], categories=["pdf"])
        await search("lamp", includeDomains=["a.gov"], categories=["gov"])

    assert (asked[0]["q"], asked[0]["time_range"]) == ("lamp site:a.test OR site:b.test", "week")
    assert asked[1]["q"] == "lamp filetype:pdf -site:c.test"
    assert "time_range" not in asked[1]
    assert asked[2]["q"] == "lamp site:a.gov", "and no other host of a government"


@pytest.mark.parametrize("internet", [False, True])
def test_the_fetcher_tells_where_it_may_not_go(internet: bool) -> None:
    """For `ignoreInvalidURLs`: given sites and loopback are always fetched, link-local addresses never."""
    fetcher = Fetcher(EmulatorOptions(sites=SITE, allow_internet=internet), VirtualClock(NOON))
    always = ("http://127.0.0.1/x", "http://localhost:9/", "https://own.test/", "http://own.test/a")
    never = ("http://10.0.0.1/", "http://169.254.169.254/", "http://nas.local/", "mailto:a@b.test", "https://[")

    assert [url for url in (*always, *never) if not fetcher.refuses(url)] == list(always)
    assert [fetcher.refuses(url) for url in ("https://example.com/", "http://1.1.1.1/")] == [not internet] * 2


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (httpx.Response(403), "answered 403"),
        (httpx.Response(200, text="<html>"), "not JSON"),
        (httpx.Response(200, json=[1]), "not JSON"),
        (httpx.Response(200, content=b'{"results": [' + b"1" * 10_000_001), "too long"),
        (httpx.ConnectError("refused"), "cannot be reached"),
        (httpx.ReadTimeout("slow"), "cannot be reached"),
    ],
)
async def test_without_its_answer_the_index_is_searched(answer: Any, reason: str) -> None:
    """The warning says why."""

    def fail(request: httpx.Request) -> httpx.Response:
        if isinstance(answer, Exception):
            raise answer
        return httpx.Response(answer.status_code, content=answer.content)

    async with searching(fail) as search:
        found = await search("lamp", sources=["web", "images"])

    assert [hit["title"] for hit in found["data"]["web"]] == ["Own lamps"]
    assert reason in found["warning"]
    assert json.dumps(found["data"]["images"]) == "[]"
