"""Handlers run here and now: which, in which order, with what result."""

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
from receiver.worker import Runner
from tests.doubles import NOON, Inline, delivery
from tests.workbench import SECOND


def stored(seq: int, kind: str = "crawl.page", **changes: Any) -> StoredDelivery:
    """Return a stored delivery that came so many seconds after noon."""
    return StoredDelivery(seq, 0, delivery(f"k{seq}", kind=kind, received_at=NOON + seq * SECOND, **changes))


def here(router: Router, **options: Any) -> LocalRunner:
    """Return what runs the handlers of a router."""
    return LocalRunner(router, Runner(VirtualClock(NOON), Inline(), ask_once=_first), **options)


async def _first(handler: HandlerName, key: str, now: datetime) -> bool:
    return True


async def outcome(router: Router, **options: Any) -> LocalRun:
    """Return how the only handler fared with a delivery."""
    [ran] = await here(router, **options).run(stored(1))
    return ran


def told(results: Any) -> list[tuple[str, str, object]]:
    """Return key, handler and value of results."""
    return [(ran.stored.delivery.key, ran.handler.name, ran.value) for ran in results]


@pytest.fixture
def router() -> Router:
    """A router without handlers."""
    return Router()


async def test_every_handler_that_wants_a_delivery_is_called(router: Router) -> None:
    """In the order of registration, with what each returned; async and plain, also those of other processes."""
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


async def test_only_those_that_are_asked_for_are_called(router: Router) -> None:
    """By name; with nothing asked for, none."""
    router.add(len_of_type, "*", name="one")
    router.add(len_of_type, "*", name="two")
    run = here(router)

    assert told(await run.run(stored(1), frozenset({HandlerName("two")}))) == [("k1", "two", 10)]
    assert await run.run(stored(1), frozenset()) == []


async def test_an_event_that_no_model_reads_is_handled(router: Router) -> None:
    """As an unknown event with the type that the envelope had."""
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
async def test_what_a_handler_raises_is_a_result(
    router: Router, plain: bool, raised: BaseException, error: str
) -> None:
    """It is not tried again; the traceback begins in the handler."""

    def fail(event: object) -> None:
        raise raised

    async def fail_async(event: object) -> None:
        raise raised

    router.add(fail if plain else fail_async, "*", name="one")
    ran = await outcome(router)

    assert (ran.attempt.outcome, ran.attempt.error, ran.value) == (AttemptOutcome.FAILED, error, None)
    assert ran.traceback is not None
    assert ran.traceback.splitlines()[1].endswith(", in fail" if plain else ", in fail_async")


async def test_interrupting_an_async_handler_comes_through(router: Router) -> None:
    """It keeps the event loop to itself, and Ctrl-C is not about its event."""

    async def interrupted(event: object) -> None:
        raise KeyboardInterrupt

    router.add(interrupted, "*", name="one")
    with pytest.raises(KeyboardInterrupt):
        await here(router).run(stored(1))


async def test_a_condition_that_raises_is_a_result(router: Router) -> None:
    """With the traceback of the condition."""
    router.add(len_of_type, "*", name="one", where=lambda event: event.nonsense)
    ran = await outcome(router)

    assert ran.attempt.outcome is AttemptOutcome.FAILED
    assert "nonsense" in (ran.traceback or "")


async def test_a_handler_that_is_too_slow_is_a_result(router: Router) -> None:
    """The same as under a worker."""

    async def slow(event: object) -> None:
        await asyncio.Event().wait()

    router.add(slow, "*", name="one", timeout=0.01)
    [ran] = await LocalRunner(router, Runner(SystemClock(), Inline())).run(stored(1))

    assert ran.attempt.outcome is AttemptOutcome.TIMED_OUT
    assert "took longer than 0.01 s" in (ran.attempt.error or "")


async def test_values_of_one_call_are_not_those_of_the_next(router: Router) -> None:
    """One that raises has none, and one that does not want the event after all neither."""
    router.add(len_of_type, "*", name="one")

    def fail(event: object) -> None:
        raise ValueError

    router.add(fail, "*", name="two")

    assert [ran.value for ran in await here(router).run(stored(1))] == [10, None]


async def test_handlers_are_told_what_they_run_for(router: Router) -> None:
    """The trigger, the delivery; and `once` is answered."""
    seen: list[object] = []

    async def look(event: object, ctx: Context) -> None:
        ctx.heartbeat()
        seen.extend([ctx.trigger, ctx.attempt, ctx.delivery.id, ctx.job_id, await ctx.once("key")])

    router.add(look, "*", name="one")
    await here(router).run(stored(1))

    assert seen == [Trigger.REPLAY, 1, "k1", "job", True]


class Database:
    """A resource."""


async def test_resources_are_given(router: Router) -> None:
    """As under a worker."""
    database = Database()

    async def use(event: object, *, given: Database) -> bool:
        return given is database

    router.add(use, "*", name="one")
    run = LocalRunner(router, Runner(VirtualClock(NOON), Inline(), resources={Database: database}))

    assert told(await run.run(stored(1))) == [("k1", "one", True)]


async def test_batches_are_called_when_they_are_full(router: Router) -> None:
    """The rest at the end; the value of a call is that of each in it."""

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


async def test_a_batch_that_fails_fails_for_each(router: Router) -> None:
    """None of them is tried again by itself."""
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


async def test_arrivals_are_told_before_each_call(router: Router) -> None:
    """That of the delivery, and of the last one in a batch."""
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
