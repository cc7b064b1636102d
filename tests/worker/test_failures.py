"""The reason of a failed attempt as text, and its meaning for the work item."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.rules import Died, Failed, Refused
from receiver.errors import GiveUp, NoApiKey, RateLimited, Retry, ServerError, ServiceError
from receiver.events import CrawlPage
from receiver.routing import Handler, Router
from receiver.worker.attempts import NoProcess, ProcessDied, Raised, RaisedElsewhere, TimedOut, describe, result_of

SECOND = timedelta(seconds=1)


class OwnError(ConnectionError):
    """A class of a handler's module."""


class OwnRetry(Retry):
    """A subclass that forgets what its base sets."""

    def __init__(self) -> None:
        Exception.__init__(self, "own")


def handler(**options: Any) -> Handler:
    router = Router()
    router.add(lambda event: None, CrawlPage, name="h", **options)
    (one,) = router
    return one


# --- what it means

AGAIN, DEAD = Failed(), Refused()


@pytest.mark.parametrize(
    ("options", "error", "result"),
    [
        ({}, ValueError(), AGAIN),
        ({}, SystemExit(1), AGAIN),
        ({}, Retry(), AGAIN),
        ({}, Retry(after=SECOND), Failed(SECOND)),
        ({}, OwnRetry(), AGAIN),
        ({}, GiveUp("gone"), DEAD),
        ({}, NoApiKey("no key"), DEAD),
        ({"give_up_on": ValueError}, ValueError(), DEAD),
        ({"give_up_on": ValueError}, UnicodeError(), DEAD),
        ({"give_up_on": ValueError}, KeyError(), AGAIN),
        ({"give_up_on": (ValueError, KeyError)}, KeyError(), DEAD),
        ({"give_up_on": Exception}, Retry(after=SECOND), Failed(SECOND)),
        ({"retry_on": OSError}, OSError(), AGAIN),
        ({"retry_on": OSError}, OwnError(), AGAIN),
        ({"retry_on": OSError}, ValueError(), DEAD),
        ({"retry_on": OSError}, Retry(after=SECOND), Failed(SECOND)),
        ({"retry_on": Exception}, GiveUp(), DEAD),
        ({"retry_on": ConnectionError, "give_up_on": OSError}, OwnError(), AGAIN),
        ({"retry_on": ConnectionError, "give_up_on": OSError}, FileNotFoundError(), DEAD),
        ({"retry_on": OSError, "give_up_on": OwnError}, OwnError(), DEAD),
        ({"retry_on": OSError, "give_up_on": OwnError}, ConnectionError(), AGAIN),
        ({"give_up_on": TimeoutError}, TimedOut("took long"), DEAD),
        ({"retry_on": TimeoutError}, TimedOut("took long"), AGAIN),
        ({"retry_on": ValueError}, TimedOut("took long"), DEAD),
        ({"retry_on": ValueError}, ProcessDied("killed"), Died()),
        ({"give_up_on": Exception}, ProcessDied("killed"), Died()),
        ({"give_up_on": Exception}, NoProcess("none started"), AGAIN),
        ({}, RateLimited("429", retry_after=SECOND), Failed(at_least=SECOND)),
        ({}, RateLimited("429"), AGAIN),
        ({}, ServerError("503", retry_after=SECOND), AGAIN),
        ({"retry_on": RateLimited}, RateLimited("429", retry_after=SECOND), Failed(at_least=SECOND)),
        ({"give_up_on": RateLimited}, RateLimited("429", retry_after=SECOND), DEAD),
        ({"give_up_on": ServiceError}, RateLimited("429", retry_after=SECOND), DEAD),
        ({"retry_on": OSError}, RateLimited("429", retry_after=SECOND), DEAD),
    ],
    ids=str,
)
def test_the_policy_decides_what_an_exception_means(options: Any, error: BaseException, result: object) -> None:
    """`Retry` and `GiveUp` come first, then the nearest class in the policy, which a dead process never asks."""
    assert result_of(Raised.of(error), handler(**options)) == result


def test_an_exception_of_another_process_means_the_same() -> None:
    """The names of its classes are sent along."""
    raised = Raised.of(OwnError("far away"))

    assert Raised.of(RaisedElsewhere(raised)) is raised
    assert result_of(raised, handler(give_up_on=OwnError)) == DEAD


# --- how it is told


def test_an_error_is_described_by_class_and_message_in_one_line() -> None:
    """The module of the class is in the traceback only."""
    assert describe(OwnError("no such\n host")) == "OwnError: no such host"
    assert describe(TimedOut("took longer than 3 s and was cancelled")) == "took longer than 3 s and was cancelled"
    assert "ConnectionError" in str(Raised.of(OwnError("x")).classes)


def test_notes_do_not_hide_the_error() -> None:
    """Libraries add notes to exceptions (PEP 678); the class and the text come first."""
    error = ValueError("no such page")
    error.add_note("while handling page 3")

    assert describe(error).startswith("ValueError: no such page")


def test_a_syntax_error_is_described_by_its_text() -> None:
    """The arrow under the line is left out."""
    with pytest.raises(SyntaxError) as caught:
        compile("a b", "x", "exec")

    assert describe(caught.value) == "SyntaxError: invalid syntax"


@given(st.text())
def test_every_description_is_one_short_line(text: str) -> None:
    """Every store takes it."""
    described = describe(ValueError(text))

    assert len(described.encode()) < 6_000
    assert len(described.splitlines()) <= 1 or not any(c in described for c in "\r\n")
    assert "\0" not in described


def test_a_long_traceback_keeps_its_end() -> None:
    """The end says what happened."""

    def deep(depth: int = 400) -> None:
        if depth == 0:
            raise ValueError("x" * 100_000 + " the end")
        deep(depth - 1)

    with pytest.raises(ValueError, match="the end") as caught:
        deep()
    raised = Raised.of(caught.value)

    assert len(raised.error) <= 500
    assert len(raised.traceback) <= 8_000
    assert raised.traceback.rstrip().endswith("the end")
