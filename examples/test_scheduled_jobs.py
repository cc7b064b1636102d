"""Tests of the handlers in `scheduled_jobs.py`: one by one in memory, and a week in a moment.

The line `pytest_plugins = ["receiver.testing"]` belongs in `conftest.py`. It is in this file so that the example
needs no other file. Run it:

    pytest examples/test_scheduled_jobs.py
"""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest

from examples import scheduled_jobs
from receiver import Router
from receiver.events import ScheduledRun
from receiver.testing import ScheduledSender, SteppedClock, Work, assert_handled, deliver, sample

pytest_plugins = ["receiver.testing"]

WorkItems = Callable[..., Awaitable[list[Work]]]


@pytest.fixture
def receiver_router() -> Router:
    """The handlers that the worker of the fixtures runs."""
    return scheduled_jobs.router


def test_a_late_report_is_left_out(receiver_router: Router, caplog: pytest.LogCaptureFixture) -> None:
    """A run is an event that a test can make. It goes to the handler with its name."""
    caplog.set_level("INFO")
    due_at = datetime(2026, 11, 23, 8, tzinfo=UTC)
    run = ScheduledRun(name="examples.scheduled_jobs.report", due_at=due_at)

    assert_handled(deliver(run, receiver_router, now=due_at), "report", times=1)
    assert_handled(deliver(run, receiver_router, now=due_at.replace(day=24)), "report", times=1)

    assert caplog.messages == ["the report of the week", f"left out the report that was due {due_at}"]


@pytest.mark.asyncio
async def test_a_week_has_one_report(
    receiver_work_items: WorkItems, receiver_clock: SteppedClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The clock of the fixtures runs what becomes due, each at its own moment."""
    caplog.set_level("INFO")

    await receiver_clock.advance(days=7)

    assert_handled(await receiver_work_items("*.report"), times=1)
    assert caplog.messages.count("the report of the week") == 1


@pytest.mark.asyncio
async def test_a_crawl_is_looked_at_after_half_an_hour(
    receiver_sender: ScheduledSender, receiver_work_items: WorkItems, receiver_clock: SteppedClock
) -> None:
    """The work item is there at once, and runs when its time has come."""
    await receiver_sender.send(sample("crawl.started"))
    (waiting,) = await receiver_work_items("*.still_running")
    assert waiting.state == "waiting"

    await receiver_clock.advance(minutes=31)

    assert_handled(await receiver_work_items("*.still_running"), times=1)
