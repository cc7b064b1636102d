"""The signals about attempts and work items."""

import pickle
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from receiver.core.claims import Settlement, WorkItem
from receiver.core.clock import VirtualClock
from receiver.core.deliveries import StoredDelivery
from receiver.core.types import AttemptOutcome, HandlerName, Trigger, WorkerId, WorkState
from receiver.core.work import Attempt
from receiver.routing import Router
from receiver.signals import contracts as signals
from receiver.worker.attempts import Claimed, Raised, RaisedElsewhere
from receiver.worker.settling import MAX_EXCEPTIONS, emit_ended, emit_started
from tests.doubles import LONG, NOON, delivery, watching

SECOND = timedelta(seconds=1)
WORKER_SIGNALS = (
    signals.attempt_started,
    signals.attempt_succeeded,
    signals.attempt_failed,
    signals.work_done,
    signals.work_dead,
)
SOURCE = StoredDelivery(seq=7, duplicates=0, delivery=delivery("k-1", received_at=NOON - 60 * SECOND))
ITEM = WorkItem(
    id=11,
    handler=HandlerName("handlers.index"),
    attempt=3,
    uncounted=0,
    deaths=0,
    trigger=Trigger.RETRY,
    source=SOURCE,
)
ROUTER = Router()
ROUTER.add(lambda event: None, "*", name=ITEM.handler)
(HANDLER,) = ROUTER
COMMON = {
    "work_id": 11,
    "handler": "handlers.index",
    "id": "k-1",
    "type": "crawl.page",
    "job_id": "job",
    "attempt": 3,
    "trigger": Trigger.RETRY,
}


@pytest.fixture
def seen() -> Iterator[list[Any]]:
    """Every record that the worker's signals pass."""
    with watching(*WORKER_SIGNALS) as records:
        yield records


def settlement(outcome: AttemptOutcome, state: WorkState, **more: Any) -> Settlement:
    attempt = Attempt(3, Trigger.RETRY, NOON, NOON + 2 * SECOND, outcome, **more)
    return Settlement(11, ITEM.handler, WorkerId("w"), attempt, state, NOON + 9 * SECOND)


def test_the_start_of_an_attempt_is_emitted(seen: list[Any]) -> None:
    """With the work item and the time."""
    emit_started([Claimed(ITEM, HANDLER)], VirtualClock(NOON))

    assert seen == [signals.AttemptStarted(**COMMON, at=NOON)]  # type: ignore[arg-type]


def test_a_success_emits_the_attempt_and_then_the_work_item(seen: list[Any]) -> None:
    """The first has the duration, the second the time of arrival."""
    emit_ended(ITEM, settlement(AttemptOutcome.SUCCEEDED, WorkState.DONE, overdue=True), recorded=True)

    at = NOON + 2 * SECOND
    assert seen == [
        signals.AttemptSucceeded(**COMMON, at=at, took=2 * SECOND, overdue=True),  # type: ignore[arg-type]
        signals.WorkDone(**COMMON, at=at, received_at=NOON - 60 * SECOND),  # type: ignore[arg-type]
    ]


@pytest.mark.parametrize("outcome", [AttemptOutcome.FAILED, AttemptOutcome.TIMED_OUT])
def test_a_failure_emits_when_it_runs_again(seen: list[Any], outcome: AttemptOutcome) -> None:
    """Nothing is emitted about the work item, which goes on."""
    emit_ended(ITEM, settlement(outcome, WorkState.WAITING, error="ValueError: no"), recorded=True)

    [failed] = seen
    assert isinstance(failed, signals.AttemptFailed)
    assert (failed.outcome, failed.error, failed.retry_at) == (outcome, "ValueError: no", NOON + 9 * SECOND)


def test_a_last_failure_emits_the_attempt_and_the_work_item(seen: list[Any]) -> None:
    """There is no next attempt."""
    emit_ended(ITEM, settlement(AttemptOutcome.FAILED, WorkState.DEAD, error="ValueError: no"), recorded=True)

    failed, dead = seen
    assert isinstance(failed, signals.AttemptFailed)
    assert failed.retry_at is None
    at = NOON + 2 * SECOND
    assert dead == signals.WorkDead(
        **COMMON,  # type: ignore[arg-type]
        at=at,
        received_at=NOON - 60 * SECOND,
        error="ValueError: no",
    )


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (AttemptOutcome.SUCCEEDED, WorkState.DONE),
        (AttemptOutcome.FAILED, WorkState.WAITING),
        (AttemptOutcome.FAILED, WorkState.DEAD),
    ],
)
def test_an_attempt_whose_lease_was_lost_is_emitted_as_lost(
    seen: list[Any], outcome: AttemptOutcome, state: WorkState
) -> None:
    """The work item belongs to another worker, so nothing is emitted about it."""
    emit_ended(ITEM, settlement(outcome, state), recorded=False)

    [lost] = seen
    assert isinstance(lost, signals.AttemptFailed)
    assert lost.outcome is AttemptOutcome.LOST
    assert "lease" in lost.error
    assert lost.retry_at is None


def test_no_record_is_made_without_subscribers() -> None:
    """The work item is not even read: here it is not a real one."""
    emit_started([None], VirtualClock(NOON))  # type: ignore[list-item]
    emit_ended(None, settlement(AttemptOutcome.FAILED, WorkState.WAITING), recorded=True)  # type: ignore[arg-type]


# --- the exception


def failure(text: str = "no") -> tuple[BaseException, Raised]:
    """Return an exception that was raised, and its description."""
    try:
        raise ValueError(text)
    except ValueError as error:
        return error, Raised.of(error)


def test_a_failure_passes_the_exception(seen: list[Any]) -> None:
    """The object itself, with its traceback, in both records."""
    error, raised = failure()
    emit_ended(ITEM, settlement(AttemptOutcome.FAILED, WorkState.DEAD, error="x"), (error, raised), recorded=True)

    failed, dead = seen
    assert failed.exception is dead.exception is error
    assert error.__traceback__ is not None


def test_a_record_can_be_pickled_without_its_exception(seen: list[Any]) -> None:
    """An exception may be anything, such as one that holds a lock."""
    error, raised = failure()
    error.args = (threading.Lock(),)
    emit_ended(ITEM, settlement(AttemptOutcome.FAILED, WorkState.DEAD, error="x"), (error, raised), recorded=True)

    for record in seen:
        copy = pickle.loads(pickle.dumps(record))
        assert copy == record
        assert copy.exception is None


def test_a_slow_subscriber_does_not_keep_many_events_in_memory() -> None:
    """From the 101st record on a description stands for the exception."""
    seen: list[Any] = []
    first, go_on = threading.Event(), threading.Event()

    def slow(record: signals.AttemptFailed) -> None:
        first.set()
        assert go_on.wait(LONG)
        seen.append(record)

    signals.attempt_failed.connect(slow)
    try:
        for number in range(MAX_EXCEPTIONS + 3):
            emit_ended(
                ITEM, settlement(AttemptOutcome.FAILED, WorkState.WAITING), failure(str(number)), recorded=True
            )
            assert first.wait(LONG)  # it is out of the queue
        go_on.set()
        assert signals.flush(timedelta(seconds=LONG))
    finally:
        signals.attempt_failed.disconnect(slow)

    kinds = [type(record.exception) for record in seen]
    assert kinds == [ValueError] * (MAX_EXCEPTIONS + 1) + [RaisedElsewhere] * 2
    assert str(seen[-1].exception) == f"ValueError: {MAX_EXCEPTIONS + 2}"
    assert "Traceback" in seen[-1].exception.__notes__[0]


def test_a_large_event_is_not_kept_by_its_exception(seen: list[Any]) -> None:
    """A description stands for it."""
    large = delivery("k-1", body=b'{"data": [' + b"[]," * 30_000 + b"1]}")
    item = ITEM._replace(source=StoredDelivery(seq=7, duplicates=0, delivery=large))
    emit_ended(item, settlement(AttemptOutcome.FAILED, WorkState.WAITING), failure(), recorded=True)

    assert isinstance(seen[0].exception, RaisedElsewhere)
