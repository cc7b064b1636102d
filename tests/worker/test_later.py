"""Which of its events a batch calls `ctx.later` for, and how often."""

from datetime import timedelta

import pytest

from receiver import Router
from receiver.errors import HandlerError
from receiver.events import CrawlPage, Event
from receiver.worker.attempts import MAX_CALLS, LaterCalls

router = Router()
AFTER = timedelta(minutes=1)


@router.later(CrawlPage)
def look(event: Event) -> None: ...


def test_each_event_of_a_large_batch_may_be_looked_at_later() -> None:
    """The limit is for a loop that does not end, so it grows with the batch."""
    events = [CrawlPage(job_id=f"job-{number}") for number in range(MAX_CALLS + 1)]
    calls = LaterCalls([*router], events, range(len(events)))
    for event in events:
        calls.add(look, event, AFTER)
    for _ in range(MAX_CALLS - 1):
        calls.add(look, events[0], AFTER)
    with pytest.raises(HandlerError, match="200 times"):
        calls.add(look, events[0], AFTER)
    assert {work_id: len(asked) for work_id, asked in calls.end().items()} == {
        0: MAX_CALLS,
        **dict.fromkeys(range(1, 101), 1),
    }


def test_of_equal_events_each_has_its_own_call() -> None:
    """Two deliveries may say the same; an event that was copied is the first that is equal."""
    events = [CrawlPage(job_id="job-1"), CrawlPage(job_id="job-1")]
    calls = LaterCalls([*router], events, [7, 8])
    for event in (events[1], events[0], events[1].model_copy()):
        calls.add(look, event, AFTER)
    assert {work_id: len(asked) for work_id, asked in calls.end().items()} == {8: 1, 7: 2}
