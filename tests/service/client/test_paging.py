"""All pages of an operation are followed by path and query, to the end, and each only once."""

import uuid
from itertools import count
from typing import Any

import httpx
import pytest

from receiver.errors import NotFound, UnexpectedAnswer
from receiver.service.client import clients
from tests.service.client.calling import KEY, Caller, Service, said

ELSEWHERE = "https://elsewhere.example.net"


def page(next_: str | None, *, status: str = "completed", documents: int = 1) -> httpx.Response:
    """Return a page of a job's results, which no other page has."""
    items = [{"markdown": str(uuid.uuid4())} for _ in range(documents)]
    body: dict[str, Any] = {"success": True, "status": status, "data": items}
    return said(**body if next_ is None else {**body, "next": next_})


@pytest.mark.parametrize(("name", "path"), [("crawl_pages", "/v2/crawl/1"), ("batch_pages", "/v2/batch/scrape/1")])
async def test_every_page_is_fetched(caller: Caller, service: Service, name: str, path: str) -> None:
    """Pages come in order, until an answer names no next page."""
    service.replies = [
        page(f"{ELSEWHERE}{path}?skip=100&limit=100", documents=100),
        page(f"{ELSEWHERE}{path}?skip=200&limit=100", documents=100),
        page(None, documents=7),
    ]

    pages = await caller.pages(name, "1", limit=100)

    assert [len(one.data) for one in pages] == [100, 100, 7]
    assert [sent[1] for sent in service.sent] == [
        f"{path}?limit=100",
        f"{path}?skip=100&limit=100",
        f"{path}?skip=200&limit=100",
    ]


async def test_the_next_page_is_fetched_from_the_same_host(caller: Caller, service: Service) -> None:
    """The answer names an absolute address, and another host must not get the key."""
    service.replies = [
        page(f"{ELSEWHERE}/v2/crawl/1?skip=1"),
        page("//evil.example/v2/crawl/1?skip=2"),
        page("https://api.example.com@evil.example/v2/crawl/1?skip=3"),
        page("https://evil.example//evil.example/v2/crawl/1?skip=4"),
        page("/v2/crawl/1?skip=5"),
        page(None),
    ]

    await caller.pages("crawl_pages", "1")

    assert {str(request.url.host) for request in service.requests} == {"api.example.com"}
    assert all(request.headers["authorization"] == f"Bearer {KEY}" for request in service.requests)
    assert service.sent[4][1] == "/evil.example/v2/crawl/1?skip=4"


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_a_next_page_may_or_may_not_include_the_gateways_path(kind: str, service: Service) -> None:
    """A gateway knows its own path, but the service behind it does not."""
    service.replies = [
        page("https://gate.example/crawler/v2/crawl/1?skip=1"),
        page("http://inside:3002/v2/crawl/1?skip=2"),
        page(None),
    ]

    await Caller(kind, service, base="https://gate.example/crawler").pages("crawl_pages", "1")

    assert [sent[1] for sent in service.sent] == [
        "/crawler/v2/crawl/1",
        "/crawler/v2/crawl/1?skip=1",
        "/crawler/v2/crawl/1?skip=2",
    ]


async def test_a_running_job_is_read_once(caller: Caller, service: Service) -> None:
    """It always names a next page, and repeats that page when all results are read."""
    service.replies = [
        page(f"{ELSEWHERE}/v2/crawl/1?skip=1", status="scraping"),
        page(f"{ELSEWHERE}/v2/crawl/1?skip=1", status="scraping", documents=0),
    ]

    pages = await caller.pages("crawl_pages", "1")

    assert [len(one.data) for one in pages] == [1, 0]
    assert len(service.requests) == 2


async def test_pages_that_go_in_a_circle_end(caller: Caller, service: Service) -> None:
    """The client stops at a page that it has read before."""
    service.replies = [page("/v2/crawl/1?skip=1"), page("/v2/crawl/1?skip=2"), page("/v2/crawl/1?skip=1")]

    assert len(await caller.pages("crawl_pages", "1")) == 3


async def test_pages_without_an_end_are_an_error(
    caller: Caller, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service that names a new address each time does not keep a program for ever."""
    monkeypatch.setattr(clients, "MAX_PAGES", 50)
    numbers = count(1)
    service.replies = [lambda _: page(f"/v2/crawl/1?skip={next(numbers)}", documents=next(numbers) % 2)]

    with pytest.raises(UnexpectedAnswer, match=r"GET /v2/crawl/1.*: after 50 pages it names a next one"):
        await caller.pages("crawl_pages", "1")

    assert len(service.requests) == 50


@pytest.mark.parametrize(
    ("name", "args", "path", "body"),
    [
        ("crawl_pages", ("1",), "/v2/crawl/1", {"status": "completed", "data": [{"markdown": "m"}]}),
        ("check_pages", ("1", "2"), "/v2/monitor/1/checks/2", {"data": {"id": "2", "pages": [{"id": "p"}]}}),
    ],
)
async def test_a_service_that_gives_the_same_page_for_each_address_is_an_error(
    caller: Caller, service: Service, name: str, args: Any, path: str, body: Any
) -> None:
    """It ignores the offset, so results would repeat without an end."""
    numbers = count(1)
    service.replies = [lambda _: said(success=True, next=f"{path}?skip={next(numbers)}", **body)]

    with pytest.raises(UnexpectedAnswer, match="the same results as on the page before"):
        await caller.pages(name, *args)

    assert len(service.requests) == 2


async def test_a_lost_page_is_fetched_again_and_a_missing_one_is_an_error(caller: Caller, service: Service) -> None:
    """The client never ends silently in the middle."""
    service.replies = [page("/v2/crawl/1?skip=1"), httpx.ReadError("reset"), said(404, error="Job expired")]

    with pytest.raises(NotFound, match="Job expired"):
        await caller.pages("crawl_pages", "1")
    assert len(service.requests) == 3


@pytest.mark.parametrize(
    "address", ["https://[::1", "https://x/v2/\u00e4", "https://x/v2\x7f", "https://x/" + "a" * 9000]
)
async def test_a_next_page_without_address_is_an_error(caller: Caller, service: Service, address: str) -> None:
    """Otherwise pages would be missing without a sign."""
    service.replies = [page(address)]

    with pytest.raises(UnexpectedAnswer, match="GET /v2/crawl/1: its next page has no address"):
        await caller.pages("crawl_pages", "1")


async def test_a_check_names_its_next_pages_inside_or_beside_its_data(caller: Caller, service: Service) -> None:
    """The client follows both."""

    def found(number: int, **more: Any) -> dict[str, Any]:
        return {"id": "c", "status": "completed", "pages": [{"id": f"p{number}", "status": "removed"}], **more}

    service.replies = [
        said(success=True, data=found(1), next="https://x/v2/monitor/m/checks/c?skip=1&status=removed"),
        said(success=True, data=found(2, next="https://x/v2/monitor/m/checks/c?skip=2&status=removed")),
        said(success=True, data=found(3)),
    ]

    pages = await caller.pages("check_pages", "m", "c", status="removed")

    assert [one.pages[0].id for one in pages] == ["p1", "p2", "p3"]
    assert [sent[1] for sent in service.sent] == [
        "/v2/monitor/m/checks/c?status=removed",
        "/v2/monitor/m/checks/c?skip=1&status=removed",
        "/v2/monitor/m/checks/c?skip=2&status=removed",
    ]


async def test_pages_are_fetched_only_on_demand(service: Service) -> None:
    """A caller who stops reading causes no more requests."""
    service.replies = [page("/v2/crawl/1?skip=1"), page(None)]
    caller = Caller("async", service)

    async for one in caller.client.crawl_pages("1"):  # type: ignore[union-attr]
        assert one.status == "completed"
        break

    assert len(service.requests) == 1
