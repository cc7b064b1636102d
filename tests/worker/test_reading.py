"""When a worker reads the body of a delivery: once, and not before it has to."""

import logging
from typing import Any

import pytest

from receiver.core.types import WorkState
from receiver.events import CrawlPage, Event, ScheduledRun, parse_event
from receiver.worker import fanout
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

    monkeypatch.setattr(fanout, "parse_event", reading)
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
