"""Traces: one of them from the request to the handler, with what the conventions for messaging name."""

import importlib.util
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from receiver import Context, Retry, Router
from receiver.core.deliveries import StoredDelivery
from receiver.core.retries import RetrySchedule
from receiver.core.signing import sign, trace_of, with_trace
from receiver.errors import ConfigurationError, StoreError
from receiver.events import Event
from receiver.service.client import AsyncClient
from receiver.service.client.retrying import RetryPolicy
from receiver.settings import Settings
from receiver.signals.traces import starting
from receiver.signals.traces.http import sent
from receiver.signals.traces.spans import DeliverySpans
from receiver.signals.traces.switch import switch_on
from receiver.testing import RunningEmulator, RunningReceiver, SteppedClock, open_receiver, settings_for_test
from receiver.testing.application import SECRET
from receiver.worker.calls.child import answer
from receiver.worker.calls.pools import FunctionCall, NumberedCall
from receiver.worker.calls.runner import delivery_info
from tests.doubles import BrokenLog, accepted, body_of, delivery, turns
from tests.signals.process_handler import traced_in_process
from tests.web.parts import intake

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
INCOMING = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "vendor=1"}
BODY = body_of(webhookId="w-1", id="job-1", data=[{"markdown": "a text that is nobody's business"}])


@asynccontextmanager
async def receiving(folder: Path, router: Router, **settings: Any) -> AsyncIterator[RunningReceiver]:
    """Run a receiver and a worker with traces."""
    clock = SteppedClock()
    used = settings_for_test(folder, store="memory://", traces=True, **settings)
    async with open_receiver(router, used, clock) as app:
        yield app


async def post(app: RunningReceiver, body: bytes = BODY, headers: Mapping[str, str] = INCOMING) -> int:
    signed = {**headers, "X-Firecrawl-Signature": sign(body, SECRET)}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        return (await client.post("/webhooks", content=body, headers=signed)).status_code


def named(spans: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [one for one in spans.get_finished_spans() if one.name == name]


def parent_of(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


async def test_one_trace_leads_from_the_request_to_the_handler(spans: InMemorySpanExporter, tmp_path: Path) -> None:
    """The sender's trace goes on, and a span of the handler's own code is part of it. No body is in it."""
    router = Router()

    @router.on("*", name="save")
    async def save(event: Event, ctx: Context) -> None:
        assert dict(ctx.delivery.headers)["traceparent"] == INCOMING["traceparent"]
        assert not [name for name, _ in ctx.delivery.headers if name.startswith(":")]
        with trace.get_tracer("own").start_as_current_span("own"):
            pass

    async with receiving(tmp_path, router) as app:
        assert await post(app) == 200
        [item] = await app.work_items()
        assert item.state == "done"

    [received], [processed], [own] = (named(spans, n) for n in ("receive crawl.page", "process crawl.page", "own"))
    assert {one.context.trace_id for one in (received, processed, own)} == {int(TRACE, 16)}
    assert parent_of(received) == int(PARENT, 16)
    assert parent_of(processed) == received.context.span_id
    assert parent_of(own) == processed.context.span_id
    assert processed.context.trace_state.get("vendor") == "1"
    assert received.kind is processed.kind is SpanKind.CONSUMER
    message = {
        "messaging.system": "crawl_receiver",
        "messaging.destination.name": "crawl.page",
        "messaging.message.id": "w-1",
        "messaging.message.conversation_id": "job-1",
        "messaging.message.body.size": len(BODY),
        "receiver.outcome": "accepted",
    }
    seconds = dict(received.attributes or {}).pop("receiver.commit.seconds")
    assert isinstance(seconds, float)
    operation = {"messaging.operation.name": "receive", "messaging.operation.type": "receive"}
    assert received.attributes == message | operation | {"receiver.commit.seconds": seconds}
    assert processed.attributes == message | {
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.consumer.group.name": "save",
        "receiver.attempt": 1,
        "receiver.trigger": "delivery",
        "receiver.outcome": "succeeded",
    }
    assert "nobody's business" not in json.dumps([one.to_json() for one in spans.get_finished_spans()])
    assert SECRET not in json.dumps([one.to_json() for one in spans.get_finished_spans()])


async def test_each_attempt_has_a_span_with_its_exception(spans: InMemorySpanExporter, tmp_path: Path) -> None:
    """A retry stays in the trace, and a duplicate has a span that says so."""
    router, clock = Router(), SteppedClock()

    @router.on("*", name="save", attempts=2)
    def save(event: Event, ctx: Context) -> None:
        if ctx.attempt == 1:
            raise Retry("not yet", after=timedelta(seconds=1))

    used = settings_for_test(tmp_path, store="memory://", traces=True)
    async with open_receiver(router, used, clock) as app:
        assert await post(app, headers={}) == 200
        assert await post(app, headers={}) == 200
        await clock.advance(timedelta(seconds=2))
        await app.work_items()

    accepted, duplicate = named(spans, "receive crawl.page")
    first, second = named(spans, "process crawl.page")
    assert accepted.parent is None
    assert (duplicate.attributes or {})["receiver.outcome"] == "duplicate"
    assert parent_of(first) == parent_of(second) == accepted.context.span_id
    assert [(one.attributes or {})["receiver.attempt"] for one in (first, second)] == [1, 2]
    assert [(one.attributes or {})["receiver.trigger"] for one in (first, second)] == ["delivery", "retry"]
    assert (first.attributes or {})["error.type"] == "Retry"
    assert first.status.status_code is StatusCode.ERROR
    [event] = first.events
    assert event.name == "exception"
    assert (event.attributes or {})["exception.message"] == "not yet"
    assert not second.events


async def test_a_batch_has_links_to_the_traces_of_its_events(spans: InMemorySpanExporter, tmp_path: Path) -> None:
    """It belongs to none of them: a span has one parent at most."""
    router = Router()

    @router.on("*", name="save", batch=2)
    def save(events: list[Event]) -> None: ...

    async with receiving(tmp_path, router) as app:
        for number in range(2):
            assert await post(app, body_of(webhookId=f"w-{number}"), {}) == 200
        await app.work_items()

    received, [processed] = named(spans, "receive crawl.page"), named(spans, "process crawl.page")
    assert processed.parent is None
    assert [one.context.span_id for one in processed.links] == [one.context.span_id for one in received]
    assert (processed.attributes or {})["messaging.batch.message_count"] == 2


async def test_without_an_intake_that_traces_the_trace_of_the_sender_goes_on(spans: InMemorySpanExporter) -> None:
    """Traces may be on in the worker alone, and what is wrong in a header makes a new trace."""
    assert trace_of((("traceparent", "1"), ("accept", "*/*"))) == {"traceparent": "1"}
    kept = with_trace(tuple(INCOMING.items()), {"traceparent": "2"})
    assert trace_of(kept) == {"traceparent": "2"}
    assert delivery_info(StoredDelivery(1, 0, delivery(headers=kept))).headers == tuple(INCOMING.items())
    assert trace_of(()) == {}


async def test_each_try_of_a_client_has_a_span(spans: InMemorySpanExporter) -> None:
    """With its status, and without key, query and body. Also one that cannot be reached."""
    statuses = [429, 200, 404]

    def answer(request: httpx.Request) -> httpx.Response:
        if not statuses:
            raise httpx.ConnectError("no")
        assert request.headers["traceparent"]
        return httpx.Response(statuses.pop(0), json={"success": True, "id": "j", "url": "https://x.example"})

    transport = httpx.MockTransport(answer)
    patience = RetryPolicy(RetrySchedule((timedelta(0),)))
    async with AsyncClient("the-key", "https://api.example.com", transport=transport, patience=patience) as client:
        await client.crawl("https://docs.example.com/private")
        await client.get("/v2/nowhere", params={"q": "what somebody asked"})
        with pytest.raises(httpx.ConnectError):
            await client.get("/v2/nowhere")

    made = spans.get_finished_spans()
    found = [(one.name, (one.attributes or {}).get("http.response.status_code")) for one in made]
    assert found == [("POST", 429), ("POST", 200), ("GET", 404), ("GET", None)]
    assert [(one.attributes or {}).get("error.type") for one in made] == ["429", None, "404", "ConnectError"]
    assert (made[2].attributes or {})["url.full"] == "https://api.example.com/v2/nowhere"
    assert (made[2].attributes or {})["server.port"] == 443
    written = json.dumps([one.to_json() for one in made])
    assert "the-key" not in written
    assert "what somebody asked" not in written
    assert "private" not in written


async def test_what_cannot_be_stored_ends_with_an_error(spans: InMemorySpanExporter) -> None:
    """The store's exception is in the span of the delivery."""
    receiving = intake(BrokenLog(StoreError("the disk is full")), traces=DeliverySpans())
    signature = sign(BODY, "example-secret-1").encode()
    with pytest.raises(StoreError):
        await accepted(receiving, [(b"x-firecrawl-signature", signature)], BODY)
    await turns()

    [span] = named(spans, "receive crawl.page")
    assert span.status.status_code is StatusCode.ERROR
    assert (span.attributes or {})["error.type"] == "StoreError"


async def test_what_watches_spans_steers_nothing(
    spans: InMemorySpanExporter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A span processor that raises costs neither the answer nor the attempt; the log tells it."""

    def fail(*_: object, **__: object) -> None:
        raise ValueError("a processor")

    monkeypatch.setattr(SimpleSpanProcessor, "on_start", fail)
    monkeypatch.setattr(SimpleSpanProcessor, "on_end", fail)
    router = Router()

    @router.on("*", name="save")
    async def save(event: Event) -> None: ...

    async with receiving(tmp_path, router) as app:
        assert await post(app) == 200
        [item] = await app.work_items()
    assert item.state == "done"


def test_a_function_in_another_process_is_part_of_the_trace(spans: InMemorySpanExporter) -> None:
    """The call tells the process which trace it belongs to."""
    source = StoredDelivery(1, 0, delivery())
    name = traced_in_process.__qualname__
    answers: list[object] = []
    call = FunctionCall(traced_in_process.__module__, name, False, (source,), {}, INCOMING)
    answer(NumberedCall(1, call), answers.append)

    [own] = named(spans, "in process")
    assert parent_of(own) == int(PARENT, 16)


@pytest.fixture
def receiver_sites() -> Mapping[str, Mapping[str, str]]:
    """A site of two pages."""
    return {"https://docs.acme.test": {"/": '<a href="/two">Two</a>', "/two": "<p>Two</p>"}}


@pytest.fixture
def receiver_settings(tmp_path: Path) -> Settings:
    """Traces are on."""
    return settings_for_test(tmp_path, store="memory://", traces=True)


@pytest.fixture
def receiver_router() -> Router:
    """One handler."""
    router = Router()

    @router.on("crawl.page", name="save")
    async def save(event: Event) -> None: ...

    return router


async def test_a_crawl_is_one_trace_from_the_start_to_the_handlers(
    spans: InMemorySpanExporter, receiver_emulator: RunningEmulator, receiver_work_items: Any
) -> None:
    """Client, emulator, its webhooks, the receiver and its handlers, with our client's key in no attribute."""
    with trace.get_tracer("own").start_as_current_span("the program") as program:
        trace_id = program.get_span_context().trace_id
        await receiver_emulator.crawl("https://docs.acme.test", limit=2)
    assert len(await receiver_work_items()) == 2

    of_trace = [one for one in spans.get_finished_spans() if one.context.trace_id == trace_id]
    kinds = {(one.name, one.kind) for one in of_trace}
    assert kinds >= {
        ("POST", SpanKind.CLIENT),
        ("POST /v2/crawl", SpanKind.SERVER),
        ("receive crawl.page", SpanKind.CONSUMER),
        ("process crawl.page", SpanKind.CONSUMER),
    }
    assert len(named(spans, "process crawl.page")) == 2
    [started] = [one for one in of_trace if one.name == "POST /v2/crawl"]
    assert (started.attributes or {})["http.response.status_code"] == 200
    calls = {one.context.span_id: one for one in of_trace if one.kind is SpanKind.CLIENT}
    asked = calls[parent_of(started) or 0]
    assert (asked.attributes or {})["http.request.method"] == "POST"
    assert str((asked.attributes or {})["url.full"]).endswith("/v2/crawl")
    hooks = [one for one in of_trace if one.name.startswith("receive ")]
    assert all(parent_of(one) in calls for one in hooks)


def test_traces_without_the_package_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says what to install."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"pip install 'crawl-receiver\[otel\]'"):
        switch_on()


def test_a_setup_that_fails_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one without the exporter that its variables name."""

    class Broken:
        name = "broken"

        def load(self) -> None:
            raise RuntimeError("no exporter is named otlp")

    monkeypatch.setattr(starting, "entry_points", lambda group: [Broken()])
    with pytest.raises(ConfigurationError, match="no exporter is named otlp"):
        starting.start_traces.__wrapped__()


async def test_an_exception_that_quotes_a_page_is_noted_in_short(
    spans: InMemorySpanExporter, tmp_path: Path
) -> None:
    """Spans wait in memory by the thousand, and exporters drop all of them for one text that is not UTF-8."""
    router = Router()

    @router.on("*", name="save", attempts=1)
    async def save(event: Event) -> None:
        raise ValueError("\ud800 " + "page " * 100_000)

    async with receiving(tmp_path, router) as app:
        assert await post(app) == 200
        await app.work_items()
    [event] = named(spans, "process crawl.page")[0].events
    noted = event.attributes or {}
    assert noted["exception.type"] == "ValueError"
    assert str(noted["exception.message"]).startswith("\\ud800 page page")
    assert "in test_an_exception_that_quotes_a_page" in str(noted["exception.stacktrace"])
    assert max(len(str(one).encode()) for one in noted.values()) < 10_000


def test_an_address_with_no_such_port_is_left_to_the_library(spans: InMemorySpanExporter) -> None:
    """A span never decides whether a request is sent."""
    with sent("POST", "http://localhost:99999/hook", {}):
        pass
    assert "server.port" not in (named(spans, "POST")[0].attributes or {})
