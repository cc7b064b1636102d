"""Messages about important changes go to the log or to the chat, and never contain the chat's address."""

import logging
import re
from typing import Any

import pytest

from handlers.monitors import router
from tests.handlers.deliveries import handle, payload, wanted_by


def page(**values: Any) -> dict[str, Any]:
    """Return the sample of a changed page, with some of its fields set."""
    return payload("monitor.page", **{f"data__0__{name}": value for name, value in values.items()})


def check(**counts: int) -> dict[str, Any]:
    """Return the event of a check in which every page was the same, but for these."""
    same = {"totalPages": 12, "same": 12, "changed": 0, "new": 0, "removed": 0, "error": 0}
    return payload("monitor.check.completed", data__0__summary=same | counts)


def logged(caplog: pytest.LogCaptureFixture, event: dict[str, Any]) -> str:
    """Return what is told of an event when there is no chat: no message of the log has two lines."""
    with caplog.at_level(logging.INFO):
        handle(router, event)
    (record,) = caplog.records
    assert "\n" not in record.getMessage()
    return record.getMessage()


@pytest.fixture(autouse=True)
def no_chat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CHAT_WEBHOOK_URL", raising=False)


def test_a_message_about_a_change_has_its_reason_and_its_lines(caplog: pytest.LogCaptureFixture) -> None:
    """Of the diff only the removed and added lines, without its headers."""
    assert logged(caplog, payload("monitor.page")) == (
        "Page changed: https://example.com/prices; "
        "The price of a gear tune went up, which is inside the goal; "
        "- | Gear tune | 35 min | £18 |; "
        "+ | Gear tune | 35 min | £21 |"
    )


def test_a_message_about_extracted_values_has_old_and_new_values(caplog: pytest.LogCaptureFixture) -> None:
    """For each path."""
    event = payload("monitor.page.json")
    del event["data"][0]["diff"]["text"]

    assert logged(caplog, event) == (
        "Page changed: https://example.com/prices; "
        "jobs[1].price: 18 → 21; "
        'jobs[4]: nothing → {"name": "Tubeless set-up", "price": 30}'
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("monitor.page.new", "New page: https://example.com/guides/winter"),
        ("monitor.page.object", "Page changed: https://example.com/hours"),
        ("monitor.page.error", "Page could not be checked: https://example.com/stock; Scrape timed out"),
        (
            "monitor.page.search",
            "New page: https://news.example.org/cargo-bike-grant; "
            "The article announces a new grant for cargo bikes, which the goal asks for",
        ),
        (
            "monitor.check.completed",
            "Check completed: 12 pages, 2 changed, 1 new (monitor 019f2c10-0005-7a00-8b00-000000009aab)",
        ),
        (
            "monitor.check.completed.partial",
            "Check partial: 12 pages, 2 changed, 1 removed, 1 failed"
            " (monitor 019f2c10-0005-7a00-8b00-000000009aab)",
        ),
        (
            "monitor.check.completed.failed",
            "Check failed: 0 pages, no differences (monitor 019f2c10-0005-7a00-8b00-000000009aab); "
            "Monitor check exceeded the running timeout",
        ),
    ],
)
def test_all_other_messages_have_one_or_two_lines(caplog: pytest.LogCaptureFixture, name: str, text: str) -> None:
    """The event, the place, and the reason if it is known."""
    assert logged(caplog, payload(name)) == text


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (page(status="changed", isMeaningful=True), True),
        (page(status="changed", isMeaningful=None), True),
        (page(status="changed", isMeaningful=False), False),
        (page(status="new", isMeaningful=None), True),
        (page(status="error", isMeaningful=None), True),
        (page(status="same", isMeaningful=None), False),
        (page(status="a word of tomorrow", isMeaningful=None), False),
        (payload("monitor.page", data=[]), False),
        (check(), False),
        (check(changed=1), True),
        (check(new=1), True),
        (check(removed=1), True),
        (check(error=1), True),
        (payload("monitor.check.completed.failed"), True),
        (payload("monitor.check.completed", data=[]), True),
    ],
)
def test_only_important_changes_make_a_message(event: dict[str, Any], told: bool) -> None:
    """Not a change that the monitor's judge found meaningless, and not a check without differences."""
    assert bool(wanted_by(router, event)) is told


def test_a_long_diff_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    """Twenty lines, each of bounded length, and how many more there are."""
    lines = "\n".join(f"+{number} {'x' * 1000}" for number in range(100))

    text = logged(caplog, page(diff={"text": f"@@ -0,0 +1,100 @@\n{lines}"}))

    told = text.split("; ")
    assert len(told) == 2 + 20 + 1
    assert told[-1] == "… and 80 more"
    assert max(map(len, told)) <= 302


@pytest.mark.parametrize(
    ("diff", "told"),
    [
        ("--- previous\n+++ current\n@@ -1 +1 @@\n--- a rule\n+++ another\n same", ["- -- a rule", "+ ++ another"]),
        ("-old\n+new", ["- old", "+ new"]),
        ("nothing like a diff", []),
        ("", []),
    ],
)
def test_lines_that_look_like_headers_are_kept(
    caplog: pytest.LogCaptureFixture, diff: str, told: list[str]
) -> None:
    """Headers come before the first hunk. Below it every plus and minus is a line of the page."""
    text = logged(caplog, page(diff={"text": diff}, judgment=None))

    assert text.split("; ")[1:] == told


def test_texts_from_outside_cannot_steer_a_terminal(caplog: pytest.LogCaptureFixture) -> None:
    """No line of a page begins a line of the log, and nothing colours or clears the screen."""
    hostile = "a\x1b[2J\r\nERROR everything is lost\u202e"

    text = logged(
        caplog,
        page(url=hostile, judgment={"reason": hostile}, diff={"text": f"@@\n+{hostile}", "json": {hostile: None}}),
    )

    assert all(line.startswith("  ") for line in text.splitlines()[1:])
    assert re.sub(r"[\n]", "", text).isprintable()


def test_one_page_is_told_in_the_singular(caplog: pytest.LogCaptureFixture) -> None:
    """A monitor of one page is the first that people make."""
    event = payload("monitor.check.completed")
    event["data"][0]["summary"]["totalPages"] = 1

    assert "Check completed: 1 page, " in logged(caplog, event)
