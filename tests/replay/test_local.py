"""Tests of handlers that run in this process: which ones run, in which order, and with which result."""

import asyncio
from datetime import datetime
from typing import Any

import pytest

from receiver.core.clock import SystemClock, VirtualClock
from receiver.core.deliveries import StoredDelivery
from receiver.core.types import AttemptOutcome, HandlerName, Trigger
from receiver.errors import GiveUp, Retry
from receiver.replay.local import LocalRun, LocalRunner
from receiver.routing import Router
from receiver.routing.context import BatchContext, Context
from receiver.worker.calls.runner import Runner
from tests.doubles import NOON, Inline, delivery
from tests.workbench import SECOND


def stored(seq: int, kind: str = "crawl.page", **changes: Any) -> StoredDelivery:
    """Return a stored delivery that arrived so many seconds after noon."""
    return StoredDelivery(seq, 0, delivery(f"k{seq}", kind=kind, received_at=NOON + seq * SECOND, **changes))


def here(router: Router, **options: Any) -> LocalRunner:
    """Return a runner for the handlers of a router."""
    return LocalRunner(router, Runner(VirtualClock(NOON), Inline(), ask_once=_first), **options)


async def _first(handler: HandlerName, key: str, now: datetime) -> bool:
    return True


async def outcome(router: Router, **options: Any) -> LocalRun:
    """Return the result of the only handler for a delivery."""
    [ran] = await here(router, **options).run(stored(1))
    return ran


def told(results: Any) -> list[tuple[str, str, object]]:
    """Return the key, the handler and the value of each result."""
    return [(ran.stored.delivery.key, ran.handler.name, ran.value) for ran in results]


@pytest.fixture
def router() -> Router:
    """A router without handlers."""
    return Router()


async def test_every_handler_that_matches_a_delivery_is_called(router: Router) -> None:
    """They run in the order of registration and return their values: async, plain, and with a process."""
    router.add(_doubled, "crawl.*", name="async")
    router.add(lambda event: None, "monitor.*", name="other")
    router.add(len_of_type, "crawl.page", name="plain")
    router.add(len_of_type, "*", name="process", run_in="process")
    router.add(len_of_type, "*", name="picky", where=lambda event: event.job_id == "another")

    results = await here(router).run(stored(1))

    assert told(results) == [("k1", "async", "jobjob"), ("k1", "plain", 10), ("k1", "process", 10)]
    assert {one.attempt.outcome for one in results} == {AttemptOutcome.SUCCEEDED}
    assert [one.attempt.trigger for one in results] == [Trigger.REPLAY] * 3


async def _doubled(event: Any) -> str:
    return str(event.job_id) * 2


def len_of_type(event: Any) -> int:
    return len(event.type)


async def test_only_selected_handlers_are_called(router: Router) -> None:
    """They are selected by name. An empty selection calls none."""
    router.add(len_of_type, "*", name="one")
    router.add(len_of_type, "*", name="two")
    run = here(router)

    assert told(await run.run(stored(1), frozenset({HandlerName("two")}))) == [("k1", "two", 10)]
    assert await run.run(stored(1), frozenset()) == []


async def test_an_event_that_no_model_can_read_is_handled(router: Router) -> None:
    """It is an UnknownEvent with the type of the envelope."""
    router.add(len_of_type, "*", name="one")

    assert told(await here(router).run(stored(1, body=b"\x00"))) == [("k1", "one", 10)]


@pytest.mark.parametrize(
    ("raised", "error"),
    [
        (ValueError("no"), "ValueError: no"),
        (Retry(after=SECOND), "Retry: the handler asked for a retry"),
        (GiveUp("enough"), "GiveUp: enough"),
        (SystemExit(3), "SystemExit: 3"),
        (asyncio.CancelledError(), "CancelledError"),
    ],
)
@pytest.mark.parametrize("plain", [False, True])
async def test_an_exception_of_a_handler_is_a_result(
    router: Router, plain: bool, raised: BaseException, error: str
) -> None:
    """It is not retried, and its traceback starts in the handler."""

    def fail(event: object) -> None:
        raise raised

    async def fail_async(event: object) -> None:
        raise raised

    router.add(fail if plain else fail_async, "*", name="one")
    ran = await outcome(router)

    assert (ran.attempt.outcome, ran.attempt.error, ran.value) == (AttemptOutcome.FAILED, error, None)
    assert ran.traceback is not None
    assert ran.traceback.splitlines()[1].endswith(", in fail" if plain else ", in fail_async")


async def test_ctrl_c_in_an_async_handler_is_not_a_result(router: Router) -> None:
    """Such a handler blocks the event loop, and Ctrl-C is not related to its event."""

    async def interrupted(event: object) -> None:
        raise KeyboardInterrupt

    router.add(interrupted, "*", name="one")
    with pytest.raises(KeyboardInterrupt):
        await here(router).run(stored(1))


async def test_an_exception_of_a_condition_is_a_result(router: Router) -> None:
    """It has the traceback of the condition."""
    router.add(len_of_type, "*", name="one", where=lambda event: event.nonsense)
    ran = await outcome(router)

    assert ran.attempt.outcome is AttemptOutcome.FAILED
    assert "nonsense" in (ran.traceback or "")


async def test_a_timeout_of_a_handler_is_a_result(router: Router) -> None:
    """A worker gives the same result."""

    async def slow(event: object) -> None:
        await asyncio.Event().wait()

    router.add(slow, "*", name="one", timeout=0.01)
    [ran] = await LocalRunner(router, Runner(SystemClock(), Inline())).run(stored(1))

    assert ran.attempt.outcome is AttemptOutcome.TIMED_OUT
    assert "took longer than 0.01 s" in (ran.attempt.error or "")


async def test_each_call_has_its_own_value(router: Router) -> None:
    """A call that raises has no value, and neither has one whose condition is false."""
    router.add(len_of_type, "*", name="one")

    def fail(event: object) -> None:
        raise ValueError

    router.add(fail, "*", name="two")

    assert [ran.value for ran in await here(router).run(stored(1))] == [10, None]


async def test_handlers_get_a_context(router: Router) -> None:
    """It has the trigger and the delivery, and answers `once`."""
    seen: list[object] = []

    async def look(event: object, ctx: Context) -> None:
        ctx.heartbeat()
        seen.extend([ctx.trigger, ctx.attempt, ctx.delivery.id, ctx.job_id, await ctx.once("key")])

    router.add(look, "*", name="one")
    await here(router).run(stored(1))

    assert seen == [Trigger.REPLAY, 1, "k1", "job", True]


class Database:
    """A resource."""


async def test_handlers_get_resources(router: Router) -> None:
    """A worker does the same."""
    database = Database()

    async def use(event: object, *, given: Database) -> bool:
        return given is database

    router.add(use, "*", name="one")
    run = LocalRunner(router, Runner(VirtualClock(NOON), Inline(), resources={Database: database}))

    assert told(await run.run(stored(1))) == [("k1", "one", True)]


async def test_batches_are_called_when_they_are_full(router: Router) -> None:
    """The rest is called at the end. All events of a call have its value."""

    async def many(events: list[Any], ctx: BatchContext) -> list[str]:
        return [info.id for info in ctx.deliveries]

    router.add(many, "*", name="many", batch=2)
    router.add(len_of_type, "*", name="one")
    run = here(router)

    results = [told(await run.run(stored(seq))) for seq in (1, 2, 3)]
    assert results == [
        [("k1", "one", 10)],
        [("k1", "many", ["k1", "k2"]), ("k2", "many", ["k1", "k2"]), ("k2", "one", 10)],
        [("k3", "one", 10)],
    ]
    assert run.waiting
    assert told(await run.finish()) == [("k3", "many", ["k3"])]
    assert not run.waiting
    assert await run.finish() == []


async def test_a_failed_batch_is_a_failure_of_each_event(router: Router) -> None:
    """None of them is retried."""
    calls: list[int] = []

    def fail(events: list[Any]) -> None:
        calls.append(len(events))
        raise ValueError("no")

    router.add(fail, "*", name="many", batch=2)
    run = here(router)
    await run.run(stored(1))
    results = await run.run(stored(2))

    assert [ran.attempt.error for ran in results] == ["ValueError: no"] * 2
    assert calls == [2]


async def test_the_time_of_arrival_is_set_before_each_call(router: Router) -> None:
    """It is the time of the delivery, or of the last delivery in a batch."""
    arrivals: list[datetime] = []

    def note(event: object) -> None:
        arrivals.append(NOON)

    def note_many(events: object) -> None:
        arrivals.append(NOON)

    router.add(note, "*", name="one")
    router.add(note_many, "*", name="many", batch=2)
    run = here(router, before_call=arrivals.append)
    for seq in (1, 2):
        await run.run(stored(seq))

    assert arrivals == [NOON + SECOND, NOON, NOON + 2 * SECOND, NOON, NOON + 2 * SECOND, NOON]
