"""From the end of a call with many events to the record of each."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import pytest

from receiver.core.claims import FollowerClaim, Lease, Settlement
from receiver.core.rules import Failed, Succeeded
from receiver.core.types import AttemptOutcome, HandlerName, Trigger, WorkState
from receiver.core.work import Attempt, NewWork
from receiver.errors import StoreError
from receiver.events import Event
from receiver.runtime.log_lines import MAX_LINES
from receiver.signals import contracts as signals
from receiver.worker.attempts import MAX_ITEMS, Ended, by_end
from tests.doubles import NOON, appended, delivery, event_of, turns, watching
from tests.worker.running import batch, run_batch
from tests.worker.worker_bench import OTHER, SECOND, Faulty, WorkerBench


class Noting(Faulty):
    """A store that keeps what it is told of results."""

    def __init__(self) -> None:
        super().__init__()
        self.settlements: list[Sequence[Settlement]] = []

    async def settle(
        self, settlements: Sequence[Settlement], followers: Sequence[FollowerClaim] = ()
    ) -> Sequence[bool]:
        """Note the call before it settles."""
        self.settlements.append(settlements)
        return await super().settle(settlements, followers)


@pytest.fixture
def noting(bench: WorkerBench) -> Noting:
    """The store of the worker, which keeps what it is told."""
    bench.store = noting = Noting()
    return noting


def lines(caplog: pytest.LogCaptureFixture, event: str) -> list[dict[str, Any]]:
    return [vars(record) for record in caplog.records if event_of(record) == event]


def an_end() -> Ended:
    return Ended(Attempt(1, Trigger.DELIVERY, NOON, NOON, AttemptOutcome.SUCCEEDED), Succeeded())


async def nothing(events: list[Event]) -> None:
    """Succeed."""


def test_items_with_the_very_same_end_come_together() -> None:
    """An end that is equal, but another, has its own items."""
    items, same = batch(nothing, 4), an_end()
    other = an_end()
    assert other == same

    assert list(by_end(items, [same, other, same, same])) == [([items[0], *items[2:]], same), ([items[1]], other)]
    assert list(by_end(items[:1], [same])) == [(items[:1], same)]


def test_no_more_items_come_together_than_one_transaction_records() -> None:
    """They stay in order."""
    items, same = batch(nothing, 2) * (MAX_ITEMS + 1), an_end()

    parts = list(by_end(items, [same] * len(items)))

    assert [len(part) for part, _ in parts] == [MAX_ITEMS, MAX_ITEMS, 2]
    assert [one for part, _ in parts for one in part] == items


def test_each_item_needs_an_end() -> None:
    with pytest.raises(ValueError, match="shorter"):
        list(by_end(batch(nothing, 3), [an_end()] * 2))


async def test_items_of_a_batch_that_succeeded_have_one_end() -> None:
    """Not those whose attempts differ, and not those of a batch that failed."""
    items = batch(nothing, 4)
    items[1] = items[1]._replace(item=items[1].item._replace(trigger=Trigger.REPLAY))
    items[3] = items[3]._replace(item=items[3].item._replace(attempt=2))

    parts = by_end(items, await run_batch(items))

    assert [([one.item.id for one in part], end.attempt.number, end.attempt.trigger) for part, end in parts] == [
        ([0, 2], 1, Trigger.DELIVERY),
        ([1], 1, Trigger.REPLAY),
        ([3], 2, Trigger.DELIVERY),
    ]

    async def failing(events: list[Event]) -> None:
        raise ValueError("no")

    failed = batch(failing)
    assert [(len(part), end.result) for part, end in by_end(failed, await run_batch(failed))] == [(1, Failed())] * 3


async def test_a_batch_is_recorded_and_logged_event_by_event(
    bench: WorkerBench, noting: Noting, caplog: pytest.LogCaptureFixture
) -> None:
    """In one settlement. Programs that watch hear of each too."""
    caplog.set_level(logging.INFO)
    bench.handler(batch=3)(nothing)
    keys = ["a", "b", "c"]
    with watching(signals.attempt_succeeded, signals.work_done) as seen:
        async with bench.working():
            await bench.add(*[delivery(key) for key in keys])

    ((settlement,),) = noting.settlements
    assert settlement.work_ids == (1, 2, 3)
    assert [line["id"] for line in lines(caplog, "attempt_succeeded")] == keys
    for kind in (signals.AttemptSucceeded, signals.WorkDone):
        assert [(one.id, one.work_id) for one in seen if isinstance(one, kind)] == [("a", 1), ("b", 2), ("c", 3)]
    for work_id in settlement.work_ids:
        detail = await bench.store.work_item(work_id)
        assert (detail.summary.state, list(detail.attempts)) == (WorkState.DONE, [settlement.attempt])


async def test_a_batch_in_which_a_lease_was_lost_is_told_of_the_others(
    bench: WorkerBench, noting: Noting, caplog: pytest.LogCaptureFixture
) -> None:
    """The log and the signals name the one that was lost."""
    gate = asyncio.Event()

    @bench.handler(batch=3)
    async def handler(events: list[Event]) -> None:
        await gate.wait()

    with watching(signals.attempt_succeeded, signals.attempt_failed) as seen:
        async with bench.working():
            await bench.add(*[delivery(key) for key in "abc"])
            noting.state.work[2].lease(OTHER, NOON + 60 * SECOND, started=True)
            gate.set()
            await turns()

    assert [line["work_id"] for line in lines(caplog, "lease_lost")] == [2]
    assert [(one.id, type(one)) for one in seen] == [
        ("a", signals.AttemptSucceeded),
        ("b", signals.AttemptFailed),
        ("c", signals.AttemptSucceeded),
    ]
    states = [(await bench.work(key))[0].state for key in "abc"]
    assert states == [WorkState.DONE, WorkState.RUNNING, WorkState.DONE]


async def test_lines_of_a_large_batch_are_summed_up(bench: WorkerBench, caplog: pytest.LogCaptureFixture) -> None:
    """No event is missing from the sum, and none is in it twice."""
    caplog.set_level(logging.INFO)
    count = 2 * MAX_LINES + 3
    bench.handler(batch=count)(nothing)
    async with bench.working():
        await bench.add(*[delivery(str(number)) for number in range(count)])

    written = [line for line in lines(caplog, "attempt_succeeded") if "id" in line]
    (sum_of_others,) = [line for line in lines(caplog, "attempts_succeeded") if "count" in line]
    assert [line["id"] for line in written] == [str(number) for number in range(MAX_LINES)]
    assert sum_of_others["count"] == count - MAX_LINES


async def test_one_transaction_records_a_bounded_part_of_a_large_batch(bench: WorkerBench, noting: Noting) -> None:
    """While it writes, no delivery can be stored. Nothing is left out, and nothing comes twice."""
    count = 2 * MAX_ITEMS + 5
    bench.handler(batch=count)(nothing)
    async with bench.working():
        await bench.add(*[delivery(str(number)) for number in range(count)])
        await turns(100)

    sizes = [sum([len(one.work_ids) for one in call]) for call in noting.settlements]
    assert max(sizes) <= MAX_ITEMS
    ids = [work_id for call in noting.settlements for one in call for work_id in one.work_ids]
    assert ids == list(range(1, count + 1))
    assert await bench.store.count_unfinished() == 0


async def test_results_that_wait_for_the_store_are_counted_by_event(
    bench: WorkerBench, noting: Noting, caplog: pytest.LogCaptureFixture
) -> None:
    """They are recorded once when it is back, also if it had recorded them before."""
    bench.handler(batch=3)(nothing)
    noting.losing["settle"] = StoreError("nobody knows")
    async with bench.working():
        await bench.add(*[delivery(key) for key in "abc"])
        noting.losing.clear()
        await bench.after(SECOND)

    assert [line["count"] for line in lines(caplog, "settle_retrying")] == [3]
    assert len(lines(caplog, "lease_lost")) == 3
    for work_id in (1, 2, 3):
        detail = await bench.store.work_item(work_id)
        assert (detail.summary.state, len(detail.attempts)) == (WorkState.DONE, 1)


async def test_a_batch_settles_lanes_of_an_older_version_of_its_handler(bench: WorkerBench, noting: Noting) -> None:
    """Its events may have got lanes before it had batches. Their lanes go on, whichever comes first."""
    for key in "abc":
        await appended(noting, delivery(key))
    arrived = await noting.routing_batch(limit=9, max_bytes=10**9)
    lanes = [None, "l", "l"]
    work = [
        NewWork(one.seq, HandlerName("h"), False, lane=lane)
        for one, lane in zip(arrived.deliveries, lanes, strict=True)
    ]
    await noting.route(arrived, work, lease=Lease(OTHER, NOON), now=NOON)
    bench.handler(batch=2, linger=SECOND)(nothing)

    async with bench.working():
        await turns()
        await bench.after(SECOND)

    first, *_ = [one for call in noting.settlements for one in call]
    assert (first.work_ids, first.in_lane) == ((1, 2), True)
    assert await bench.store.count_unfinished() == 0
