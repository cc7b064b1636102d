"""Tests of outcomes of replays: equal outcomes have equal texts, files keep them, and they can be compared."""

import io
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.deliveries import StoredDelivery
from receiver.core.rules import Failed, Succeeded
from receiver.core.types import AttemptOutcome, Trigger
from receiver.core.work import Attempt
from receiver.errors import ConfigurationError
from receiver.replay.local import LocalRun
from receiver.replay.outcomes import Change, Earlier, RunResult, header, read_results, seek_end
from receiver.routing import Router
from tests.doubles import NOON, delivery

_ROUTER = Router()


@_ROUTER.on("*", name="one")
def _one(event: object) -> None: ...


def ran(value: object = None, error: str | None = None, *, key: str = "k", seconds: float = 0.25) -> LocalRun:
    """Return a call with this value or this error."""
    outcome = AttemptOutcome.SUCCEEDED if error is None else AttemptOutcome.FAILED
    attempt = Attempt(1, Trigger.REPLAY, NOON, NOON + timedelta(seconds=seconds), outcome, error)
    [handler] = _ROUTER
    result = Succeeded() if error is None else Failed()
    return LocalRun(StoredDelivery(1, 0, delivery(key)), handler, attempt, result, value, None)


def value_of(value: object) -> Any:
    """Return the kept form of a returned value."""
    return json.loads(RunResult.of(ran(value)).value or "")


def saved(*outcomes: RunResult) -> io.BytesIO:
    """Return a file of outcomes."""
    return io.BytesIO(header() + b"".join(f"{one.line()}\n".encode() for one in outcomes))


class Hostile:
    """An object whose repr raises."""

    def __repr__(self) -> str:
        raise SystemExit("no")


@dataclass
class Point:
    x: int


def _itself() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (None, None),
        ({"a": [1, 2.5, True, "\u00e9\u2028"]}, {"a": [1, 2.5, True, "\u00e9\u2028"]}),
        ((1, 2), [1, 2]),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        (datetime(2026, 8, 4, tzinfo=UTC), "2026-08-04T00:00:00Z"),
        (Point(3), {"x": 3}),
        ({"b", "a", "c"}, ["a", "b", "c"]),
        ([{frozenset({2, 1}): {3}}], "[{frozenset({1, 2}): {3}}]"),
        (object(), "<object object>"),
        ([print, lambda: None], ["<built-in function print>", "<function <lambda>>"]),
        ("\ud800", "'\\ud800'"),
        (b"\xff", "b'\\xff'"),
        (_itself(), "[[...]]"),
    ],
)
def test_returned_values_are_kept_as_json(value: object, kept: object) -> None:
    """A value that JSON does not have is kept as its repr without addresses."""
    assert value_of(value) == kept


def test_a_value_without_a_repr_is_kept_as_its_class_name() -> None:
    """Its code may raise anything; it may be alone or in a list."""
    expected = f"<{__name__}.Hostile object>"

    assert value_of(Hostile()) == expected
    assert value_of([Hostile()]) == [expected]


def test_sets_are_equal_in_every_order() -> None:
    """The order of a set of texts differs between processes."""
    words = [f"word {n}" for n in range(100)]

    assert value_of({"all": set(words)}) == {"all": sorted(words, key=ascii)}


def test_long_values_are_cut_with_their_length() -> None:
    """So memory and files have limits."""
    kept = value_of("x" * 200_000)

    assert len(kept) < 101_000
    assert kept.endswith("... 200,002 characters")


def test_errors_are_equal_in_every_run() -> None:
    """An error may show an object with its address."""
    outcome = RunResult.of(ran(error="KeyError: <object object at 0x7f00c0ffee>"))

    assert outcome.error == "KeyError: <object object>"
    assert outcome.failed
    assert outcome.text == "raised KeyError: <object object>"


def test_a_line_is_ascii_json_and_may_have_more_fields() -> None:
    """It has the fields of an outcome."""
    line = RunResult.of(ran({"a": "\u00e9"}, seconds=0.5)).line(change="same", before=None)

    assert line.isascii()
    assert json.loads(line) == {
        "id": "k",
        "type": "crawl.page",
        "handler": "one",
        "outcome": "succeeded",
        "error": None,
        "seconds": 0.5,
        "change": "same",
        "before": None,
        "value": {"a": "\u00e9"},
    }


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children) | st.frozensets(st.text()),
)


@given(_JSON)
def test_any_returned_value_is_the_same_after_a_file(value: object) -> None:
    """The value is written to a file and read from it."""
    outcome = RunResult.of(ran(value))

    with Earlier(read_results(saved(outcome), "file")) as earlier:
        assert earlier.compare(RunResult.of(ran(value))) == (Change.SAME, outcome.text)
        assert earlier.missing() == 0


@given(st.text())
def test_any_error_is_the_same_after_a_file(text: str) -> None:
    """A store accepts its text."""
    error = text.encode("utf-8", "backslashreplace").decode()
    outcome = RunResult.of(ran(error=f"ValueError: {error}"))

    with Earlier(read_results(saved(outcome), "file")) as earlier:
        assert earlier.compare(outcome)[0] is Change.SAME


@pytest.mark.parametrize(
    ("before", "now", "change"),
    [
        (ran(1), ran(1, seconds=9), Change.SAME),
        (ran(1), ran(2), Change.CHANGED),
        (ran(1), ran("1"), Change.CHANGED),
        (ran(error="A"), ran(error="A"), Change.SAME),
        (ran(error="A"), ran(error="B"), Change.CHANGED),
        (ran(1), ran(error="A"), Change.NEWLY_FAILING),
        (ran(error="A"), ran(1), Change.NEWLY_PASSING),
        (ran(1, key="another"), ran(1), Change.ADDED),
    ],
)
def test_outcomes_are_compared(before: LocalRun, now: LocalRun, change: Change) -> None:
    """A different duration is not a change."""
    with Earlier(read_results(saved(RunResult.of(before)), "file")) as earlier:
        found = earlier.compare(RunResult.of(now))

        assert found == (change, None if change is Change.ADDED else RunResult.of(before).text)
        assert earlier.missing() == (change is Change.ADDED)


def test_the_last_outcome_of_a_call_counts() -> None:
    """A continued replay may have repeated some calls."""
    first, last = RunResult.of(ran(1)), RunResult.of(ran(2))

    with Earlier(read_results(saved(first, last), "file")) as earlier:
        assert earlier.compare(last)[0] is Change.SAME


_LINE = RunResult.of(ran(1)).line()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "file was not written by `receiver replay --save`"),
        (b"print('hello')\n", "file was not written by"),
        (b"[1]\n", "file was not written by"),
        (b'{"format":"receiver-outcomes","version":3}\n', "format is 3, and this program reads format 2"),
        (header() + b"{}\n", "file, line 2: this is not a result"),
        (header() + f"{_LINE}\n{_LINE[:-5]}".encode(), "file, line 3: this is not a result"),
        (header() + _LINE.replace('"id": "k"', '"id": 7').encode(), "file, line 2"),
        (header() + _LINE.replace('"id": "k"', '"id": "\\ud800"').encode(), "file, line 2"),
        (header() + b"\xff\n", "file, line 2"),
    ],
)
def test_the_error_for_a_wrong_line_has_its_number(content: bytes, told: str) -> None:
    """It has the name of the file too."""
    with pytest.raises(ConfigurationError, match=re.escape(told)):
        list(read_results(io.BytesIO(content), "file"))


@pytest.mark.parametrize("cut", [0, 1, 20])
def test_a_file_is_continued_after_its_last_complete_line(cut: int) -> None:
    """A full disk may leave a part of a line; it is removed."""
    whole = saved(RunResult.of(ran(1))).getvalue()
    half = RunResult.of(ran(2, key="b")).line()[:cut].encode()
    file = io.BytesIO(whole + half)

    seek_end(file, "file")
    file.write(f"{RunResult.of(ran(3, key='c')).line()}\n".encode())

    assert file.getvalue() == whole + f"{RunResult.of(ran(3, key='c')).line()}\n".encode()


def test_a_file_of_another_kind_is_not_continued() -> None:
    """It is not changed."""
    file = io.BytesIO(b"import os\n")

    with pytest.raises(ConfigurationError, match="left as it is"):
        seek_end(file, "file")

    assert file.getvalue() == b"import os\n"
