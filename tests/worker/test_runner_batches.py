"""One attempt at a batch."""

import asyncio
from typing import Any

import pytest

from receiver.core.clock import VirtualClock
from receiver.core.rules import Failed, Refused, Succeeded
from receiver.core.types import AttemptOutcome, Trigger
from receiver.errors import GiveUp, Retry
from receiver.events import Event
from receiver.routing.context import BatchContext
from receiver.worker.calls.runner import Runner
from tests.doubles import NOON, Inline, pass_time, soon, turns
from tests.worker.running import SECOND, batch, run_batch


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_a_batch_is_one_call_with_a_list(kind: str) -> None:
    """In the order of its items. Each of them has succeeded."""
    seen: list[list[str | None]] = []

    def plain(events: list[Event]) -> None:
        seen.append([event.job_id for event in events])

    async def on_loop(events: list[Event]) -> None:
        plain(events)

    ended = await run_batch(batch(plain if kind == "plain" else on_loop))

    assert seen == [["j0", "j1", "j2"]]
    assert [end.result for end in ended] == [Succeeded()] * 3
    assert {end.attempt.outcome for end in ended} == {AttemptOutcome.SUCCEEDED}


async def test_an_error_of_a_batch_fails_each_item() -> None:
    """With the same error."""

    async def handler(events: list[Event]) -> None:
        raise ValueError("one of them")

    ended = await run_batch(batch(handler))

    assert [end.result for end in ended] == [Failed()] * 3
    assert {end.attempt.error for end in ended} == {"ValueError: one of them"}


@pytest.mark.parametrize(
    ("error", "options"),
    [(GiveUp("a bad one"), {}), (KeyError("k"), {"give_up_on": KeyError}), (KeyError("k"), {"retry_on": OSError})],
    ids=str,
)
async def test_a_batch_never_gives_up_as_a_whole(error: Exception, options: Any) -> None:
    """One bad page must not bury the others. Each is tried again alone, and may be given up then."""

    async def handler(events: list[Event]) -> None:
        raise error

    assert [end.result for end in await run_batch(batch(handler, **options))] == [Failed()] * 3
    assert [end.result for end in await run_batch(batch(handler, count=1, **options))] == [Refused()]


async def test_the_pause_of_a_retry_applies_to_every_item() -> None:
    """The handler asked for it for the whole batch."""

    async def handler(events: list[Event]) -> None:
        raise Retry(after=SECOND * 7)

    assert [end.result for end in await run_batch(batch(handler))] == [Failed(SECOND * 7)] * 3


async def test_an_item_alone_is_a_list_of_one() -> None:
    """It is the second attempt after a failed batch."""
    seen: list[list[Event]] = []

    async def handler(events: list[Event]) -> None:
        seen.append(events)

    (one,) = batch(handler, count=1)
    ended = await soon(Runner(VirtualClock(NOON), Inline()).run(one))

    assert ended.result == Succeeded()
    assert [len(events) for events in seen] == [1]


async def test_items_that_are_no_longer_wanted_are_done_without_a_call() -> None:
    """An item whose `where` raises fails alone."""
    seen: list[str | None] = []

    async def handler(events: list[Event]) -> None:
        seen.extend(event.job_id for event in events)
        raise ValueError("bad")

    def where(event: Event) -> bool:
        return {"j0": True, "j1": False}[str(event.job_id)]

    ended = await run_batch(batch(handler, where=where))

    assert seen == ["j0"]
    assert [end.result for end in ended] == [Failed(), Succeeded(), Failed()]
    assert [end.attempt.error for end in ended] == [
        "ValueError: bad",
        None,
        "KeyError: 'j2'",
    ]


async def test_an_empty_batch_is_not_called() -> None:
    """All its items are done."""
    called: list[object] = []

    ended = await run_batch(batch(called.append, where=lambda event: False))

    assert [end.result for end in ended] == [Succeeded()] * 3
    assert called == []


async def test_a_batch_context_describes_every_delivery() -> None:
    """In the order of the events, without those that were left out."""
    seen: list[BatchContext] = []

    async def handler(events: list[Event], ctx: BatchContext) -> None:
        seen.append(ctx)

    await run_batch(batch(handler, where=lambda event: event.job_id != "j1"))

    (ctx,) = seen
    assert [info.id for info in ctx.deliveries] == ["k0", "k2"]
    assert ctx.triggers == (Trigger.DELIVERY, Trigger.DELIVERY)
    assert (ctx.handler, ctx.attempt, ctx.now) == ("h", 1, NOON)


async def test_a_batch_has_one_timeout() -> None:
    """After it every item has timed out."""
    clock = VirtualClock(NOON)

    async def handler(events: list[Event]) -> None:
        await clock.sleep(SECOND * 100)

    running = asyncio.create_task(run_batch(batch(handler, timeout=30), clock))
    await pass_time(clock, SECOND * 30)

    assert {end.attempt.outcome for end in await soon(running)} == {AttemptOutcome.TIMED_OUT}


async def test_cancelling_a_batch_gives_no_result() -> None:
    """The worker stops."""
    clock = VirtualClock(NOON)

    async def handler(events: list[Event]) -> None:
        await clock.sleep(SECOND * 9)

    task = asyncio.create_task(run_batch(batch(handler), clock))
    await turns()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
