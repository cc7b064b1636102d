"""Failed calls: each status has its exception, with the service's text and never with the key."""

import logging
import pickle
import traceback
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import httpx
import pytest

from receiver import errors
from receiver.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    KeyRefused,
    NotFound,
    NotSuccessful,
    PaymentRequired,
    RateLimited,
    ReceiverError,
    ScrapeTimedOut,
    ServerError,
    ServiceError,
    ServiceUnreachable,
    UnexpectedAnswer,
    Unprocessable,
)
from receiver.service.client import RetryPolicy
from tests.cases import for_each
from tests.doubles import event_of
from tests.service.client.calling import KEY, Caller, Service, for_both_clients, said

PAGE = "https://example.com/"
IMPATIENT = RetryPolicy(budget=timedelta(0))


@for_both_clients(
    ("status", "kind"),
    [
        (400, BadRequest),
        (401, KeyRefused),
        (402, PaymentRequired),
        (403, Forbidden),
        (404, NotFound),
        (405, BadRequest),
        (408, ScrapeTimedOut),
        (409, Conflict),
        (413, BadRequest),
        (418, BadRequest),
        (422, Unprocessable),
        (429, RateLimited),
        (500, ServerError),
        (502, ServerError),
        (503, ServerError),
        (504, ServerError),
        (599, ServerError),
    ],
)
async def test_each_status_has_its_own_exception(
    caller: Caller, service: Service, status: int, kind: type[ServiceError]
) -> None:
    """The exception and its message have status, text, code and request id."""
    body = {
        "success": False,
        "error": "no\nluck",
        "code": "SCRAPE_X",
        "details": [{"path": ["url"]}],
        "checkId": "c",
    }
    service.replies = [httpx.Response(status, json=body, headers={"X-Request-Id": "r-1"})]

    with pytest.raises(kind) as caught:
        await caller.call("scrape", PAGE)

    error = caught.value
    assert type(error) is kind
    assert isinstance(error, ReceiverError)
    assert (error.status, error.said, error.code, error.request_id) == (status, "no\nluck", "SCRAPE_X", "r-1")
    assert error.answer["checkId"] == "c"
    assert str(error) == f"POST /v1/scrape: {status} no luck (SCRAPE_X, request r-1)"


@for_both_clients(
    ("answer", "message"),
    [
        (httpx.Response(402, json={"error": "Payment required"}), "402 Payment required"),
        (httpx.Response(409, json={"error": "over"}), "409 over"),
        (httpx.Response(502, text="<html>Bad gateway"), "502 Bad Gateway"),
        (httpx.Response(500, json=["no", "object"]), "500 Internal Server Error"),
        (httpx.Response(404, json={"error": {"an": "object"}, "code": 5}), "404 Not Found"),
        (httpx.Response(599, content=b""), "599 no reason given"),
        (httpx.Response(400, json={"error": "x" * 5000}), "400 " + "x" * 1000),
    ],
)
async def test_an_error_with_less_or_more_than_documented_is_readable(
    caller: Caller, service: Service, answer: httpx.Response, message: str
) -> None:
    """The body may be only `{error}`, a gateway's page, or empty."""
    service.replies = [answer]
    with pytest.raises(ServiceError) as caught:
        await caller.call("cancel_crawl", "1")

    assert str(caught.value) == f"DELETE /v2/crawl/1: {message}"


@for_both_clients(
    ("headers", "body", "found"),
    [
        ({}, {}, None),
        ({"x-request-id": "h"}, {"requestId": "b", "error": "Your exception ID is t"}, "h"),
        ({"X-Request-ID": ""}, {"requestId": "b", "error": "Your exception ID is t"}, "b"),
        ({}, {"requestId": 5, "error": "Please contact us. Your exception ID is 0f-1e"}, "0f-1e"),
        ({}, {"error": "An error occurred. Please check your logs for more details. Error ID: 0f-1e"}, "0f-1e"),
        ({}, {"error": "An unexpected error occurred. Please contact us for help."}, None),
    ],
)
async def test_the_id_of_a_call_is_found_in_header_field_or_text(
    caller: Caller, service: Service, headers: dict[str, str], body: dict[str, Any], found: str | None
) -> None:
    """An answer without an id is normal."""
    service.replies = [httpx.Response(403, json=body, headers=headers)]

    with pytest.raises(ServiceError) as caught:
        await caller.call("queue_status")

    assert caught.value.request_id == found
    assert (f"request {found}" in str(caught.value)) is (found is not None)


async def test_a_200_with_success_false_is_an_error(caller: Caller, service: Service) -> None:
    """The service answers so for a host without DNS."""
    service.replies = [said(success=False, error="DNS resolution failed", code="SCRAPE_DNS_RESOLUTION_ERROR")]
    with pytest.raises(NotSuccessful, match="DNS resolution failed") as caught:
        await caller.call("scrape", PAGE)

    assert (caught.value.status, caught.value.code) == (200, "SCRAPE_DNS_RESOLUTION_ERROR")


@for_both_clients("name", ["crawl_status", "batch_status", "extract_status", "agent_status"])
async def test_the_status_of_a_failed_job_is_a_successful_call(caller: Caller, service: Service, name: str) -> None:
    """An answer without a job status is an error."""
    service.replies = [said(success=False, status="failed", error="no page")]
    assert (await caller.call(name, "1")).status == "failed"

    service.replies = [said(success=False, error="nothing")]
    with pytest.raises(NotSuccessful):
        await caller.call(name, "1")


@for_both_clients(
    ("answer", "words"),
    [
        (httpx.Response(200, content=b'{"success": tr'), "no JSON, or cut short"),
        (httpx.Response(200, content=b""), "no JSON, or cut short"),
        (httpx.Response(200, json=[]), "JSON, and no object"),
        (httpx.Response(200, json={"success": True}), "not as documented"),
        (httpx.Response(200, json={"success": True, "id": 5}), "documented: a job that was started has an id"),
        (httpx.Response(302, headers={"Location": "https://evil.example/"}), "a redirect, which is not followed"),
        (httpx.Response(304), "a redirect, which is not followed"),
    ],
)
async def test_an_undocumented_answer_is_an_error(
    caller: Caller, service: Service, answer: httpx.Response, words: str
) -> None:
    """The client never returns an empty result for it."""
    service.replies = [answer]
    with pytest.raises(UnexpectedAnswer, match=words):
        await caller.call("crawl", PAGE)
    assert len(service.requests) == 1


@for_both_clients(
    ("name", "args", "body"),
    [
        ("scrape", (PAGE,), {"success": True}),
        ("scrape", (PAGE,), {"success": True, "data": []}),
        ("monitor", ("1",), {"success": True, "data": None}),
        ("run_monitor", ("1",), {"success": True, "id": "2"}),
        ("monitors", (), {"success": True, "data": {}}),
        ("monitors", (), {"success": True, "data": ["text"]}),
        ("active_crawls", (), {"success": True}),
        ("run_monitor", ("1",), {"success": True, "data": {"status": "queued"}}),
        *(
            (name, ("1",), {"foo": 1})
            for name in ("crawl_status", "batch_status", "extract_status", "agent_status")
        ),
        *((name, ("1",), {"foo": 1}) for name in ("crawl_errors", "batch_errors")),
        ("crawl_status", ("1",), {"status": 5}),
        ("crawl_errors", ("1",), {"errors": "none"}),
        ("queue_status", (), {"foo": 1}),
        ("monitor", ("1",), {"data": {"foo": 1}}),
        ("check", ("1", "2"), {"data": {"foo": 1}}),
    ],
)
async def test_an_answer_without_its_result_is_an_error(
    caller: Caller, service: Service, name: str, args: Any, body: Any
) -> None:
    """These operations always have a result, and another JSON object is none."""
    service.replies = [said(**body)]
    caller = Caller(caller.kind, service, patience=IMPATIENT)

    with pytest.raises(UnexpectedAnswer, match="not as documented"):
        await caller.call(name, *args)


@for_both_clients(
    ("raised", "kind", "words", "sent"),
    [
        (httpx.ConnectError(KEY), ServiceUnreachable, "api.example.com cannot be reached", False),
        (httpx.ConnectTimeout(KEY), ServiceUnreachable, "api.example.com cannot be reached", False),
        (httpx.ProxyError(KEY), ServiceUnreachable, "api.example.com cannot be reached", False),
        (httpx.ReadTimeout(KEY), ServiceUnreachable, "no whole answer within 60 s", True),
        (httpx.WriteTimeout(KEY), ServiceUnreachable, "no whole answer within 60 s", True),
        (httpx.ReadError(KEY), ServiceUnreachable, "ended before the answer", True),
        (httpx.RemoteProtocolError(KEY), ServiceUnreachable, "ended before the answer", True),
        (httpx.DecodingError(KEY), UnexpectedAnswer, "compression is broken, or was not asked for", None),
    ],
)
async def test_connection_errors_become_service_errors(
    caller: Caller, service: Service, raised: Exception, kind: type[ServiceError], words: str, sent: bool | None
) -> None:
    """The error says whether the request may have arrived."""
    service.replies = [raised]
    caller = Caller(caller.kind, service, patience=IMPATIENT)

    with pytest.raises(kind, match=words) as caught:
        await caller.call("crawl", PAGE)

    assert getattr(caught.value, "sent", None) is sent


async def test_a_204_ends_a_call_without_a_result(caller: Caller, service: Service) -> None:
    """It is a success without content (RFC 9110, section 15.3.5). Elsewhere the result would be missing."""
    service.replies = [httpx.Response(204)]
    for name in ("delete_monitor", "cancel_crawl", "cancel_batch", "cancel_agent"):
        assert await caller.call(name, "1") is None

    with pytest.raises(UnexpectedAnswer, match="no JSON"):
        await caller.call("crawl", PAGE)


@for_both_clients(
    ("status", "body"),
    [
        (status, body)
        for status in (200, 400, 500)
        for body in (b'{"error":' * 900 + b"{}" + b"}" * 900, b'{"error": [' + b"{}," * 700_000 + b"{}]}")
    ],
)
async def test_a_deep_or_costly_answer_is_an_error_like_others(
    caller: Caller, service: Service, status: int, body: bytes
) -> None:
    """2 MiB of `{}` would be gigabytes of objects, and 900 levels exceed Python's own limit."""
    service.replies = [httpx.Response(status, content=body)]
    caller = Caller(caller.kind, service, patience=IMPATIENT)

    for name in ("crawl_status", "cancel_crawl" if status > 200 else "monitor"):
        with pytest.raises(ServiceError) as caught:
            await caller.call(name, "1")
        pickle.dumps(caught.value)
        assert len(str(caught.value)) < 200


async def test_the_good_items_of_a_list_are_kept(
    caller: Caller, service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    """A warning tells how many others there are."""
    service.replies = [said(success=True, data=[{"id": "a"}, "text", {"id": "b"}, None])]

    assert [one.id for one in await caller.call("monitors")] == ["a", "b"]
    (record,) = caplog.records
    assert (event_of(record), vars(record)["count"]) == ("service_items_skipped", 2)


def echo(status: int) -> Callable[[httpx.Request], httpx.Response]:
    """Return a careless service that repeats what it was sent."""

    def answer(request: httpx.Request) -> httpx.Response:
        sent = request.headers["authorization"]
        body = {
            "success": False,
            "error": f"bad {sent}",
            "code": sent,
            "details": {sent: [sent]},
            "requestId": sent,
        }
        return httpx.Response(status, json=body, headers={"X-Request-Id": sent, "Location": f"https://x/{KEY}"})

    return answer


def broken(request: httpx.Request) -> httpx.Response:
    """Repeat the key in a body that is not JSON."""
    return httpx.Response(200, text=request.headers["authorization"])


@for_both_clients(
    "reply",
    [echo(status) for status in (200, 302, 400, 401, 402, 403, 404, 408, 409, 422, 429, 500, 503)]
    + [broken, httpx.ConnectError(KEY), httpx.ReadError(KEY), httpx.DecodingError(KEY), httpx.ReadTimeout(KEY)],
)
async def test_the_key_is_in_no_error_and_no_log(
    caller: Caller, service: Service, reply: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """This holds even if the service repeats the key in its answer."""
    caplog.set_level(logging.DEBUG)
    service.replies = [reply]
    caller = Caller(caller.kind, service, patience=IMPATIENT)

    for name in ("crawl_status", "cancel_crawl", "monitor"):
        with pytest.raises(ServiceError) as caught:
            await caller.call(name, "1")
        error = caught.value
        shown = "".join(traceback.format_exception(error)) + repr(error) + repr(vars(error))
        shown += repr(caller.client) + repr(vars(caller.client)) + repr(vars(caller.client.http.auth))
        assert KEY not in shown + caplog.text


@for_each("kind", [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, ServiceError)])
def test_service_errors_can_be_pickled(kind: type[ServiceError]) -> None:
    """Handlers in processes of their own send theirs back."""
    error = kind("no luck")
    error.retry_after = timedelta(seconds=5)

    again = pickle.loads(pickle.dumps(error))

    assert (type(again), str(again), again.retry_after) == (kind, "no luck", timedelta(seconds=5))
