"""Deliveries that are tried in another process before they are routed."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from receiver.core.clock import VirtualClock
from receiver.core.deliveries import StoredDelivery
from receiver.core.types import WorkState
from receiver.routing import Router
from receiver.worker.attempts import NoProcess, ProcessDied
from receiver.worker.calls.pools import Call, RoutingCall
from receiver.worker.trial import LIMIT, RoutingTrial
from tests.doubles import NOON, appended, delivery, event_of, eventually, pass_time, soon, turns
from tests.worker.worker_bench import WorkerBench


class Scripted:
    """Stands in for processes: it dies, or hangs, when a handler is asked about a delivery."""

    def __init__(self, dies: Mapping[str, str], hangs: Mapping[str, str]) -> None:
        self.dies = dies
        self.hangs = hangs
        self.calls: list[tuple[list[str], list[str]]] = []
        self.closed = False
        self.error: Exception | None = None

    async def run(self, call: Call, started: Callable[[], None]) -> None:
        """Make a call."""
        assert isinstance(call, RoutingCall)
        keys = [str(one.delivery.key) for one in call.sources]
        self.calls.append((list(call.names), keys))
        if self.error is not None:
            raise self.error
        started()
        if any(self.dies.get(key) in call.names for key in keys):
            raise ProcessDied("the process that ran it died")
        if any(self.hangs.get(key) in call.names for key in keys):
            await asyncio.Event().wait()

    async def aclose(self) -> None:
        """Note it."""
        self.closed = True


def choosy(router: Router, *names: str) -> None:
    """Register handlers whose `where` must not be asked here, and two that never ask any code."""

    async def handle(event: Any) -> None: ...

    for name in names:
        router.add(handle, "*", name=name, where=lambda event: True)
    router.add(handle, "*", name="plain")
    router.add(handle, "*", name="ordered", ordered=True)


def trial_of(router: Router, processes: Scripted, clock: VirtualClock | None = None) -> RoutingTrial:
    """Return a trial of three deliveries."""
    trial = RoutingTrial(processes, clock or VirtualClock(NOON), router, handlers="h:router", folder=Path())
    trial.begin(3)
    return trial


def stored(*keys: str) -> list[StoredDelivery]:
    """Return deliveries with numbers from 1 on."""
    return [StoredDelivery(number, 0, delivery(key)) for number, key in enumerate(keys, 1)]


async def test_harmless_deliveries_are_tried_together() -> None:
    """One call is enough. After as many deliveries as were to be tried there is none, and the processes end."""
    router, processes = Router(), Scripted({}, {})
    choosy(router, "a", "b")
    trial = trial_of(router, processes)

    assert await trial.culprits(stored("k1", "k2")) == {}
    assert not processes.closed
    assert await trial.culprits(stored("k3")) == {}
    assert processes.closed
    assert await trial.culprits(stored("k4")) == {}
    assert processes.calls == [(["a", "b"], ["k1", "k2"]), (["a", "b"], ["k3"])]


async def test_the_handler_and_the_delivery_are_found() -> None:
    """Of two handlers and three deliveries one pair ends the process."""
    router, processes = Router(), Scripted({"k2": "b"}, {})
    choosy(router, "a", "b")

    assert await trial_of(router, processes).culprits(stored("k1", "k2", "k3")) == {
        (2, "b"): "not run: the handler's `where` or `lane` was asked, and the process that ran it died"
    }


async def test_a_handler_that_does_not_answer_is_found() -> None:
    """Its process is killed after the limit."""
    clock = VirtualClock(NOON)
    router, processes = Router(), Scripted({}, {"k1": "a"})
    choosy(router, "a", "b")
    task = asyncio.create_task(_culprits(trial_of(router, processes, clock)))
    while not task.done():
        await pass_time(clock, LIMIT)

    assert await soon(task) == {
        (1, "a"): "not run: the handler's `where` or `lane` was asked, and it took longer than 10 s"
    }


async def _culprits(trial: RoutingTrial) -> Mapping[Any, str]:
    return await trial.culprits(stored("k1", "k2"))


async def test_without_a_process_nothing_is_tried(caplog: pytest.LogCaptureFixture) -> None:
    """Routing goes on as without a trial, and the log says so."""
    router, processes = Router(), Scripted({}, {})
    choosy(router, "a")
    processes.error = NoProcess("none could be started")

    assert await trial_of(router, processes).culprits(stored("k1")) == {}
    assert [event_of(record) for record in caplog.records] == ["routing_not_tried"]


async def test_without_functions_to_ask_nothing_is_tried() -> None:
    """`ordered` reads the id of the job and asks nobody."""
    router, processes = Router(), Scripted({}, {})
    choosy(router)

    assert await trial_of(router, processes).culprits(stored("k1")) == {}
    assert processes.calls == []


async def test_the_worker_does_not_ask_a_culprit(bench: WorkerBench) -> None:
    """Its work item is dead with the reason, also where the handler takes batches; others get the event."""
    asked: list[str] = []

    def where(event: Any) -> bool:
        asked.append(event.webhook_id)
        return True

    @bench.handler("batched", where=where, batch=5)
    async def batched(events: list[Any]) -> None:
        bench.ran.extend("batched" for _ in events)

    @bench.handler("other")
    async def other(event: Any) -> None:
        bench.ran.append("other")

    await appended(bench.store, delivery("good"))
    await appended(bench.store, delivery("bad"))
    async with bench.working(trial=trial_of(bench.router, Scripted({"bad": "batched"}, {}))):
        await turns()
        await bench.after(LIMIT)
        await eventually(lambda: len(bench.ran) == 3)

    assert sorted(bench.ran) == ["batched", "other", "other"]
    assert "bad" not in asked
    states = {one.handler: (one.state, one.last_error) for one in await bench.work("bad")}
    state, error = states.pop("batched")  # type: ignore[call-overload]
    assert state is WorkState.DEAD
    assert error == "not run: the handler's `where` or `lane` was asked, and the process that ran it died"
    assert [state for state, _ in states.values()] == [WorkState.DONE]


async def test_a_culprit_stops_no_lane(bench: WorkerBench) -> None:
    """Nobody can ask for its lane, so it has none, also with `on_dead="hold"`. The guide says so."""

    @bench.handler("held", lane=lambda event: "the lane", on_dead="hold")
    async def held(event: Any) -> None:
        bench.ran.append(event.webhook_id)

    await appended(bench.store, delivery("bad"))
    await appended(bench.store, delivery("good"))
    async with bench.working(trial=trial_of(bench.router, Scripted({"bad": "held"}, {}))):
        await eventually(lambda: bench.ran == ["good"])

    (dead,), (done,) = await bench.work("bad"), await bench.work("good")
    assert (dead.state, dead.lane, dead.holds_lane) == (WorkState.DEAD, None, False)
    assert (done.state, done.lane) == (WorkState.DONE, "the lane")
