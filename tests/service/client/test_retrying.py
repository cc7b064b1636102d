"""When a call is repeated, after which pause, and when not: the steps alone, and both clients on a moved clock."""

import asyncio
import json
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import SecretStr

from receiver.core.clock import VirtualClock
from receiver.core.retries import RetrySchedule
from receiver.errors import (
    Conflict,
    NotFound,
    RateLimited,
    ScrapeTimedOut,
    ServerError,
    ServiceError,
    ServiceUnreachable,
    UnexpectedAnswer,
)
from receiver.service.client import AsyncClient, RetryPolicy
from receiver.service.client.calls import ServiceCall, ServiceResponse
from receiver.service.client.jobs import crawl, crawl_status
from receiver.service.client.reading import wait_asked_for
from receiver.service.client.retrying import CallAttempt, Pause, call_steps
from tests.cases import for_each
from tests.doubles import NOON
from tests.service.client.calling import BASE, KEY, Caller, Service, for_both_clients, said

PAGE = "https://example.com/"
STARTED = said(success=True, id="1")
STATUS = said(success=True, status="completed", data=[])
SECOND = timedelta(seconds=1)


# --- which calls are repeated


NOT_SENT = [
    httpx.ConnectError("refused"),
    httpx.ConnectTimeout("silence"),
    said(429, error="Rate limit exceeded, please retry after 2s"),
]
CALLS = [("crawl", (PAGE,), STARTED), ("crawl_status", ("1",), STATUS), ("cancel_crawl", ("1",), said())]


@for_both_clients(("fault", "name", "args", "answer"), [(fault, *call) for fault in NOT_SENT for call in CALLS])
async def test_calls_that_were_not_carried_out_are_repeated(
    caller: Caller, service: Service, fault: Any, name: str, args: Any, answer: httpx.Response
) -> None:
    """This holds for every operation."""
    service.replies = [fault, fault, answer]
    await caller.call(name, *args)

    assert len(service.requests) == 3


LOST = [
    httpx.ReadError("reset"),
    httpx.ReadTimeout("late"),
    httpx.RemoteProtocolError("cut"),
    httpx.DecodingError("gzip"),
    httpx.Response(200, content=b'{"success": tr'),
    said(408, error="timed out"),
    said(500, error="oops"),
    said(502, error="oops"),
    said(503, error="oops"),
]


REPEATABLE: list[tuple[str, tuple[str, ...], dict[str, str], httpx.Response]] = [
    ("crawl_status", ("1",), {}, STATUS),
    ("monitor", ("1",), {}, said(success=True, data={"id": "1"})),
    ("queue_status", (), {}, said(success=True, jobsInQueue=0)),
    ("crawl", (PAGE,), {"idempotency_key": "k"}, STARTED),
]


@for_both_clients(
    ("fault", "name", "args", "options", "answer"), [(fault, *call) for fault in LOST for call in REPEATABLE]
)
async def test_reads_and_starts_with_an_idempotency_key_are_repeated(
    caller: Caller, service: Service, fault: Any, name: str, args: Any, options: Any, answer: httpx.Response
) -> None:
    """Making them twice does no more than making them once."""
    service.replies = [fault, answer]
    await caller.call(name, *args, **options)

    assert len(service.requests) == 2
    assert caller.waited == 0.5


NOT_REPEATABLE: list[tuple[str, Any]] = [
    ("scrape", (PAGE,)),
    ("crawl", (PAGE,)),
    ("batch_scrape", ([PAGE],)),
    ("agent", ("find",)),
    ("run_monitor", ("1",)),
    ("cancel_crawl", ("1",)),
    ("delete_monitor", ("1",)),
]


@for_both_clients(("fault", "name", "args"), [(fault, *call) for fault in LOST for call in NOT_REPEATABLE])
async def test_calls_that_may_have_been_carried_out_are_not_repeated(
    caller: Caller, service: Service, fault: Any, name: str, args: Any
) -> None:
    """A second start would be a second job and cost credits."""
    service.replies = [fault]
    with pytest.raises(ServiceError):
        await caller.call(name, *args)

    assert len(service.requests) == 1
    assert caller.waited == 0


@for_both_clients("status", [400, 401, 402, 403, 404, 409, 422])
async def test_final_errors_are_not_repeated(caller: Caller, service: Service, status: int) -> None:
    """The answer would be the same."""
    service.replies = [said(status, error="no")]
    with pytest.raises(ServiceError):
        await caller.call("crawl_status", "1")

    assert len(service.requests) == 1


async def test_a_crawl_that_an_earlier_attempt_started_is_a_conflict(caller: Caller, service: Service) -> None:
    """The service does not tell the id of a crawl whose key was used; the error explains that."""
    service.replies = [httpx.ReadError("reset"), said(409, error="Idempotency key already used")]
    with pytest.raises(Conflict, match="an earlier attempt whose answer was lost has used this idempotency key"):
        await caller.call("crawl", PAGE, idempotency_key="k")

    service.replies = [said(409, error="Idempotency key already used")]
    with pytest.raises(Conflict) as caught:
        await caller.call("crawl", PAGE, idempotency_key="k")
    assert "earlier attempt" not in str(caught.value)


# --- how long


async def test_pauses_grow_and_attempts_end(caller: Caller, service: Service) -> None:
    """The pauses are 0.5, 2 and 8 seconds. After four attempts the last error is raised."""
    service.replies = [said(503, error="first"), said(503, error="later")]
    with pytest.raises(ServerError, match="later"):
        await caller.call("crawl_status", "1")

    assert len(service.requests) == 4
    assert caller.waited == 10.5


@for_each(
    ("headers", "body", "seconds"),
    [
        ({"retry-after": "7"}, {"retry_after_seconds": 9, "error": "retry after 11s"}, 7),
        ({"retry-after": " 7 "}, {}, 7),
        ({"retry-after": "Tue, 04 Aug 2026 12:00:30 GMT"}, {}, 30),
        ({"retry-after": "Tue, 04 Aug 2026 11:00:00 GMT"}, {}, 0),
        ({"retry-after": "soon"}, {"retry_after_seconds": 9, "error": "retry after 11s"}, 9),
        ({}, {"retry_after_seconds": 2.5}, 2.5),
        ({}, {"details": {"state": "processing_continues", "retryAfterSeconds": 12}}, 12),
        ({}, {"retry_after_seconds": True, "error": "please Retry after 54s, resets at noon"}, 54),
        ({}, {"error": "retry after 11s"}, 11),
        ({}, {"error": "upgrade your plan"}, None),
        ({}, {"error": 5, "details": []}, None),
        ({"retry-after": "9999999999"}, {}, 86_400),
        ({"retry-after": "-5"}, {}, None),
        ({}, {"retry_after_seconds": -5}, 0),
        ({}, {"retry_after_seconds": float("nan")}, None),
        ({}, {"retry_after_seconds": float("-inf")}, 0),
        ({}, {"retry_after_seconds": 10**400}, 86_400),
        ({}, {"details": {"retryAfterSeconds": -(10**400)}}, 0),
    ],
)
def test_the_wait_is_read_from_header_field_or_text(headers: Any, body: Any, seconds: float | None) -> None:
    """It is never longer than a day."""
    asked = wait_asked_for(headers, body, now=NOON)

    assert asked == (None if seconds is None else timedelta(seconds=seconds))


async def test_a_call_waits_as_long_as_the_service_asks(caller: Caller, service: Service) -> None:
    """It does so before each of its attempts."""
    limited = said(429, error="Rate limit exceeded. Consumed: 11, retry after 17s, resets soon")
    service.replies = [limited, limited, STARTED]
    await caller.call("crawl", PAGE)

    assert caller.waited == 34


class Impatient(VirtualClock):
    """A clock that stands still and on which every wait ends at once."""

    async def sleep(self, duration: timedelta) -> None:
        """Go on."""


async def test_many_calls_get_through_a_rate_limit() -> None:
    """Each start is carried out exactly once."""
    refused: Counter[str] = Counter()
    under_way = most = 0

    async def limited(request: httpx.Request) -> httpx.Response:
        nonlocal under_way, most
        url = json.loads(request.content)["url"]
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)  # the others come in between
        under_way -= 1
        refused[url] += 1
        if refused[url] < 4:
            return said(429, success=False, error="Rate limit exceeded, retry after 3s")
        return said(success=True, id=url)

    transport = httpx.MockTransport(limited)
    async with AsyncClient(KEY, BASE, clock=Impatient(NOON), concurrency=10, transport=transport) as client:
        urls = [f"https://example.com/{number}" for number in range(40)]
        started = await asyncio.gather(*(client.crawl(url) for url in urls))

    assert [job.id for job in started] == urls
    assert set(refused.values()) == {4}
    assert most == 10


async def test_a_wait_beyond_the_budget_raises_at_once(caller: Caller, service: Service) -> None:
    """The error has the wait, so that a handler can raise Retry(after=...)."""
    service.replies = [said(429, error="retry after 54s")]
    with pytest.raises(RateLimited) as caught:
        await caller.call("crawl", PAGE)

    assert len(service.requests) == 2
    assert caller.waited == 54
    assert caught.value.retry_after == timedelta(seconds=54)


async def test_the_budget_is_the_same_when_somebody_sets_the_clock(caller: Caller, service: Service) -> None:
    """Forward or back: it is how long a call may take, not until when."""

    def jumping(request: httpx.Request) -> httpx.Response:
        caller.clock.jump(timedelta(minutes=10 if len(service.requests) == 1 else -20))
        return said(429, error="retry after 30s")

    service.replies = [jumping]
    with pytest.raises(RateLimited):
        await caller.call("crawl", PAGE)

    assert len(service.requests) == 3


async def test_the_error_for_a_big_pdf_says_when_it_is_ready(caller: Caller, service: Service) -> None:
    """A scrape is not repeated by itself, but the caller knows how long to wait."""
    service.replies = [said(408, code="SCRAPE_TIMEOUT", details={"retryAfterSeconds": 40})]
    with pytest.raises(ScrapeTimedOut) as caught:
        await caller.call("scrape", PAGE)

    assert caught.value.retry_after == timedelta(seconds=40)


# --- the script alone


def steps_of(
    call: ServiceCall[Any], patience: RetryPolicy, outcomes: list[ServiceResponse | ServiceError]
) -> tuple[list[Any], Any]:
    """Carry out the steps on a clock that their pauses move; return the steps, and the result or error."""
    clock = VirtualClock(NOON)
    acted: list[Any] = []
    steps = call_steps(call, patience, key=SecretStr("k"), clock=clock, rng=random.Random(1))
    step: Any = next(steps)
    try:
        while True:
            acted.append(step)
            if isinstance(step, Pause):
                clock.advance(step.duration)
                step = next(steps)
            else:
                step = steps.send(outcomes.pop(0))
    except StopIteration as end:
        return acted, end.value
    except ServiceError as error:
        return acted, error


def test_the_steps_are_attempts_with_pauses_between() -> None:
    """They need no connection."""
    good = ServiceResponse(200, {}, b'{"success": true, "status": "scraping"}')
    lost = ServiceUnreachable("lost")
    acted, result = steps_of(crawl_status("1"), RetryPolicy(), [lost, lost, good])

    assert [type(step) for step in acted] == [CallAttempt, Pause, CallAttempt, Pause, CallAttempt]
    assert result.status == "scraping"


def test_pauses_are_spread() -> None:
    """Calls that failed together do not come back together, and not before the requested time."""
    patience = RetryPolicy(RetrySchedule((SECOND, SECOND), jitter=0.5), budget=timedelta(minutes=5))
    limited = RateLimited("limited", status=429, retry_after=10 * SECOND)
    acted, result = steps_of(crawl(PAGE), patience, [limited, limited, ServiceUnreachable("x", sent=False)])

    first, second = (step.duration for step in acted if isinstance(step, Pause))
    assert first != second
    assert all(10 * SECOND <= pause <= 11 * SECOND for pause in (first, second))
    assert isinstance(result, ServiceUnreachable)


@pytest.mark.parametrize(("status", "again"), [(None, True), (200, True), (302, False)])
def test_a_broken_answer_is_repeated_and_a_redirect_is_not(status: int | None, again: bool) -> None:
    """The same call would be redirected again."""
    acted, _ = steps_of(
        crawl_status("1"), RetryPolicy(), [UnexpectedAnswer("x", status=status), NotFound("gone", status=404)]
    )

    assert (len(acted) > 1) is again


@for_each(
    ("headers", "seconds"),
    [
        ({"retry-after": "Tue, 04 Aug 2026 14:00:10 +0200"}, 10),
        ({"retry-after": "Tue, 04 Aug 2026 13:00:10 GMT", "date": "Tue, 04 Aug 2026 13:00:00 GMT"}, 10),
        ({"retry-after": "Tue, 04 Aug 2026 12:00:10 GMT", "date": "Tue, 04 Aug 2026 13:00:00 GMT"}, 0),
        ({"retry-after": "Tue, 04 Aug 2026 12:00:10 GMT", "date": "today"}, 10),
        ({"retry-after": "Tue, 04 Aug 2026 12:00:10 GMT", "date": "Tue, 04 Aug 2026 12:00:00"}, 10),
        ({"retry-after": "7", "date": "Tue, 04 Aug 2026 13:00:00 GMT"}, 7),
    ],
)
def test_a_retry_after_date_is_one_of_the_services_clock(headers: dict[str, str], seconds: int) -> None:
    """Its `Date` header shows that clock. Without that header our own clock counts."""
    now = datetime(2026, 8, 4, 12, tzinfo=UTC)

    assert wait_asked_for(headers, {}, now=now) == timedelta(seconds=seconds)


@given(st.text(max_size=60), st.text(max_size=60))
@example("Tue, 04 Aug 9999 23:59:59 -9959", "Tue, 04 Aug 0001 00:00:00 +9959")
@example("Tue, 04 Aug 2026 12:00:10 +99999999999", "")
@example("Tue, 04 Aug 99999999999 12:00:10 GMT", "")
def test_no_header_breaks_the_reading_of_the_wait(asked: str, date: str) -> None:
    """Whatever a server sends, the result is a wait of at most a day, or none."""
    found = wait_asked_for({"retry-after": asked, "date": date}, {}, now=NOON)

    assert found is None or timedelta(0) <= found <= timedelta(days=1)
