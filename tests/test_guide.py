"""Each example of a handler in the guide does what the text beside it says."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import receiver
from receiver import events
from receiver.core.types import WorkState
from receiver.core.work import WorkFilter
from receiver.routing import Handler, Router
from receiver.routing.policies import RunsIn
from receiver.signals import contracts as signals
from tests.doubles import body_of, delivery
from tests.service.client.calling import Caller, Service, said
from tests.testing.test_plugin import run_apart
from tests.texts import ROOT, section
from tests.workbench import MINUTE, SECOND, bench


class Database:
    """The resource of the example."""

    opened: "list[Database]" = []  # noqa: RUF012 - one for all

    def __init__(self, name: str) -> None:
        self.name = name
        self.closed = False

    async def __aenter__(self) -> "Database":
        self.opened.append(self)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.closed = True


def example(heading: str) -> Router:
    """Run the block under a heading as it stands; return the router it fills."""
    router = example_names(heading)["router"]
    assert isinstance(router, Router)
    return router


def example_names(heading: str) -> dict[str, Any]:
    """Run the block under a heading as it stands; return the names it leaves."""
    names: dict[str, Any] = {
        "__name__": "handlers",
        "router": Router(),
        "timedelta": timedelta,
        "AsyncIterator": AsyncIterator,
        "Database": Database,
        **{name: getattr(receiver, name) for name in receiver.__all__},
        **{name: getattr(events, name) for name in events.__all__},
    }
    exec(compile(section(heading), heading, "exec", flags=0, dont_inherit=True), names)
    return names


class Watched:
    """The handlers of a router, called as before, with a note of each call and a gate in front."""

    def __init__(self, router: Router) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.gate = asyncio.Event()
        self.router = router.changed(
            lambda handler: replace(handler, function=self._noting(handler), runs_in=RunsIn.LOOP)
        )

    def keys(self, name: str) -> list[str]:
        """Return the webhook ids of the events that a handler was called with, in order."""
        return [event.webhook_id for called, event in self.calls if called == name]

    def _noting(self, handler: Handler) -> Callable[..., Awaitable[None]]:
        async def note(event: Any, *rest: Any, **more: Any) -> None:
            self.calls.append((handler.name.rpartition(".")[2], event))
            await self.gate.wait()

        return note


async def test_in_order() -> None:
    """One event of a job runs after the other, and jobs run beside each other."""
    watched = Watched(example("In order"))
    async with bench(watched.router) as at:
        await at.add(
            delivery("a1", kind="crawl.started", job_id="a"),
            delivery("a2", job_id="a"),
            delivery("b1", job_id="b"),
        )
        assert watched.keys("follow") == ["a1", "b1"]

        watched.gate.set()
        await at.after(SECOND)

        assert watched.keys("follow") == ["a1", "b1", "a2"]
        assert await at.states() == [WorkState.DONE] * 3


async def test_in_order__a_dead_one_holds_its_lane() -> None:
    """With on_dead="hold" the next one waits until somebody decides."""
    router = example("In order")
    [compare] = [handler for handler in router if handler.name == "handlers.compare"]
    assert compare.lane is not None
    assert compare.lane.holds_when_dead
    page = events.parse_event(
        b'{"type": "monitor.page", "id": "c", "data": [{"url": "https://example.com/a"}], "success": true}'
    )
    assert compare.lane.key(page) == "https://example.com/a"


async def test_completed_comes_last() -> None:
    """It runs once the pages that came after it are handled and it has been quiet."""
    router = example("Completed comes last")
    router.add(_nothing, "crawl.page", name="page")
    watched = Watched(router)
    watched.gate.set()
    async with bench(watched.router) as at:
        await at.add(delivery("end", kind="crawl.completed"))
        await at.after(MINUTE)
        await at.add(delivery("late page", received_at=at.clock.now()))
        await at.after(MINUTE)
        assert watched.keys("publish") == []
        [item] = [one async for one in at.store.work_items(WorkFilter(handler="*publish"))]
        assert "quiet until 12:03:00" in (item.note or "")

        await at.after(MINUTE + SECOND)

        assert watched.keys("publish") == ["end"]


async def test_batches() -> None:
    """A hundred come at once, and the rest after two seconds."""
    watched = Watched(example("Batches"))
    watched.gate.set()
    async with bench(watched.router) as at:
        await at.add(*[delivery(f"k{n}") for n in range(130)])
        assert [len(events) for _, events in watched.calls] == [100]

        await at.after(2 * SECOND)

        assert [len(events) for _, events in watched.calls] == [100, 30]
        assert await at.states() == [WorkState.DONE] * 130


async def test_limits() -> None:
    """Thirty a minute begin two seconds apart, at most four at a time."""
    router = example("Limits")
    [asks, extract] = router
    assert extract.runs_in is RunsIn.PROCESS
    watched, name = Watched(router), asks.name.rpartition(".")[2]
    async with bench(watched.router) as at:
        await at.add(*[delivery(f"k{n}") for n in range(9)])
        started = [len(watched.keys(name))]
        for _ in range(6):
            await at.after(2 * SECOND)
            started.append(len(watched.keys(name)))

    assert started == [1, 2, 3, 4, 4, 4, 4]


async def test_retries() -> None:
    """The first attempt asks for another in a minute, and that one gives up."""
    async with bench(example("Retries")) as at:
        await at.add(delivery(kind="extract.completed"))
        assert await at.states() == [WorkState.WAITING]

        await at.after(MINUTE)

        assert await at.states() == [WorkState.DEAD]
        detail = await at.store.work_item(1)
        assert [one.error for one in detail.attempts] == [
            "Retry: not yet",
            "GiveUp: nobody wants it",
        ]


async def test_once(caplog: pytest.LogCaptureFixture) -> None:
    """A second event of the job sends no second mail."""
    caplog.set_level(logging.INFO)
    async with bench(example("Once")) as at:
        await at.add(delivery("k1", kind="crawl.completed"), delivery("k2", kind="crawl.completed"))

        assert await at.states() == [WorkState.DONE] * 2
        assert [record.message for record in caplog.records if record.name == "handlers.mail"] == ["sent"]


async def test_resources() -> None:
    """One database is made for the worker, given to the handler, and closed after it."""
    Database.opened.clear()
    async with bench(example("Resources")) as at:
        await at.add(delivery("k1"), delivery("k2"))
        [opened] = Database.opened
        assert await at.states() == [WorkState.DONE] * 2
        assert not opened.closed

    assert opened.closed


async def test_signals(capsys: pytest.CaptureFixture[str]) -> None:
    """A dead work item raises the alarm."""
    alarm = example_names("Signals")["alarm"]
    router = example("Retries")
    try:
        async with bench(router) as at:
            await at.add(delivery(kind="extract.completed"))
            await at.after(MINUTE)
        assert await asyncio.to_thread(signals.flush)
    finally:
        signals.work_dead.disconnect(alarm)

    expected = "handlers.store gave up on extract.completed of job job\nGiveUp: nobody wants it\n"
    assert capsys.readouterr().out == expected


async def _nothing(event: events.Event) -> None:
    """Handle an event."""


async def test_from_a_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    """A changed page starts a crawl that reports to this receiver, under the delivery's key."""
    monkeypatch.setenv("RECEIVER_PUBLIC_URL", "https://hooks.example.com")
    service = Service([said(success=True, id="019f", url="https://api.example.com/v2/crawl/019f")])
    client = Caller("async", service).client
    [crawl_again] = example("From a handler")
    event = events.parse_event(
        body_of("monitor.page", data=[{"url": "https://example.com/a", "status": "changed"}])
    )
    assert crawl_again.wants(event)

    await crawl_again.function(event, SimpleNamespace(client=client, delivery=SimpleNamespace(id="k")))

    [(method, path, body)] = service.sent
    assert (method, path, body["url"]) == ("POST", "/v2/crawl", "https://example.com/a")
    assert body["webhook"] == {"url": "https://hooks.example.com/webhooks", "events": ["page", "completed"]}
    assert service.requests[0].headers["x-idempotency-key"]


def test_test_your_handlers(tmp_path: Path) -> None:
    """The test passes, given a router with a handler of that name."""
    tests = "from examples.own_router import router\n" + section("Test your handlers")

    said = run_apart(tmp_path, "", tests, "-p", "no:asyncio", "-o", f"pythonpath={ROOT}")

    assert " 1 passed" in said, said
