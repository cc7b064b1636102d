"""Log lines for people and for machines."""

import ast
import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import IO, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import receiver.runtime.logs
from receiver.runtime.log_lines import ConsoleFormatter, EventText, JsonFormatter
from receiver.runtime.logs import BackgroundHandler, configure_logs
from tests.texts import PAGES

DELIVERY: dict[str, Any] = {"id": "6f1d3c52-8a54-4b1e-9d0e-2f6f0a7f9a11", "type": "crawl.page", "job_id": "job-1"}
ATTEMPT: dict[str, Any] = DELIVERY | {"handler": "handlers.pages.write", "attempt": 2}

# Every event word of the code, with its fields, and the text that a person must see.
WORDS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "delivery_accepted": (
        DELIVERY | {"size": 2_048},
        ("→", "crawl.page", "6f1d3c52", "2.0 KiB", "accepted", "job-1"),
    ),
    "deliveries_received": (
        {"count": 1_200, "kinds": "crawl.page 1,100, crawl.completed 100"},
        ("1,200", "crawl.page 1,100", "crawl.completed 100"),
    ),
    "attempts_succeeded": ({"count": 1_200, "kinds": "handlers.save 1,200"}, ("1,200", "handlers.save")),
    "delivery_duplicate": (DELIVERY | {"size": 3, "job_id": None}, ("→", "3 B", "duplicate")),
    "delivery_conflict": (DELIVERY | {"size": 3}, ("→", "CONFLICT", "quarantine")),
    "deliveries_refused": (
        {"count": 1_200, "kinds": "unauthenticated 1,200"},
        ("WARNING", "1,200 more refused", "unauthenticated 1,200"),
    ),
    "delivery_refused": (
        {
            "reason": "malformed",
            "detail": "the body has no `type`",
            "client": "192.0.2.7",
            "path": "/webhooks",
            "user_agent": "curl/8",
        },
        ("malformed", "no `type`", "192.0.2.7", "/webhooks", "curl/8"),
    ),
    "connections_refused": ({"count": 1_200, "kinds": "connections 1,200"}, ("1,200 more connections", "503")),
    "deliveries_not_stored": (
        {"count": 1_200, "kinds": "store_error 1,200"},
        ("1,200 more NOT STORED", "store_error 1,200"),
    ),
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
        ("✗", "DEAD after attempt 2", "ValueError: no", "\n  Traceback:\n    line\n"),
    ),
    "attempt_overdue": (ATTEMPT | {"timeout_s": 60.0}, ("!", "crawl.page", "handlers.pages.write", "60 s")),
    "attempt_late": (
        ATTEMPT | {"seconds": 8.01, "timeout_s": 3.0, "reason": "it never let others run", "advice": "wait"},
        ("!", "crawl.page", "handlers.pages.write", "8.0 s of at most 3 s", "never let others run", "wait"),
    ),
    "event_loop_blocked": (
        {"handler": "handlers.pages.write", "where": "handlers.py:7", "seconds": 3.0, "advice": "make it plain"},
        ("!", "handlers.pages.write", "event loop for at least 3 s at handlers.py:7", "make it plain"),
    ),
    "event_loop_free": (
        {"by": "handlers.pages.write", "seconds": 25.04},
        ("!", "handlers.pages.write", "event loop for at least 25 s in all"),
    ),
    "attempt_crashed": ({"handler": "handlers.pages.write"}, ("attempt_crashed", "handlers.pages.write")),
    "event_unhandled": (
        {"type": "new.thing", "stub": "@router.on('new.thing')\nasync def on_new(event): ...\n"},
        ("new.thing", "no handler wants it. One to paste:\n@router.on('new.thing')\nasync def on_new(event)"),
    ),
    "event_unreadable": ({"id": "k", "type": "crawl.page"}, ("event_unreadable", "id=k", "type=crawl.page")),
    "store_unavailable": ({"reason": "locked"}, ("WARNING", "store_unavailable", "locked")),
    "ballast_not_made": (
        {"path": "receiver.db-ballast", "reason": "1.0 MiB are free"},
        ("WARNING", "ballast_not_made", "path=receiver.db-ballast", "1.0 MiB are free"),
    ),
    "ballast_given_up": ({"bytes": 4_194_304}, ("WARNING", "ballast_given_up", "4194304")),
    "service_items_skipped": (
        {"path": "data", "count": 2},
        ("WARNING", "service_items_skipped", "path=data", "count=2"),
    ),
    "settle_retrying": ({"count": 3, "reason": "locked"}, ("settle_retrying", "count=3", "locked")),
    "worker_blocked": ({"advice": "look"}, ("worker_blocked", "look")),
    "worker_failed": ({}, ("worker_failed",)),
    "routing_blocked": (DELIVERY | {"handler": "h", "advice": "wait"}, ("routing_blocked", "handler=h", "wait")),
    "results_not_recorded": ({"count": 3}, ("results_not_recorded", "count=3")),
    "results_lost": ({"count": 3}, ("results_lost", "count=3")),
    "job_rows_behind": ({"reason": "locked"}, ("WARNING", "job_rows_behind", "locked")),
    "leases_not_renewed": ({"reason": "locked"}, ("leases_not_renewed", "locked")),
    "lease_lost": ({"work_id": 7}, ("lease_lost", "7")),
    "workers_died": ({"workers": ["web-1-4711"]}, ("WARNING", "workers_died", "web-1-4711")),
    "worker_not_shown": ({"reason": "locked"}, ("worker_not_shown", "locked")),
    "worker_finishing": ({"running": 2}, ("worker_finishing", "2")),
    "leases_not_released": ({"count": 2, "reason": "locked"}, ("leases_not_released", "count=2", "locked")),
    "start_marks_not_cleared": ({"reason": "locked"}, ("start_marks_not_cleared", "locked")),
    "start_mark_failed": ({"count": 2, "reason": "locked"}, ("start_mark_failed", "count=2", "locked")),
    "search_index_retrying": ({"reason": "locked"}, ("search_index_retrying", "locked")),
    "search_index_crashed": ({}, ("search_index_crashed",)),
    "event_drift": (
        {"type": "crawl.page", "kind": "field", "path": "data[].newThing", "id": "k1"},
        ("event_drift", "data[].newThing"),
    ),
    "backfilled": (
        {"job_id": "job-1", "reason": "ended", "count": 2, "types": {"crawl.page": 2}},
        ("WARNING", "backfilled", "job_id=job-1", "count=2", "'crawl.page': 2"),
    ),
    "backfill_not_needed": ({"job_id": "job-1", "count": 0}, ("backfill_not_needed", "job_id=job-1")),
    "backfill_impossible": ({"job_id": "job-1", "reason": "404"}, ("backfill_impossible", "job-1", "reason=404")),
    "backfill_deferred": ({"reason": "500"}, ("backfill_deferred", "reason=500")),
    "backfill_crashed": ({}, ("backfill_crashed",)),
    "scheduled_run_left_out": (
        {"handler": "handlers.report", "due_at": "2026-11-22T09:00:00.000000Z", "reason": "not ended"},
        ("scheduled_run_left_out", "handler=handlers.report", "not ended"),
    ),
    "scheduled_runs_delayed": ({"reason": "locked"}, ("scheduled_runs_delayed", "locked")),
    "scheduled_runs_missed": (
        {
            "handler": "handlers.report",
            "since": "2026-11-20T09:00:00.000000Z",
            "made": "2026-11-22T09:00:00.000000Z",
        },
        ("scheduled_runs_missed", "handler=handlers.report", "since=2026-11-20"),
    ),
    "late_webhook_skipped": (
        {"id": "k1", "type": "crawl.page", "as": "backfill:0a1b"},
        ("late_webhook_skipped", "id=k1", "as=backfill:0a1b"),
    ),
    "store_migrated": ({"from": 7, "to": 9}, ("store_migrated", "from=7", "to=9")),
    "maintenance_failed": ({"reason": "locked"}, ("maintenance_failed", "locked")),
    "maintenance_crashed": ({}, ("maintenance_crashed",)),
    "pruned": ({"bodies": 2, "deliveries": 3}, ("pruned", "bodies=2", "deliveries=3")),
    "store_shrunk": ({"compressed": 2, "pages": 30}, ("store_shrunk", "compressed=2", "pages=30")),
    "checkpoint_crashed": ({}, ("checkpoint_crashed",)),
    "checkpoint_failed": ({"reason": "locked"}, ("checkpoint_failed", "locked")),
    "secret_too_short": ({"advice": "use a longer one"}, ("WARNING", "secret_too_short", "use a longer one")),
    "public_url_not_reachable": ({"advice": "set it"}, ("WARNING", "public_url_not_reachable", "set it")),
    "worker_waits_for_change": ({"advice": "save"}, ("worker_waits_for_change", "save")),
    "code_changed": ({"files": "a.py", "then": "the worker restarts"}, ("code_changed", "a.py")),
    "code_not_watched": ({"reason": "too many"}, ("code_not_watched", "too many")),
    "worker_ended": ({"how": "exit code 1", "restart_in_s": 2.0}, ("worker_ended", "exit code 1", "2.0")),
    "console_ended": ({"how": "exit code 1", "restart_in_s": 2.0}, ("console_ended", "exit code 1", "2.0")),
    "console_killed": ({"reason": "it did not stop"}, ("console_killed", "it did not stop")),
    "console_serving": ({"url": "http://127.0.0.1:8001"}, ("console_serving", "http://127.0.0.1:8001")),
    "console_stopped": ({}, ("console_stopped",)),
    "console_action": (
        {"action": "retry", "about": "work item #7", "actor": "console 10.0.0.7", "changed": 1, "error": None},
        ("console_action", "retry", "work item #7", "10.0.0.7"),
    ),
    "console_job_not_compared": ({"job_id": "job-1"}, ("console_job_not_compared", "job-1")),
    "console_action_failed": ({"action": 7}, ("console_action_failed", "7")),
    "console_signed_in": ({"client": "10.0.0.7"}, ("console_signed_in", "10.0.0.7")),
    "console_sign_in_refused": ({"client": "10.0.0.7"}, ("console_sign_in_refused", "10.0.0.7")),
    "worker_exhausted": (
        {"reason": "240 of at most 256 files are open", "suspects": ["handlers.leak"], "advice": "look"},
        ("worker_exhausted", "240 of at most 256 files", "; suspects: handlers.leak", "look"),
    ),
    "web_process_ended": (
        {"how": "killed by SIGKILL", "restart_in_s": 1.0},
        ("web_process_ended", "killed by SIGKILL", "1.0"),
    ),
    "writer_ended": (
        {"how": "killed by SIGKILL", "restart_in_s": 1.0},
        ("writer_ended", "killed by SIGKILL", "1.0"),
    ),
    "writer_killed": ({"reason": "it did not close"}, ("writer_killed", "it did not close")),
    "writer_refused": ({"reason": "it is damaged"}, ("writer_refused", "it is damaged")),
    "batch_not_written": ({}, ("batch_not_written",)),
    "web_process_killed": ({"reason": "it did not stop"}, ("web_process_killed", "it did not stop")),
    "worker_killed": ({"reason": "it did not stop"}, ("worker_killed", "it did not stop")),
    "handlers_still_importing": (
        {"handlers": "handlers:router", "where": "handlers.py:14", "advice": "wait"},
        ("WARNING", "handlers=handlers:router", "where=handlers.py:14", "wait"),
    ),
    "handlers_do_not_import": ({}, ("handlers_do_not_import",)),
    "handlers_left_behind": (
        {"count": 2, "advice": "they will run again"},
        ("handlers_left_behind", "count=2", "they will run again"),
    ),
    "clock_differs": ({"seconds": -90.5, "advice": "keep both"}, ("clock_differs", "seconds=-90.5", "keep both")),
    "clock_not_compared": ({"reason": "it is away"}, ("clock_not_compared", "it is away")),
    "schema_migrated": (
        {"store": "db at host", "before": 1, "after": 2},
        ("schema_migrated", "db at host", "before=1", "after=2"),
    ),
    "worker_started": ({"handlers": 3, "worker": "host-1-ab"}, ("worker_started", "handlers=3", "host-1-ab")),
    "listening": ({"url": "http://h:1/webhooks", "store": "sqlite:///r.db"}, ("listening", "http://h:1/webhooks")),
    "request_failed": ({}, ("request_failed",)),
    "connections_not_accepted": (
        {"reason": "Too many open files", "advice": "see the limit"},
        ("connections_not_accepted", "Too many open files", "see the limit"),
    ),
    "too_many_connections": ({}, ("WARNING", "too_many_connections")),
    "authentication_not_configured": (
        {"advice": "set RECEIVER_SECRETS"},
        ("authentication_not_configured", "set RECEIVER_SECRETS"),
    ),
    "lifespan_not_entered": (
        {"advice": "FastAPI(lifespan=receiver.lifespan)"},
        ("lifespan_not_entered", "FastAPI(lifespan=receiver.lifespan)"),
    ),
    "server_stopped": ({}, ("server_stopped",)),
    "lane_unknown": (
        {"handler": "handlers.pages.write", "type": "crawl.page", "job_id": "job-1", "advice": "in its job's lane"},
        ("lane_unknown", "handler=handlers.pages.write", "job_id=job-1", "in its job's lane"),
    ),
    "work_released": ({"work_id": 7, "job_id": "job-1", "note": "every page"}, ("work_released", "every page")),
    "work_without_handler": (
        {"waiting": {"handlers.old": 3}, "advice": "bury it"},
        ("WARNING", "work_without_handler", "'handlers.old': 3", "bury it"),
    ),
    "scrape_crashed": (
        {"url": "https://docs.example.com/a", "scrape": "019f2c10"},
        ("scrape_crashed", "url=https://docs.example.com/a", "scrape=019f2c10"),
    ),
    "site_not_indexed": (
        {"url": "https://docs.example.com"},
        ("site_not_indexed", "url=https://docs.example.com"),
    ),
    "browser_restarted": ({"reason": "a page could not be closed"}, ("WARNING", "a page could not be closed")),
    "browser_profile_not_saved": ({"reason": "time-out"}, ("WARNING", "time-out")),
    "browser_not_started": ({"reason": "spawn failed"}, ("WARNING", "spawn failed")),
    "emulated_call_failed": (
        {"id": "019f2c10", "path": "/v2/crawl"},
        ("emulated_call_failed", "id=019f2c10", "path=/v2/crawl"),
    ),
    "emulator_state_unwritable": (
        {"file": "/data/emulator.db", "reason": "disk full", "advice": "make room"},
        ("emulator_state_unwritable", "file=/data/emulator.db", "disk full", "make room"),
    ),
    "emulator_state_writable": ({"file": "/data/emulator.db"}, ("emulator_state_writable", "/data/emulator.db")),
    "page_crashed": ({"job_id": "job-1", "fault": "019f2c10"}, ("page_crashed", "job-1", "fault=019f2c10")),
    "job_crashed": ({"job_id": "job-1", "fault": "019f2c10"}, ("job_crashed", "job-1", "fault=019f2c10")),
    "job_lost": ({}, ("job_lost",)),
    "watcher_crashed": ({"path": "/v2/crawl/1"}, ("watcher_crashed", "path=/v2/crawl/1")),
    "webhook_crashed": ({"url": "hooks.example.com/1"}, ("webhook_crashed", "url=hooks.example.com/1")),
    "webhooks_crashed": ({"url": "hooks.example.com/1"}, ("webhooks_crashed", "url=hooks.example.com/1")),
    "monitor_runs_left_out": (
        {"monitor": "019f2c10", "until": "2026-01-01T12:00:00.000Z"},
        ("monitor_runs_left_out", "monitor=019f2c10", "until="),
    ),
    "resource_not_closed": ({"resource": "handlers.pool"}, ("resource_not_closed", "handlers.pool")),
    "routing_not_tried": ({"reason": "no process"}, ("WARNING", "routing_not_tried", "no process")),
    "resource_not_made": ({}, ("resource_not_made",)),
    "backlog_not_read": ({"reason": "locked"}, ("backlog_not_read", "locked")),
    "metrics_failed": ({}, ("metrics_failed",)),
    "metrics_not_served": ({"reason": "port 9464 is taken"}, ("metrics_not_served", "port 9464 is taken")),
    "serving_metrics": ({"url": "http://127.0.0.1:9464/metrics"}, ("serving_metrics", "9464")),
    "trace_failed": ({"count": 2}, ("trace_failed", "count=2")),
    "traces_not_exported": ({"advice": "pip install x"}, ("traces_not_exported", "pip install x")),
    "alert_sent": ({"to": "chat.example.com", "id": "alert_1"}, ("alert_sent", "chat.example.com", "alert_1")),
    "alert_not_sent": (
        {"reason": "chat.example.com answered 503", "id": "alert_1"},
        ("alert_not_sent", "chat.example.com answered 503", "alert_1"),
    ),
    "alerts_not_checked": ({"reason": "locked"}, ("alerts_not_checked", "locked")),
    "subscriber_failed": (
        {"subscriber": "handlers.alarm", "record": "WorkDead", "count": 2},
        ("subscriber_failed", "handlers.alarm", "WorkDead", "count=2"),
    ),
    "subscriber_too_slow": (
        {"subscriber": "handlers.alarm", "dropped": 2},
        ("subscriber_too_slow", "handlers.alarm", "dropped=2"),
    ),
    "subscribers_unfinished": ({"subscribers": ["handlers.alarm"]}, ("subscribers_unfinished", "handlers.alarm")),
    "python_warning": (
        {"category": "DeprecationWarning", "text": "old", "where": "handlers.py:3"},
        ("WARNING", "DeprecationWarning", "text=old", "where=handlers.py:3"),
    ),
    "command_failed": ({"reason": "no secret"}, ("command_failed", "no secret")),
    "crashed": ({}, ("crashed",)),
    "thread_crashed": ({"where": "poller"}, ("thread_crashed", "where=poller")),
    "exception_ignored": ({"where": "<function f>"}, ("exception_ignored", "where=<function f>")),
    "log_lines_dropped": ({"count": 3}, ("WARNING", "log_lines_dropped", "count=3")),
    "log_line_broken": ({"where": "handlers/pages.py:7"}, ("log_line_broken", "handlers/pages.py:7")),
}


def words_in_code(below: str = ".") -> set[str]:
    """Return the first argument of every call of a logger's method in the package, or in a folder of it."""
    found = set()
    for path in (Path(receiver.__file__).parent / below).rglob("*.py"):
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


def event(word: str, level: int = logging.WARNING, **fields: Any) -> logging.LogRecord:
    """Return a record of one of our events."""
    return own_record(EventText(word, fields), level, **fields, event=word)


def own_record(message: object, level: int = logging.WARNING, **fields: Any) -> logging.LogRecord:
    """Return a record of a user's logger."""
    return logging.getLogger("own").makeRecord("own", level, "", 0, message, (), None, extra=fields)


def test_every_event_word_of_the_code_is_known_here() -> None:
    """A new event word needs a row in the table."""
    chosen = {"delivery_accepted", "delivery_duplicate", "delivery_conflict", "backfill_impossible"}  # no constants
    chosen |= {"deliveries_received", "attempts_succeeded"}
    chosen |= {f"{kind}_{end}" for kind in ("worker", "web_process", "console") for end in ("ended", "killed")}
    chosen |= {"deliveries_refused", "deliveries_not_stored", "connections_refused"}
    own = {"log_lines_dropped", "log_line_broken"}  # about the log itself, written without a logger
    own |= {"crashed", "thread_crashed", "exception_ignored"}  # by one function

    assert words_in_code() | chosen | own == set(WORDS)


def test_the_guide_explains_every_event_word_of_the_receiver() -> None:
    """Those of the emulator are for people who write handlers, and say enough themselves."""
    page = PAGES["logs.md"]
    explained = {word for row in re.findall(r"^\| (`.*?`) \|", page, re.MULTILINE) for word in row.split("`")[1::2]}

    assert set(WORDS) - explained - words_in_code("emulator") == set()
    assert explained <= set(WORDS)


@pytest.mark.parametrize("word", WORDS)
def test_every_event_word_has_a_line_for_people(word: str) -> None:
    """The line begins with a time and has all that a person needs."""
    fields, shown = WORDS[word]
    line = ConsoleFormatter().format(event(word, **fields))

    assert datetime.fromisoformat(line.split(" ")[0]).tzinfo is not None
    assert [part for part in shown if part not in line] == []


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        ("6f1d3c52-8a54-4b1e-9d0e-2f6f0a7f9a11", " 6f1d3c52 "),
        (f"sha256:{'0a' * 32}", " sha256:0a0a0a0a "),
        (f"backfill:{'0a' * 16}", " backfill:0a0a0a "),
    ],
)
def test_a_delivery_is_named_by_a_beginning_of_its_id(key: str, shown: str) -> None:
    """One that tells it from others, and that `events show` takes."""
    line = ConsoleFormatter().format(event("attempt_succeeded", **ATTEMPT | {"id": key, "seconds": 1}))

    assert shown in line
    assert key.startswith(shown.strip())


@pytest.mark.parametrize("word", WORDS)
def test_every_event_word_has_an_object_for_machines(word: str) -> None:
    """It is one line, with every field under its own name."""
    fields, _ = WORDS[word]
    line = JsonFormatter().format(event(word, **fields))
    content = json.loads(line)

    assert "\n" not in line
    assert content.items() >= fields.items()
    assert (content["event"], content["level"], content["logger"]) == (word, "warning", "own")
    assert content["time"].endswith("Z")


@pytest.mark.parametrize("formatter", [ConsoleFormatter(), JsonFormatter()], ids=["console", "json"])
def test_an_exception_is_shown_with_its_traceback(formatter: logging.Formatter) -> None:
    """It stands below the line, or in a field."""
    try:
        raise ValueError("no \x1b[2J")
    except ValueError:
        failed = own_record("it failed")
        failed.exc_info = sys.exc_info()
    text = formatter.format(failed)

    assert "Traceback" in text
    assert "ValueError: no" in text
    assert "\x1b" not in text


@pytest.mark.parametrize("word", ["attempt_failed", "work_dead", "delivery_accepted", "event_unhandled"])
@pytest.mark.parametrize("formatter", [ConsoleFormatter(), JsonFormatter()], ids=["console", "json"])
def test_a_users_own_record_may_have_the_same_words(formatter: logging.Formatter, word: str) -> None:
    """It does not have our fields. If the formatter raised, the line would be lost."""
    assert word in formatter.format(own_record(word))
    assert word in formatter.format(own_record(word, **ATTEMPT))


@pytest.mark.parametrize("stops", [True, False])
def test_a_dead_item_that_stops_its_lane_says_so(*, stops: bool) -> None:
    """What is queued behind it waits for a decision."""
    dead = event("work_dead", **ATTEMPT, seconds=0.5, error="no", **({"stops_lane": True} if stops else {}))

    assert ("no; its lane waits until you retry or bury it" in ConsoleFormatter().format(dead)) is stops


def test_a_handlers_own_line_names_handler_and_delivery() -> None:
    """Line feeds and other control characters become escapes, so that it stays one line."""
    one = own_record("wrote page\nsecond \x1b[31mline", **ATTEMPT)
    one.name = ATTEMPT["handler"]
    line = ConsoleFormatter().format(one)

    assert "handlers.pages.write: wrote page\\nsecond \\x1b[31mline" in line
    assert "6f1d3c52" in line


FORGED = "12:00:00 → crawl.page               6f1d3c52     2.0 KiB  accepted"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\x85", "\u2028", "\x0b"])
@pytest.mark.parametrize("field", ["message", "page", "traceback", "stub", "handler", "exception"])
def test_no_text_of_a_handler_forges_a_line(field: str, end: str) -> None:
    """Only the formatter begins a line at the left, whichever character ends a line in the text."""
    text = f"wrote page{end}{FORGED}"
    one = own_record(text if field == "message" else "wrote", **ATTEMPT)
    if field == "exception":
        try:
            raise ValueError(text)
        except ValueError:
            one.exc_info = sys.exc_info()
    elif field != "message":
        setattr(one, field, text)

    first, *others = ConsoleFormatter().format(one).split("\n")

    assert all(line.isprintable() for line in [first, *others])
    assert all(line.startswith("  ") for line in others)


_TEXTS = ("error", "reason", "detail", "traceback", "client", "path", "user_agent")
text_fields = st.fixed_dictionaries({"id": st.text(), "type": st.text(), "job_id": st.none() | st.text()})


@given(st.sampled_from(sorted(WORDS)), text_fields, st.text())
def test_nothing_from_outside_steers_a_terminal(word: str, outside: dict[str, Any], text: str) -> None:
    """Control characters, bidirectional marks and lone surrogates become escapes in every field."""
    fields = WORDS[word][0]
    fields = fields | {name: value for name, value in outside.items() if name in fields}
    fields |= {name: text for name in _TEXTS if name in fields}

    line = ConsoleFormatter().format(event(word, **fields))

    assert all(part.isprintable() for part in line.split("\n"))
    line.encode()
    json.loads(JsonFormatter().format(event(word, **fields)))


def test_values_that_json_does_not_know_are_written_as_text() -> None:
    """No field can make a line disappear."""
    content = json.loads(
        JsonFormatter().format(own_record("x", path=Path("/a"), error=ValueError("no"), lone="\ud800"))
    )

    assert (content["path"], content["error"], content["lone"]) == ("/a", "no", "\ud800")


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    """The root logger. Its handlers and level are restored after the test."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers[:] = []
    yield root
    for handler in root.handlers:
        handler.close()
    root.handlers[:] = handlers
    root.setLevel(level)


def test_logs_are_configured_once_for_the_whole_process(
    root: logging.Logger, capfd: pytest.CaptureFixture[str]
) -> None:
    """They go to standard error; those of libraries only from warnings on."""
    configure_logs(level="INFO", as_json=True)
    logging.getLogger("receiver.x").info("server_stopped")
    logging.getLogger("receiver.x").debug("hidden")
    logging.getLogger("httpx").info("hidden")
    logging.getLogger("httpx").warning("shown")
    root.handlers[0].close()
    shown = [json.loads(line)["event"] for line in capfd.readouterr().err.splitlines()]

    assert shown == ["server_stopped", "shown"]


def test_logs_can_be_configured_without_standard_error(
    root: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its number may then belong to another file, such as the database."""
    monkeypatch.setattr(sys, "stderr", None)
    configure_logs(level="INFO", as_json=True)

    root.warning("lost")


# --- the thread that writes


class Pipe:
    """A handler that writes into a pipe, and the other end of the pipe."""

    def __init__(self) -> None:
        read_end, write_end = os.pipe()
        self.reader: IO[str] = os.fdopen(read_end)
        self.writer: IO[str] = os.fdopen(write_end, "w")
        self.handler = BackgroundHandler(self.writer)
        self.handler.setFormatter(JsonFormatter())

    def log(self, count: int) -> None:
        """Log `count` lines of about 1 KB."""
        for number in range(count):
            self.handler.handle(event("server_stopped", number=number, filling="x" * 900))

    def event(self) -> dict[str, Any]:
        """Return the next line."""
        content: dict[str, Any] = json.loads(self.reader.readline())
        return content


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    """A handler with a pipe that only the test reads."""
    pipe = Pipe()
    yield pipe
    pipe.reader.close()  # a thread that still writes there ends
    pipe.handler.close()
    pipe.writer.close()


@pytest.mark.parametrize("blocking", [True, False])
def test_queued_lines_are_written_in_order(pipe: Pipe, blocking: bool) -> None:
    """A pipe takes only a part at a time, and a program that shares it may have made it non-blocking."""
    os.set_blocking(pipe.writer.fileno(), blocking)
    pipe.log(500)

    assert [pipe.event()["number"] for _ in range(500)] == list(range(500))


def test_lines_without_room_are_dropped_and_counted(pipe: Pipe) -> None:
    """The next line that fits comes after a line with the number of dropped ones."""
    pipe.handler.max_waiting = 100_000
    pipe.log(500)
    dropped = pipe.handler.dropped
    kept = [pipe.event()["number"] for _ in range(500 - dropped)]
    pipe.log(1)
    told, after = pipe.event(), pipe.event()

    assert kept == list(range(500 - dropped))
    assert 0 < dropped < 500
    assert (told["event"], told["level"], told["count"]) == ("log_lines_dropped", "warning", dropped)
    assert after["number"] == 0


def test_dropped_lines_are_counted_at_the_end(pipe: Pipe) -> None:
    """This needs no further line."""
    pipe.handler.max_waiting = 3_000
    logged = 0
    while not pipe.handler.dropped:  # until nobody reads what the pipe cannot hold
        pipe.log(1)
        logged += 1
    with ThreadPoolExecutor(1) as beside:
        lines = beside.submit(pipe.reader.readlines)
        pipe.handler.close()
        pipe.writer.close()
    events = [json.loads(line) for line in lines.result()]
    told = [event["count"] for event in events if event["event"] == "log_lines_dropped"]

    assert events[-1]["event"] == "log_lines_dropped"
    assert len(events) - len(told) + sum(told) == logged


def test_fields_and_tracebacks_are_taken_when_they_are_logged(pipe: Pipe) -> None:
    """A later change of a value does not change the line."""
    parts = ["one"]
    try:
        raise ValueError("no")
    except ValueError:
        failed = event("intake_failed", parts=parts)
        failed.exc_info = sys.exc_info()
        pipe.handler.handle(failed)
    parts.append("two")
    written = pipe.event()

    assert written["parts"] == ["one"]
    assert written["exception"].startswith("Traceback")
    assert written["exception"].endswith("ValueError: no")


def test_a_record_that_cannot_be_formatted_is_reported_in_the_log(
    pipe: Pipe, capfd: pytest.CaptureFixture[str]
) -> None:
    """It does not go to standard error past the log."""
    broken = own_record("%d pages")
    broken.args = ("no number",)
    pipe.handler.handle(broken)
    event = pipe.event()

    assert (event["event"], event["where"]) == ("log_line_broken", ":0")
    assert "TypeError" in event["exception"]
    assert capfd.readouterr().err == ""


def test_a_forked_process_writes_its_lines_too() -> None:
    """A user's handler may fork (multiprocessing), and a forked process has no writing thread."""
    program = """
import logging, os
from receiver.runtime.logs import configure_logs
configure_logs(level="INFO", as_json=True)
child = os.fork()
if child == 0:
    logging.warning("from the child")
    os._exit(0)
os.waitpid(child, 0)
logging.warning("from the parent")
"""
    command = [sys.executable, "-W", "ignore", "-c", program]  # 3.12 warns of forks beside threads
    done = subprocess.run(command, capture_output=True, check=True)

    assert [json.loads(line)["event"] for line in done.stderr.splitlines()] == ["from the child", "from the parent"]
