"""Tests of the handlers in `own_router.py`: one by one in memory, and all of them behind the receiver.

The line `pytest_plugins = ["receiver.testing"]` belongs in `conftest.py`. It is in this file so that the example
needs no other file. Run it:

    pytest examples/test_own_router.py
"""

from collections.abc import Awaitable, Callable

import pytest

from examples import own_router
from receiver import GiveUp, Retry, Router
from receiver.testing import ScheduledSender, SteppedClock, Work, assert_handled, deliver, job_story, sample

pytest_plugins = ["receiver.testing"]


@pytest.fixture
def receiver_router() -> Router:
    """The handlers that `receiver_sender` reaches."""
    return own_router.router


def test_a_good_page_is_indexed(receiver_router: Router, caplog: pytest.LogCaptureFixture) -> None:
    """Handlers run in this process. A plain test needs no event loop, and an error of a handler fails it."""
    caplog.set_level("INFO")

    runs = deliver(sample("crawl.page", data__0__markdown="# Gears"), receiver_router)

    assert_handled(runs, "index", times=1)
    assert caplog.messages == ["indexed https://example.com/prices, 7 characters"]


def test_a_partial_check_is_handled_twice(receiver_router: Router) -> None:
    """The first attempt asks for another one, and that succeeds."""
    check = sample("monitor.check.completed.partial")

    with pytest.raises(Retry, match="give the pages that failed a moment"):
        deliver(check, receiver_router)
    assert_handled(deliver(check, receiver_router, attempt=2), "follow_up")


def test_a_check_without_a_monitor_is_given_up(receiver_router: Router) -> None:
    """Values are set by their path in the payload."""
    with pytest.raises(GiveUp):
        deliver(sample("monitor.check.completed", data__0__monitorId=None), receiver_router)


@pytest.mark.asyncio
async def test_an_outage_of_six_minutes_loses_nothing(
    receiver_sender: ScheduledSender,
    receiver_clock: SteppedClock,
    receiver_work_items: Callable[..., Awaitable[list[Work]]],
) -> None:
    """The service tries again after 1 and 5 minutes, which pass immediately. Pages may come in any order."""
    story = job_story("crawl", pages=20, order="shuffled")
    with receiver_sender.outage():
        await receiver_sender.send_all(story)
        await receiver_clock.advance(minutes=5, seconds=59)
    await receiver_clock.advance(seconds=1)

    assert len(receiver_sender.attempts) == 3 * len(story)
    assert_handled(await receiver_work_items(), "note", times=1)
    assert_handled(await receiver_work_items())
