"""The assertions about work, and the texts of their failures."""

import re
from collections.abc import Callable

import pytest

from receiver import GiveUp, Router
from receiver.core.types import DeliveryKey, HandlerName, WorkState
from receiver.events import Event
from receiver.testing import Work, assert_dead, assert_handled, deliver, sample


def work(handler: str, state: WorkState, error: str | None = None) -> Work:
    """Return work of a crawl page."""
    traceback = f"Traceback (most recent call last):\n{error}\n" if error else None
    return Work(HandlerName(handler), "crawl.page", DeliveryKey("k"), state, 2, error, traceback)


DONE = work("handlers.index", WorkState.DONE)
DEAD = work("handlers.tell", WorkState.DEAD, "GiveUp: no chat")
WAITING = work("handlers.tell", WorkState.WAITING, "ValueError: 7")


@pytest.mark.parametrize("handler", ["*", "index", "handlers.index", "handlers.*", "*.index"])
def test_done_work_is_handled(handler: str) -> None:
    """The handler's complete name, the function's name, or a glob selects it."""
    assert_handled([DONE], handler, times=1)


@pytest.mark.parametrize("handler", ["tell", "handlers.tell"])
def test_dead_work_is_dead(handler: str) -> None:
    """With the named error."""
    assert_dead([DONE, DEAD], handler, error="no chat", times=1)


@pytest.mark.parametrize(
    ("check", "told"),
    [
        (
            lambda: assert_handled([]),
            "there is no work for '*'\n  no work at all: does a handler want such an event?",
        ),
        (
            lambda: assert_handled([DONE], "tell"),
            "there is no work for 'tell'\n  handlers.index <- crawl.page k: done after 2 attempts",
        ),
        (
            lambda: assert_handled([DONE, WAITING]),
            "1 of 2 for '*' are not handled\n"
            "  handlers.index <- crawl.page k: done after 2 attempts\n"
            "  handlers.tell <- crawl.page k: waiting after 2 attempts: ValueError: 7\n\n"
            "handlers.tell:\nTraceback (most recent call last):\nValueError: 7\n",
        ),
        (
            lambda: assert_handled([DONE], times=2),
            "1 for '*' are handled, not 2\n  handlers.index <- crawl.page k: done after 2 attempts",
        ),
        (
            lambda: assert_dead([DONE]),
            "1 of 1 for '*' are not dead\n  handlers.index <- crawl.page k: done after 2 attempts",
        ),
        (
            lambda: assert_dead([DEAD], error="no mail"),
            "work of '*' died of another error than 'no mail'\n"
            "  handlers.tell <- crawl.page k: dead after 2 attempts: GiveUp: no chat\n\n"
            "handlers.tell:\nTraceback (most recent call last):\nGiveUp: no chat\n",
        ),
    ],
    ids=range(6),
)
def test_a_failure_shows_all_work_items(check: Callable[[], None], told: str) -> None:
    """The expectation, each work item, and the tracebacks of the handlers."""
    with pytest.raises(AssertionError, match=f"^{re.escape(told)}$"):
        check()


def test_results_of_deliver_can_be_asserted() -> None:
    """A failure shows the tracebacks of the handlers."""
    router = Router()

    @router.on("*", name="tell")
    def tell(event: Event) -> None:
        raise GiveUp("no chat")

    runs = deliver(sample("crawl.page"), router, check=False)

    assert_dead(runs, error="no chat")
    with pytest.raises(AssertionError, match=r'raise GiveUp\("no chat"\)'):
        assert_handled(runs)


@pytest.mark.parametrize("check", [assert_handled, assert_dead])
def test_no_work_can_be_expected(check: Callable[..., None]) -> None:
    """With times=0; work that is there after all is shown."""
    check([DONE, DEAD], "index_all", times=0)

    with pytest.raises(AssertionError, match=r"crawl\.page k: (done|dead)"):
        check([DONE, DEAD], times=0)


@pytest.mark.parametrize("check", [assert_handled, assert_dead])
def test_a_forgotten_await_is_told_in_words(check: Callable[..., None]) -> None:
    """Also if the fixture itself is given. Python's warning about the coroutine does not come on top."""

    async def work_items() -> list[Work]:
        return [DONE]

    for given in (work_items(), work_items):
        with pytest.raises(TypeError, match=r"assert_handled\(await receiver_work_items\(\)\)"):
            check(given)
