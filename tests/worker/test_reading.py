"""When a worker reads the body of a delivery: once, and not before it has to."""

import logging
import weakref
from collections.abc import Sequence
from typing import Any

import pytest

from receiver.core.types import WorkState
from receiver.events import CrawlPage, Event, ScheduledRun, parse_event
from receiver.worker import events as worker_events
from receiver.worker.settling import ResultSettler
from tests.doubles import body_of, delivery, event_of
from tests.worker.worker_bench import MINUTE, WorkerBench

PAGES = [delivery(name) for name in "abc"]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The bodies that were read as events."""
    bodies: list[bytes] = []

    def reading(body: bytes) -> Event:
        bodies.append(body)
        return parse_event(body)

    monkeypatch.setattr(worker_events, "parse_event", reading)
    return bodies


async def test_events_that_wait_in_a_lane_are_read_once(bench: WorkerBench, read: list[bytes]) -> None:
    @bench.handler("h", CrawlPage, ordered=True)
    async def handle(event: CrawlPage) -> None:
        bench.ran.append(str(event.webhook_id))

    async with bench.working():
        await bench.add(*PAGES)
    assert bench.ran == ["a", "b", "c"]
    assert read == [one.body for one in PAGES]


async def test_handlers_of_one_delivery_get_the_same_event(bench: WorkerBench, read: list[bytes]) -> None:
    given: list[Event] = []
    for name in ("one", "two"):

        @bench.handler(name, "crawl.*")
        async def handle(event: Event) -> None:
            given.append(event)

    async with bench.working():
        await bench.add(PAGES[0])
    assert len(given) == 2
    assert given[0] is given[1]
    assert len(read) == 1


async def test_a_batch_is_read_when_its_call_begins(bench: WorkerBench, read: list[bytes]) -> None:
    """And not with all that waits: it could not stay in the cache of the processor until then."""
    read_at_call: list[int] = []

    @bench.handler("h", CrawlPage, batch=2, linger=MINUTE, concurrency=1)
    async def handle(events: Sequence[CrawlPage]) -> None:
        read_at_call.append(len(read))
        bench.ran += [str(event.webhook_id) for event in events]

    async with bench.working():
        await bench.add(*[delivery(name) for name in "abcd"])
    assert bench.ran == ["a", "b", "c", "d"]
    assert read_at_call == [2, 4]


async def test_the_events_of_a_batch_are_gone_when_its_call_has_ended(
    bench: WorkerBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its results may have to wait for the store, and need no events."""
    events: list[weakref.ref[Event]] = []
    left: list[int] = []
    submit = ResultSettler.submit

    def look(settler: ResultSettler, *ended: Any) -> None:
        left.append(sum(event() is not None for event in events))
        submit(settler, *ended)

    monkeypatch.setattr(ResultSettler, "submit", look)

    @bench.handler("h", CrawlPage, batch=2)
    async def handle(given: Sequence[CrawlPage]) -> None:
        events.extend(map(weakref.ref, given))

    async with bench.working():
        await bench.add(*PAGES[:2])
    assert len(events) == 2
    assert left == [0]


@pytest.mark.parametrize("together", [1, 2])
async def test_what_is_unknown_in_a_batch_is_logged_once(
    bench: WorkerBench, caplog: pytest.LogCaptureFixture, together: int
) -> None:
    caplog.set_level(logging.INFO)

    @bench.handler("h", CrawlPage, batch=together)
    async def handle(events: Sequence[CrawlPage]) -> None:
        bench.ran.append("ran")

    async with bench.working():
        await bench.add(*[delivery(name, body=body_of("crawl.page", id="job", newThing=name)) for name in "ab"])
    assert len(bench.ran) == 2 // together
    assert [event_of(record) for record in caplog.records].count("event_drift") == 1


async def test_few_of_many_waiting_events_are_read(bench: WorkerBench, read: list[bytes]) -> None:
    """All events that a worker claims could take much memory together."""
    read_at_call: list[int] = []

    @bench.handler("h", CrawlPage)
    async def handle(event: CrawlPage) -> None:
        read_at_call.append(len(read))

    pages = [delivery(f"page {number}") for number in range(100)]
    async with bench.working():
        await bench.add(*pages)
    assert len(read_at_call) == 100
    assert all(0 <= read_so_far - calls <= 32 for calls, read_so_far in enumerate(read_at_call, 1))
    assert read == [one.body for one in pages]


async def test_an_event_that_where_was_asked_about_is_not_read_again(bench: WorkerBench, read: list[bytes]) -> None:
    @bench.handler("h", CrawlPage, where=lambda event: event.job_id == "job")
    async def handle(event: CrawlPage) -> None:
        bench.ran.append("ran")

    async with bench.working():
        await bench.add(PAGES[0])
    assert (bench.ran, len(read)) == (["ran"], 1)


async def test_a_handler_is_not_called_for_a_body_that_no_model_can_read(bench: WorkerBench) -> None:
    called: list[Any] = []
    bench.handler("page", CrawlPage)(lambda event: called.append(event))

    async with bench.working():
        await bench.add(delivery("a", body=b"[]"))
    assert not called
    assert (await bench.outcome("a"))[0] is WorkState.DONE


async def test_what_is_unknown_in_a_waiting_event_is_logged_once(
    bench: WorkerBench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    @bench.handler("h", CrawlPage, ordered=True)
    async def handle(event: CrawlPage) -> None:
        bench.ran.append(str(event.webhook_id))

    async with bench.working():
        await bench.add(*[delivery(name, body=body_of("crawl.page", id="job", newThing=name)) for name in "ab"])
    assert len(bench.ran) == 2
    assert [event_of(record) for record in caplog.records].count("event_drift") == 1


async def test_a_scheduled_run_is_not_logged_as_unknown(
    bench: WorkerBench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    @bench.router.every("1 minute", name="h", jitter=0)
    async def run(event: ScheduledRun) -> None:
        bench.ran.append("ran")

    async with bench.working():
        await bench.after(MINUTE)
    assert bench.ran == ["ran"]
    assert "event_drift" not in map(event_of, caplog.records)
