"""The text and the fields of log lines, under our logging set-up and under somebody else's."""

import io
import json
import logging
import pickle
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from receiver.core.clock import local_time
from receiver.runtime.log_lines import (
    ConsoleFormatter,
    EventLog,
    EventText,
    JsonFormatter,
    add_attempt,
    attempt_fields,
)
from receiver.runtime.logs import wants_colour
from tests.core.test_logs import ATTEMPT, DELIVERY, event, own_record

FAILED = ATTEMPT | {
    "seconds": 0.5,
    "error": "ValueError: no",
    "due_at": "2026-08-04T12:00:00+00:00",
    "frames": ["handlers.py:4 in index: shorten(page)"],
    "traceback": "Traceback (most recent call last):\n  everything\nValueError: no",
    "advice": "receiver work-items show 7",
}


@pytest.mark.parametrize("word", ["attempt_failed", "work_dead"])
def test_a_failure_shows_the_users_frames_and_a_command(word: str) -> None:
    """They stand below its line, which is one line for a search."""
    _, *below = ConsoleFormatter().format(event(word, **FAILED)).split("\n")

    assert below == ["  handlers.py:4 in index: shorten(page)", "  receiver work-items show 7"]


@pytest.mark.parametrize("word", ["attempt_failed", "work_dead"])
def test_at_debug_a_failure_shows_its_whole_traceback(word: str) -> None:
    """In place of the frames."""
    _, *below = ConsoleFormatter(in_full=True).format(event(word, **FAILED)).split("\n")

    assert below == [
        "  Traceback (most recent call last):",
        "    everything",
        "  ValueError: no",
        "  receiver work-items show 7",
    ]


@pytest.mark.parametrize("word", ["attempt_failed", "work_dead"])
def test_machines_get_frames_and_traceback(word: str) -> None:
    """Each as a field of its own."""
    content = json.loads(JsonFormatter().format(event(word, **FAILED)))

    assert content.items() >= {"frames": FAILED["frames"], "traceback": FAILED["traceback"]}.items()


def raised_here() -> logging.LogRecord:
    """Return a record of ours with an exception of this file."""
    failed = event("lane_unknown", handler="h", type="crawl.page", job_id="j")
    try:
        json.loads("{")
    except ValueError:
        failed.exc_info = sys.exc_info()
    return failed


def test_an_exception_of_the_users_code_is_shown_by_its_frames() -> None:
    """At debug with its whole traceback, and for machines always."""
    _, *below = ConsoleFormatter().format(raised_here()).split("\n")

    assert len(below) == 2
    assert below[0].startswith("  tests/core/test_log_lines.py:")
    assert below[1].startswith("  JSONDecodeError: Expecting")
    assert "Traceback" in ConsoleFormatter(in_full=True).format(raised_here())
    assert json.loads(JsonFormatter().format(raised_here()))["exception"].startswith("Traceback")


@pytest.mark.parametrize(
    ("level", "shown"),
    [(logging.DEBUG, "DEBUG "), (logging.INFO, ""), (logging.WARNING, "WARNING "), (logging.CRITICAL, "CRITICAL ")],
)
def test_the_level_is_shown_if_it_is_not_info(level: int, shown: str) -> None:
    """After the time, in lines of any logger."""
    assert ConsoleFormatter().format(own_record("hello", level)).split(" ", 1)[1] == f"{shown}own: hello"
    assert ConsoleFormatter().format(event("server_stopped", level)).split(" ", 1)[1] == f"{shown}server_stopped"


def test_a_line_begins_with_local_time_and_offset() -> None:
    """In one word; also when the second changes."""
    formatter = ConsoleFormatter()
    for created in (1_800_000_000.9, 1_800_000_001.1, 1_800_000_001.9):
        record = own_record("hello")
        record.created = created
        moment = datetime.fromtimestamp(int(created), UTC)

        assert formatter.format(record).split(" ")[0] == local_time(moment)
        assert datetime.fromisoformat(local_time(moment)) == moment


def test_fields_of_a_handlers_own_line_are_shown() -> None:
    """Those that name the attempt once."""
    line = ConsoleFormatter().format(own_record("wrote", logging.INFO, **ATTEMPT, words=12, job="x"))

    assert line.split(" ", 1)[1] == "· crawl.page   6f1d3c52 handlers.pages.write: own: wrote words=12 job=x"


def test_a_users_field_named_event_hides_no_message() -> None:
    """The event of a foreign record is its message, unless it has such a field."""
    content = json.loads(JsonFormatter().format(own_record("hello", event="login")))

    assert (content["event"], content["message"]) == ("login", "hello")
    assert json.loads(JsonFormatter().format(own_record("hello")))["event"] == "hello"


@pytest.fixture
def foreign() -> Iterator[io.StringIO]:
    """What a logging set-up that is not ours writes: level, logger and message."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(logging.Formatter("%(levelname)s:%(name)s:%(message)s"))
    logger = logging.getLogger("foreign")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    yield written
    logger.removeHandler(handler)
    logger.propagate = True


def test_under_a_foreign_set_up_the_message_says_everything(foreign: io.StringIO) -> None:
    """The fields are attributes of the record, the word is the field `event`."""
    log = EventLog(logging.getLogger("foreign"))
    log.info("delivery_accepted", extra=DELIVERY | {"size": 2_048})
    log.warning("store_unavailable", extra={"reason": "locked"})

    assert foreign.getvalue().splitlines() == [
        "INFO:foreign:→ crawl.page   6f1d3c52 2.0 KiB accepted job job-1",
        "WARNING:foreign:store_unavailable reason=locked",
    ]


def test_the_record_of_an_event_has_its_word_and_fields(caplog: pytest.LogCaptureFixture) -> None:
    """A formatter of another library can write them. The text is made late, but from the fields of that time."""
    fields = {"reason": "locked"}
    EventLog(logging.getLogger("foreign")).warning("store_unavailable", extra=fields)
    (record,) = caplog.records

    assert (vars(record)["event"], vars(record)["reason"]) == ("store_unavailable", "locked")
    assert fields == {"reason": "locked"}
    assert str(pickle.loads(pickle.dumps(record.msg))) == "store_unavailable reason=locked"


def test_a_line_that_a_handler_causes_names_handler_and_delivery() -> None:
    """Of any logger. Lines of ours keep their own fields."""
    token = attempt_fields.set(lambda: ATTEMPT)
    try:
        theirs, ours = own_record("connected"), event("event_drift", id="other")
        assert add_attempt(theirs)
        assert add_attempt(ours)
    finally:
        attempt_fields.reset(token)
    outside = own_record("connected")
    add_attempt(outside)

    assert vars(theirs).items() >= ATTEMPT.items()
    assert vars(ours)["id"] == "other"
    assert "handler" not in vars(outside)


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environment", "coloured"),
    [
        (Terminal(), {}, True),
        (Terminal(), {"TERM": "xterm-256color"}, True),
        (Terminal(), {"TERM": "dumb"}, False),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"NO_COLOR": ""}, True),
        (Terminal(), {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        (Terminal(), {"TERM": "dumb", "FORCE_COLOR": "1"}, True),
        (io.StringIO(), {}, False),
        (io.StringIO(), {"FORCE_COLOR": "1"}, True),
    ],
)
def test_a_terminal_gets_colours_unless_somebody_says_no(
    stream: io.StringIO, environment: dict[str, str], coloured: bool
) -> None:
    """By the usual variables."""
    assert wants_colour(stream, environment) is coloured


@pytest.mark.parametrize("level", [logging.INFO, logging.WARNING, logging.ERROR])
def test_colours_end_in_their_line(level: int) -> None:
    """Without the colours the text is the same."""
    one = event("server_stopped", level)
    coloured = ConsoleFormatter(colour=True).format(one)
    codes = re.findall(r"\x1b\[(\d+)m", coloured)

    assert codes[1::2] == ["0"] * (len(codes) // 2)
    assert "0" not in codes[::2]
    assert re.sub(r"\x1b\[\d+m", "", coloured) == ConsoleFormatter().format(one)


def test_the_text_of_an_event_without_a_line_of_its_own_is_its_word_and_fields() -> None:
    """Also the advice."""
    assert str(EventText("store_unavailable", {"reason": "locked", "advice": "wait"})) == (
        "store_unavailable reason=locked advice=wait"
    )


def test_fields_without_a_value_are_not_shown() -> None:
    """The drift of a type has no path, and some events have no job; machines get the fields all the same."""
    record = event("event_drift", type="new.thing", kind="type", path="", id="k1", job_id=None, count=0)

    assert ConsoleFormatter().format(record).endswith("event_drift type=new.thing kind=type id=k1 count=0")
    assert json.loads(JsonFormatter().format(record))["path"] == ""
