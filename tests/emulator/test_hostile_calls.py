"""Wrong calls of the whole emulator: every operation answers them in the service's form, and goes on."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from receiver.core.clock import VirtualClock
from receiver.emulator.app import Emulator
from receiver.emulator.options import EmulatorOptions
from tests.doubles import NOON

SITE = "https://docs.acme.test"
KEY = {"Authorization": "Bearer fc-test"}
WITH_BODY = [
    ("POST", "/v1/scrape"),
    ("POST", "/v2/scrape"),
    ("POST", "/v1/crawl"),
    ("POST", "/v2/crawl"),
    ("POST", "/v2/crawl/params-preview"),
    ("POST", "/v1/batch/scrape"),
    ("POST", "/v2/batch/scrape"),
    ("POST", "/v1/map"),
    ("POST", "/v2/map"),
    ("POST", "/v1/search"),
    ("POST", "/v2/search"),
    ("POST", "/v2/parse"),
    ("POST", "/v2/monitor"),
    ("PATCH", "/v2/monitor/019f2c10-0000-7000-8000-000000000001"),
    ("POST", "/v2/monitor/019f2c10-0000-7000-8000-000000000001/run"),
]
WITH_ID = [
    ("GET", "/v2/scrape/{id}"),
    ("GET", "/v1/crawl/{id}"),
    ("GET", "/v2/crawl/{id}"),
    ("DELETE", "/v2/crawl/{id}"),
    ("GET", "/v2/crawl/{id}/errors"),
    ("GET", "/v1/batch/scrape/{id}"),
    ("GET", "/v2/batch/scrape/{id}"),
    ("DELETE", "/v2/batch/scrape/{id}"),
    ("GET", "/v2/monitor/{id}"),
    ("DELETE", "/v2/monitor/{id}"),
    ("POST", "/v2/monitor/{id}/run"),
    ("GET", "/v2/monitor/{id}/checks"),
    ("GET", "/v2/monitor/{id}/checks/{id}"),
]
STRANGE_IDS = (
    "5",
    "..",
    "%2e%2e",
    "%00",
    "a" * 5000,
    "019f2c10",
    "%F0%9F%98%80",
    "'; DROP TABLE jobs; --",
    "*",
    "%FF",
)


@asynccontextmanager
async def whole(**options: Any) -> AsyncIterator[httpx.AsyncClient]:
    """An emulator with one given site, and a client of it."""
    made = EmulatorOptions(sites={SITE: {"/": "<title>Home</title><p>Hello</p>"}}, seed=1, **options)
    emulator = Emulator(made, clock=VirtualClock(NOON))
    transport = httpx.ASGITransport(emulator)
    async with (
        emulator.lifespan(),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:3002", headers=KEY) as client,
    ):
        yield client


def in_form(answer: httpx.Response, statuses: Sequence[int]) -> None:
    """Check that an answer is one of the service's errors."""
    body = answer.json()
    assert answer.status_code in statuses, answer.text[:500]
    assert body["success"] is False
    assert isinstance(body["error"], str)


@pytest.mark.parametrize(("method", "path"), WITH_BODY)
async def test_every_malformed_body_gets_the_services_400(method: str, path: str) -> None:
    """Bytes that are no JSON, JSON that is no object, huge numbers, deep trees, unknown keys."""
    async with whole() as client:
        for content, code in (
            (b"{", "BAD_REQUEST_INVALID_JSON"),
            (b'{"url":NaN}', "BAD_REQUEST_INVALID_JSON"),
            (b'{"url":1e999}', "BAD_REQUEST_INVALID_JSON"),
            (b'{"a":' + b"9" * 5000 + b"}", "BAD_REQUEST_INVALID_JSON"),
            (b'{"a":' * 50_000, "BAD_REQUEST_INVALID_JSON"),
            (b"\xff\xfe", "BAD_REQUEST_INVALID_JSON"),
            (b"[]", "BAD_REQUEST"),
            (b"5", "BAD_REQUEST"),
        ):
            answer = await client.request(method, path, content=content)
            in_form(answer, [400])
            assert answer.json()["code"] == code


@pytest.mark.parametrize(("method", "path"), WITH_ID)
async def test_strange_ids_are_refused(method: str, path: str) -> None:
    """400 for what is no UUID, 404 for what nobody has."""
    async with whole() as client:
        for strange in STRANGE_IDS:
            in_form(await client.request(method, path.format(id=strange)), [400, 404, 405])
        unknown = path.format(id="019f2c10-0000-7000-8000-00000000ffff")
        in_form(await client.request(method, unknown), [404])


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=-1", "limit=x", "limit=1e9", "skip=-1", "skip=%00", "offset=9" * 50]
)
async def test_strange_paging_is_refused_or_bounded(query: str) -> None:
    """It is never a fault of ours."""
    async with whole() as client:
        job = (await client.post("/v2/batch/scrape", json={"urls": [SITE]})).json()["id"]
        for path in (f"/v2/batch/scrape/{job}", f"/v2/crawl/{job}", "/v2/monitor", "/v2/crawl/active"):
            answer = await client.get(f"{path}?{query}")
            assert answer.status_code in (200, 400, 404), answer.text


KEYS = [
    *(
        "url",
        "urls",
        "formats",
        "limit",
        "webhook",
        "scrapeOptions",
        "includePaths",
        "actions",
        "headers",
        "location",
    ),
    *(
        "timeout",
        "maxAge",
        "waitFor",
        "jsonOptions",
        "schema",
        "type",
        "prompt",
        "name",
        "schedule",
        "targets",
        "goal",
    ),
    *("search", "sitemap", "threatProtection", "changeTrackingOptions", "modes", "cron", "appendToId", "delay"),
]
WORDS = [SITE, "markdown", "json", "changeTracking", "scrape", "crawl", "0 * * * *", "git-diff", "object"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.sampled_from(WORDS),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=5), inner, max_size=6)
    ),
    max_leaves=15,
)


@pytest.mark.parametrize(("method", "path"), WITH_BODY)
@settings(max_examples=20)
@given(bodies=st.lists(st.dictionaries(st.sampled_from(KEYS), JSON, max_size=6), min_size=1, max_size=5))
async def test_no_body_is_a_fault_of_ours(method: str, path: str, bodies: list[dict[str, Any]]) -> None:
    """An answer is a success, or an error of the caller or of the page."""
    async with whole() as client:
        for body in [*bodies, {**bodies[0], "url": SITE}, {**bodies[0], "urls": [SITE]}]:
            answer = await client.request(method, path, content=json.dumps(body).encode())
            found = answer.json()
            assert answer.status_code < 500 or found["code"].startswith("SCRAPE_"), (body, answer.text)
            assert isinstance(found["success"], bool)


async def test_threat_protection_blocks_and_costs() -> None:
    """403 without the feature, and for a blocked domain; a check costs 2 credits."""
    async with whole() as client:
        refused = await client.post("/v1/scrape", json={"url": SITE, "threatProtection": {}})
        in_form(refused, [403])
    async with whole(threat_protection="on", credits=100) as client:
        blocked = await client.post("/v2/scrape", json={"url": SITE, "threatProtection": {"blacklist": ["*.test"]}})
        in_form(blocked, [403])
        assert blocked.json()["code"] == "unsafe_domain_blocked"
        white = {"whitelist": ["docs.acme.test"], "blacklist": ["*"]}
        assert (await client.post("/v2/scrape", json={"url": SITE, "threatProtection": white})).status_code == 200
        assert await _credits(client) == 99
        assert (await client.post("/v2/scrape", json={"url": SITE, "maxAge": 0})).status_code == 200
        assert await _credits(client) == 96
        closed = await client.post(
            "/v2/scrape", json={"url": SITE, "threatProtection": {"failurePolicy": "closed"}}
        )
        in_form(closed, [403])
        assert await _credits(client) == 94


async def _credits(client: httpx.AsyncClient) -> int:
    return int((await client.get("/v2/team/credit-usage")).json()["data"]["remainingCredits"])


async def test_scrapes_end_with_the_credits() -> None:
    """402 for the one that is too much."""
    async with whole(credits=2) as client:
        statuses = [(await client.post("/v1/scrape", json={"url": SITE})).status_code for _ in range(3)]

    assert statuses == [200, 200, 402]
