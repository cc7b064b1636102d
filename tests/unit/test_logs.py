"""Log lines for people and for machines."""

import ast
import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import receiver
from receiver.logs import ConsoleFormatter, JsonFormatter, configure_logs

DELIVERY: dict[str, Any] = {"key": "6f1d3c52-8a54-4b1e-9d0e-2f6f0a7f9a11", "type": "crawl.page", "job_id": "job-1"}
ATTEMPT: dict[str, Any] = DELIVERY | {"handler": "handlers.pages.write", "attempt": 2}

# Every event word of the code, with fields as it gives them and what a person must be able to see.
WORDS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "delivery_accepted": (
        DELIVERY | {"size": 2_048},
        ("→", "crawl.page", "6f1d3c52", "2.0 KiB", "accepted", "job-1"),
    ),
    "delivery_duplicate": (DELIVERY | {"size": 3, "job_id": None}, ("→", "3 B", "duplicate")),
    "delivery_conflict": (DELIVERY | {"size": 3}, ("→", "CONFLICT", "quarantine")),
    "delivery_refused": ({"reason": "malformed", "detail": "the body has no `type`"}, ("malformed", "no `type`")),
    "delivery_not_stored": ({"reason": "the disk is full"}, ("NOT STORED", "503", "the disk is full")),
    "intake_failed": ({}, ("intake_failed",)),
    "not_ready": ({"reason": "the disk is full"}, ("WARNING", "not_ready", "the disk is full")),
    "attempt_succeeded": (ATTEMPT | {"seconds": 0.0123}, ("✓", "crawl.page", "12 ms", "handlers.pages.write")),
    "attempt_failed": (
        ATTEMPT | {"seconds": 0.5, "error": "ValueError: no", "due_at": "2026-08-04T12:00:00+00:00"},
        ("✗", "handlers.pages.write", "attempt 2", "ValueError: no", "again at"),
    ),
    "work_dead": (
        ATTEMPT | {"seconds": 0.5, "error": "ValueError: no", "traceback": "Traceback:\n  line\nValueError: no"},
        ("✗", "DEAD after attempt 2", "ValueError: no", "\nTraceback:\n  line\n"),
    ),
    "attempt_overdue": (ATTEMPT | {"timeout_s": 60.0}, ("handlers.pages.write", "attempt_overdue", "60")),
    "attempt_broken": ({"handler": "handlers.pages.write"}, ("attempt_broken", "handlers.pages.write")),
    "event_unhandled": (
        {"type": "new.thing", "stub": "@router.on('new.thing')\nasync def on_new(event): ...\n"},
        ("new.thing", "no handler wants it", "@router.on('new.thing') ⏎ async def"),
    ),
    "event_unreadable": ({"key": "k", "type": "crawl.page"}, ("event_unreadable", "key=k", "type=crawl.page")),
    "store_unavailable": ({"reason": "locked"}, ("WARNING", "store_unavailable", "locked")),
    "results_waiting": ({"count": 3, "reason": "locked"}, ("results_waiting", "count=3", "locked")),
    "worker_blocked": ({"advice": "look"}, ("worker_blocked", "look")),
    "worker_failed": ({}, ("worker_failed",)),
    "results_not_recorded": ({"count": 3}, ("results_not_recorded", "count=3")),
    "results_lost": ({"count": 3}, ("results_lost", "count=3")),
    "leases_not_renewed": ({"reason": "locked"}, ("leases_not_renewed", "locked")),
    "lease_lost": ({"work_id": 7}, ("lease_lost", "7")),
    "worker_finishing": ({"running": 2}, ("worker_finishing", "2")),
    "work_not_given_back": ({"count": 2, "reason": "locked"}, ("work_not_given_back", "count=2", "locked")),
    "checkpoint_failed": ({"reason": "locked"}, ("checkpoint_failed", "locked")),
    "worker_ended": ({"how": "exit code 1", "restart_in_s": 2.0}, ("worker_ended", "exit code 1", "2.0")),
    "worker_killed": ({"reason": "it did not stop"}, ("worker_killed", "it did not stop")),
    "handlers_do_not_import": ({}, ("handlers_do_not_import",)),
    "handlers_left_behind": ({"advice": "they will run again"}, ("handlers_left_behind", "they will run again")),
    "working": ({"handlers": 3, "worker": "host-1-ab"}, ("working", "handlers=3", "host-1-ab")),
    "listening": ({"url": "http://h:1/webhooks", "store": "sqlite:///r.db"}, ("listening", "http://h:1/webhooks")),
    "unauthenticated": ({"advice": "set RECEIVER_SECRETS"}, ("unauthenticated", "set RECEIVER_SECRETS")),
    "stopped": ({}, ("stopped",)),
}


def words_in_code() -> set[str]:
    """Return the first argument of every call of a logger's method in the package."""
    found = set()
    for path in Path(receiver.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id == "log"
                and node.func.attr in {"debug", "info", "warning", "error", "exception", "log"}
            ):
                found |= {
                    argument.value
                    for argument in node.args
                    if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
                }
    return found


def record(word: str, level: int = logging.WARNING, **fields: Any) -> logging.LogRecord:
    return logging.getLogger("receiver.test").makeRecord(
        "receiver.test", level, "", 0, word, (), None, extra=fields
    )


def test_every_event_word_of_the_code_is_known_here() -> None:
    """A new one needs its line in the table, and a look at how it is shown."""
    outcomes = {"delivery_accepted", "delivery_duplicate", "delivery_conflict"}  # made with an f-string

    assert words_in_code() | outcomes == set(WORDS)


@pytest.mark.parametrize("word", WORDS)
def test_every_event_word_has_a_line_for_people(word: str) -> None:
    """With a time before it and everything one needs to know in it."""
    fields, shown = WORDS[word]
    line = ConsoleFormatter().format(record(word, **fields))

    assert line[2] == line[5] == ":"
    assert [part for part in shown if part not in line] == []


@pytest.mark.parametrize("word", WORDS)
def test_every_event_word_has_an_object_for_machines(word: str) -> None:
    """One line, with every field under its own name."""
    fields, _ = WORDS[word]
    line = JsonFormatter().format(record(word, **fields))
    content = json.loads(line)

    assert "\n" not in line
    assert content.items() >= fields.items()
    assert (content["event"], content["level"], content["logger"]) == (word, "warning", "receiver.test")
    assert content["time"].endswith("Z")


@pytest.mark.parametrize("formatter", [ConsoleFormatter(), JsonFormatter()], ids=["console", "json"])
def test_an_exception_is_shown_with_its_traceback(formatter: logging.Formatter) -> None:
    """Below the line, or as a field."""
    try:
        raise ValueError("no \x1b[2J")
    except ValueError:
        failed = record("intake_failed")
        failed.exc_info = sys.exc_info()
    text = formatter.format(failed)

    assert "Traceback" in text
    assert "ValueError: no" in text
    assert "\x1b" not in text


@pytest.mark.parametrize("word", ["attempt_failed", "work_dead", "delivery_accepted", "event_unhandled"])
@pytest.mark.parametrize("formatter", [ConsoleFormatter(), JsonFormatter()], ids=["console", "json"])
def test_a_users_own_record_may_have_the_same_words(formatter: logging.Formatter, word: str) -> None:
    """Without our fields: a line that raises in its formatter is lost, and a traceback comes instead."""
    assert word in formatter.format(record(word))
    assert word in formatter.format(record(word, **ATTEMPT))


def test_a_handlers_own_line_names_handler_and_delivery() -> None:
    """And keeps its line ends, each line made harmless."""
    line = ConsoleFormatter().format(record("wrote page\nsecond \x1b[31mline", **ATTEMPT))

    assert "handlers.pages.write: wrote page\nsecond \\x1b[31mline" in line
    assert "6f1d3c52" in line


text_fields = st.fixed_dictionaries({"key": st.text(), "type": st.text(), "job_id": st.none() | st.text()})


@given(st.sampled_from(sorted(WORDS)), text_fields, st.text())
def test_nothing_from_outside_steers_a_terminal(word: str, outside: dict[str, Any], text: str) -> None:
    """Control characters, bidirectional marks and lone surrogates come as escapes, in every field."""
    fields = WORDS[word][0]
    fields = fields | {name: value for name, value in outside.items() if name in fields}
    fields |= {name: text for name in ("error", "reason", "detail", "traceback") if name in fields}

    line = ConsoleFormatter().format(record(word, **fields))

    assert all(part.isprintable() for part in line.split("\n"))
    line.encode()
    json.loads(JsonFormatter().format(record(word, **fields)))


def test_values_that_json_does_not_know_are_written_as_text() -> None:
    """A line is never lost for its fields."""
    content = json.loads(
        JsonFormatter().format(record("x", path=Path("/a"), error=ValueError("no"), lone="\ud800"))
    )

    assert (content["path"], content["error"], content["lone"]) == ("/a", "no", "\ud800")


def test_logs_are_configured_once_for_the_whole_process(capsys: pytest.CaptureFixture[str]) -> None:
    """On standard error; libraries only from warnings on."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        configure_logs(level="INFO", as_json=True)
        logging.getLogger("receiver.x").info("stopped")
        logging.getLogger("receiver.x").debug("hidden")
        logging.getLogger("httpx").info("hidden")
        logging.getLogger("httpx").warning("shown")
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    shown = [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()]

    assert shown == ["stopped", "shown"]
