"""What both clients put into requests: ids, bounds, time-outs, keys and paths."""

import json
from datetime import timedelta
from typing import Any

import httpx
import pytest

from receiver.errors import ConfigurationError
from receiver.requests import CrawlRequest, JsonFormat, JsonOptions, ScrapeOptions, ScrapeRequest, WaitAction
from receiver.service.client import AsyncClient, Client
from receiver.service.client import jobs as job_calls
from receiver.service.client import scrapes as scrape_calls
from receiver.service.client.calls import ServiceCall
from tests.cases import for_each
from tests.service.client.calling import (
    CHECK_ID,
    DOCUMENT,
    JOB,
    KEY,
    MONITOR_ID,
    PAGE,
    STARTED,
    Caller,
    Service,
    said,
)


async def test_an_idempotency_key_is_sent_as_a_uuid(caller: Caller, service: Service) -> None:
    """The service honours only UUIDs. Any other text becomes one, always the same."""
    service.replies = [said(**STARTED)]
    for key in (JOB, "sha256:abc", "sha256:abc", "another"):
        await caller.call("crawl", PAGE, idempotency_key=key)
    await caller.call("crawl", PAGE)

    keys = [request.headers.get("x-idempotency-key") for request in service.requests]
    assert keys[0] == JOB
    assert keys[1] == keys[2]
    assert keys[1] != keys[3]
    assert keys[4] is None


@pytest.mark.parametrize(
    ("name", "args", "words"),
    [
        ("crawl_status", ("",), "job_id: an id is a text"),
        ("cancel_crawl", ("..",), "job_id: an id is a text"),
        ("monitor", (".",), "monitor_id: an id is a text"),
        ("check", (MONITOR_ID, ""), "check_id: an id is a text"),
    ],
)
async def test_a_text_that_cannot_be_an_id_is_not_sent(
    caller: Caller, service: Service, name: str, args: Any, words: str
) -> None:
    """It would lead to another path, where DELETE would mean something else."""
    with pytest.raises(ValueError, match=words):
        await caller.call(name, *args)
    assert service.requests == []


async def test_an_id_stays_one_part_of_its_path(caller: Caller, service: Service) -> None:
    """Special characters are quoted."""
    service.replies = [said(success=True, status="scraping")]
    await caller.call("crawl_status", "a/../b?c#d")

    assert service.sent == [("GET", "/v2/crawl/a%2F..%2Fb%3Fc%23d", None)]


@pytest.mark.parametrize(
    ("name", "args", "options", "words"),
    [
        ("crawl_status", (JOB,), {"limit": 1001}, "limit: 1 to 1000, not 1001"),
        ("batch_status", (JOB,), {"limit": 0}, "limit: 1 to 1000, not 0"),
        ("crawl_status", (JOB,), {"skip": -1}, "skip: 0 or more, not -1"),
        ("monitors", (), {"limit": 101}, "limit: 1 to 100, not 101"),
        ("checks", (MONITOR_ID,), {"offset": -1}, "offset: 0 or more, not -1"),
        ("check", (MONITOR_ID, CHECK_ID), {"limit": 101}, "limit: 1 to 100, not 101"),
        ("check_pages", (MONITOR_ID, CHECK_ID), {"status": "lost"}, "status: one of same, new, changed, removed, "),
        ("checks", (MONITOR_ID,), {"status": "lost"}, "status: one of queued, running, completed, partial, "),
    ],
)
async def test_values_out_of_bounds_are_not_sent(
    caller: Caller, service: Service, name: str, args: Any, options: Any, words: str
) -> None:
    """The error names the bounds."""
    with pytest.raises(ValueError, match=words):
        await (caller.pages if name.endswith("_pages") else caller.call)(name, *args, **options)
    assert service.requests == []


@for_each(
    ("call", "seconds"),
    [
        (scrape_calls.scrape(PAGE), 60),
        (scrape_calls.scrape(PAGE, timeout=10_000), 40),
        (
            scrape_calls.scrape(PAGE, timeout=120_000, wait_for=5_000, actions=[WaitAction(milliseconds=10_000)]),
            165,
        ),
        (scrape_calls.scrape(PAGE, formats=["markdown", "changeTracking"]), 90),
        (scrape_calls.scrape(PAGE, formats=["json"], json_options=JsonOptions(prompt="p")), 90),
        (scrape_calls.scrape(PAGE, formats=["json"], json_options=JsonOptions(prompt="p"), timeout=40_000), 70),
        (scrape_calls.scrape(PAGE, proxy="enhanced"), 150),
        (scrape_calls.scrape(PAGE, proxy="auto", formats=["markdown", "changeTracking"]), 150),
        (scrape_calls.scrape(PAGE, proxy="auto", timeout=30_000), 150),
        (scrape_calls.scrape(PAGE, version=2), 150),
        (scrape_calls.scrape(PAGE, version=2, proxy="basic"), 60),
        (scrape_calls.scrape(PAGE, version=2, proxy="basic", formats=[JsonFormat(prompt="p")]), 90),
        (scrape_calls.parse(b"x" * 1024 * 1024, "a.pdf"), 61),
        (scrape_calls.map(PAGE), 90),
        (scrape_calls.map(PAGE, timeout=200_000), 230),
        (scrape_calls.search("q"), 90),
        (scrape_calls.search("q", timeout=1_000, scrape_options=ScrapeOptions(timeout=5_000)), 36),
        (job_calls.crawl(PAGE), 60),
    ],
)
def test_a_call_waits_longer_than_the_service_works(call: ServiceCall[Any], seconds: int) -> None:
    """The service's own limit is that of the request, or one by format and proxy. 30 seconds are added to it."""
    assert call.answered_within == timedelta(seconds=seconds)


async def test_a_call_sets_the_time_out_of_its_own_request(caller: Caller, service: Service) -> None:
    """Other requests keep the default."""
    service.replies = [said(success=True, data=DOCUMENT)]
    await caller.call("scrape", ScrapeRequest(url=PAGE, timeout=120_000))

    timeout = service.requests[0].extensions["timeout"]
    assert (timeout["read"], timeout["connect"]) == (150.0, 10.0)


async def test_get_reaches_any_path(caller: Caller, service: Service) -> None:
    """The answer is returned unchanged, with any status."""
    service.replies = [said(404, success=False)]
    answer = await caller.call("get", "/v2/team/credit-usage", params={"a": "b"})

    assert isinstance(answer, httpx.Response)
    assert answer.status_code == 404
    assert service.sent == [("GET", "/v2/team/credit-usage?a=b", None)]
    assert service.requests[0].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_a_self_hosted_service_may_have_a_path(kind: str, service: Service) -> None:
    """It may stand behind a gateway."""
    service.replies = [said(**STARTED)]
    await Caller(kind, service, base="http://127.0.0.1:3002/crawler/").call("crawl", PAGE)

    assert str(service.requests[0].url) == "http://127.0.0.1:3002/crawler/v2/crawl"


@pytest.mark.parametrize("made", [AsyncClient, Client])
def test_a_client_with_an_unusable_address_or_key_cannot_be_made(made: Any) -> None:
    """The error comes at once."""
    with pytest.raises(ConfigurationError, match="RECEIVER_BASE_URL"):
        made(KEY, "nowhere")
    with pytest.raises(ConfigurationError, match="RECEIVER_API_KEY"):
        made("two words")


def test_the_repr_of_a_call_has_no_body() -> None:
    """A body may contain headers with a login."""
    request = CrawlRequest(url=PAGE, scrape_options={"headers": {"Cookie": "s3cret"}})

    assert "s3cret" not in repr(job_calls.crawl(request))
    assert json.dumps(dict(job_calls.crawl(request).body or {})).count("s3cret") == 1
