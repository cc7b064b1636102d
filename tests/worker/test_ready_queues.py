"""Queues of claimed work: each item stays in one of them until it is settled or taken out."""

from dataclasses import replace
from datetime import timedelta

import pytest

from receiver import Router
from receiver.core.claims import WorkItem
from receiver.core.clock import VirtualClock
from receiver.core.deliveries import StoredDelivery
from receiver.core.types import HandlerName, Trigger
from receiver.events import Event
from receiver.routing.policies import RunsIn
from receiver.worker.attempts import Claimed
from receiver.worker.work_in_hand import ReadyQueues
from tests.doubles import NOON, delivery

MINUTE = timedelta(minutes=1)


def plain(event: Event) -> None:
    """Handle an event in a thread."""


async def nothing(event: Event) -> None:
    """Handle an event."""


async def gather(events: list[Event]) -> None:
    """Handle events."""


@pytest.fixture
def clock() -> VirtualClock:
    """A clock that stands still."""
    return VirtualClock(NOON)


@pytest.fixture
def router() -> Router:
    """A handler for each kind of queue."""
    made = Router()
    made.add(plain, "*", name="plain")
    made.add(nothing, "*", name="async")
    made.add(plain, "*", name="process", run_in="process")
    made.add(gather, "*", name="batch", batch=9)
    return made


@pytest.fixture
def ready(router: Router, clock: VirtualClock) -> ReadyQueues:
    """The queues of these handlers."""
    return queues(router, clock)


def queues(router: Router, clock: VirtualClock) -> ReadyQueues:
    """Return queues with four slots, of which three may be threads."""
    slots = {RunsIn.LOOP: 4, RunsIn.THREAD: 3, RunsIn.PROCESS: 1}
    return ReadyQueues(router, slots, clock, concurrency=4, most_claimed=256, read=list, wake=lambda: None)


def claimed(router: Router, work_id: int, handler: str) -> Claimed:
    """Return a claimed work item."""
    item = WorkItem(work_id, HandlerName(handler), 1, 0, 0, Trigger.DELIVERY, StoredDelivery(1, 0, delivery()))
    return Claimed(item, router[HandlerName(handler)])


def test_the_limit_of_a_handler_is_used_up_by_what_is_claimed_and_not_settled(
    router: Router, clock: VirtualClock
) -> None:
    """For batches `concurrency` limits the calls of a worker, and in a lane followers may be among the claimed."""
    router.add(nothing, "*", name="lane", ordered=True)
    ready = queues(router, clock)
    limited = {name: replace(router[HandlerName(name)], concurrency=2) for name in ("async", "batch", "lane")}
    used_up = []
    for work_id in range(2):
        for name in limited:
            ready.add(claimed(router, work_id, name))
        used_up.append([ready.takes_whole_limit(one) for one in limited.values()])

    assert used_up == [[False, False, False], [True, False, False]]
    assert not ready.takes_whole_limit(router[HandlerName("async")])

    ready.settled({HandlerName("async"): 1})
    assert not ready.takes_whole_limit(limited["async"])
    ready.add(claimed(router, 2, "async"))
    assert ready.takes_whole_limit(limited["async"])
    ready._withdraw(lambda one: one.item.id == 2)
    assert not ready.takes_whole_limit(limited["async"])


@pytest.mark.parametrize("handler", ["async", "batch"])
def test_an_item_is_not_lost_if_it_becomes_unwanted_while_it_is_asked_about(
    router: Router, ready: ReadyQueues, handler: str
) -> None:
    """A lease may end at any moment. What is neither here nor released is leased for ever and never runs."""
    for work_id in range(3):
        ready.add(claimed(router, work_id, handler))
    answers = iter([False, True, False, True, False, True, False, True])

    withdrawn = ready._withdraw(lambda one: next(answers))
    ready.complete_batches()

    waiting = [one for queue in ready for call in queue.calls for one in call]
    assert sorted(one.item.id for one in [*withdrawn, *waiting]) == [0, 1, 2]
    assert ready[HandlerName(handler)].claimed == len(waiting) == 2


def test_a_queue_with_a_long_call_is_not_stuck_while_others_use_the_slots(
    router: Router, ready: ReadyQueues, clock: VirtualClock
) -> None:
    """It gets one of the slots soon, so its items need no other worker."""
    ready.add(claimed(router, 0, "plain"))
    assert ready.start_next() is not None
    for work_id in range(1, 4):
        ready.add(claimed(router, work_id, "async"))
    (first, *_) = [ready.start_next() for _ in range(3)]
    assert first is not None

    clock.advance(MINUTE)
    ready.ended(first[0])
    ready.add(claimed(router, 4, "async"))
    assert ready.start_next() is not None
    ready.add(claimed(router, 5, "plain"))

    assert ready._withdraw_stuck(MINUTE) == []


def test_a_queue_is_stuck_behind_the_hanging_calls_of_another(
    router: Router, ready: ReadyQueues, clock: VirtualClock
) -> None:
    """They share slots, so its items go to another worker though none of its own calls hangs."""
    for work_id in range(3):
        ready.add(claimed(router, work_id, "plain"))
        assert ready.start_next() is not None
    ready.add(claimed(router, 3, "process"))
    assert ready.start_next() is None
    ready.note_moves()

    clock.advance(MINUTE)

    assert [one.item.id for one in ready._withdraw_stuck(MINUTE)] == [3]


def test_a_queue_of_batches_is_not_stuck_when_its_slots_were_taken_just_now(clock: VirtualClock) -> None:
    """No other handler uses the queue of its kind of slots."""
    batches = Router()
    batches.add(gather, "*", name="batch", batch=1)
    ready = ReadyQueues(
        batches, {RunsIn.LOOP: 2}, clock, concurrency=4, most_claimed=256, read=list, wake=lambda: None
    )
    for work_id in range(3):
        ready.add(claimed(batches, work_id, "batch"))
    while ready.start_next():
        pass

    assert ready._withdraw_stuck(MINUTE) == []
    clock.advance(MINUTE)
    assert [one.item.id for one in ready._withdraw_stuck(MINUTE)] == [2]
