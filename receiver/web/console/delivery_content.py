"""The content of a delivery for its page: its body, and commands, requests and tests to copy that repeat it."""

import json
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

from receiver.core.deliveries import DeliveryDetail, DeliverySummary
from receiver.core.envelope import NotJson, load_json
from receiver.core.subjects import MAX_SUBJECT_BODY, subject_of
from receiver.core.text import escape_controls, shortened
from receiver.web.console.rendering import MAX_MARKDOWN, safe_markdown, tree

MAX_SHOWN_BODY = 1024 * 1024
"""Bytes of a body that is shown as a tree. A longer one can be downloaded."""
_RAW_SHOWN = 20_000
_PAGES = 3
_DIFF_LINES, _DIFF_WIDTH = 400, 400


def content_of(detail: DeliveryDetail) -> dict[str, Any]:
    """Return what is shown of a body: as a tree, as text, and the Markdown and screenshots of its pages.

    A hostile body takes about a second: call it in a thread.
    """
    body = detail.body
    shown: dict[str, Any] = {"body": None, "raw": "", "cut": False, "pages": [], "too_long": False}
    # The subject is decoded in one step, and no other thread runs meanwhile.
    readable = body if body is not None and len(body) <= MAX_SUBJECT_BODY else b""
    shown["subject"] = subject_of(detail.summary.type, detail.summary.job_id, readable)
    if body is None:
        return shown
    shown["raw"] = body[:_RAW_SHOWN].decode("utf-8", "backslashreplace")
    shown["cut"] = len(body) > _RAW_SHOWN
    if len(body) > MAX_SHOWN_BODY:
        return shown | {"too_long": True}
    try:
        content = load_json(body)
    except (NotJson, RecursionError):
        return shown
    shown["body"] = tree(content)
    data = content.get("data") if isinstance(content, dict) else None
    items = data if isinstance(data, list) else [data]
    shown["pages"] = list(_pages(items[:_PAGES]))
    return shown


def _pages(items: Sequence[Any]) -> Iterator[dict[str, Any]]:
    left = MAX_MARKDOWN
    for item in items:
        page = _page_of(item, left) if isinstance(item, dict) else None
        if page is not None:
            yield page
            left = max(0, left - len(item.get("markdown") or ""))


def _page_of(item: dict[str, Any], width: int) -> dict[str, Any] | None:
    markdown, screenshot = item.get("markdown"), item.get("screenshot")
    diff = _diff_of(item)
    if not isinstance(markdown, str) and not isinstance(screenshot, str) and not diff:
        return None
    is_link = isinstance(screenshot, str) and screenshot.startswith(("https://", "http://"))
    return {
        "markdown": safe_markdown(markdown, width) if isinstance(markdown, str) and markdown else None,
        "screenshot": screenshot if is_link else None,
        "diff": diff,
    }


def _diff_of(item: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the lines of a page's changes with how each is shown; none if there is no text of changes."""
    tracking = item.get("changeTracking")
    found = item.get("diff") or (tracking.get("diff") if isinstance(tracking, dict) else None)
    text = found.get("text") if isinstance(found, dict) else found
    if not isinstance(text, str):
        return []
    lines = text.splitlines()[:_DIFF_LINES]
    return [(_diff_tone(line), shortened(escape_controls(line), _DIFF_WIDTH)) for line in lines]


def _diff_tone(line: str) -> str:
    if line.startswith(("---", "+++", "@@")):
        return "place"
    return {"+": "added", "-": "removed"}.get(line[:1], "same")


MAX_COPIED = 60_000
"""Bytes of a body inside of a command to copy."""
_MICROSECOND = timedelta(microseconds=1)

Sign = Callable[[bytes], dict[str, str]]


def copies_of(detail: DeliveryDetail, url: str, sign: Sign | None) -> list[tuple[str, str]]:
    """Return each way with its name. The texts are printable, so that a page can show them unchanged."""
    copies = [("Command", _command(detail.summary))]
    body = detail.body
    if body is None or len(body) > MAX_COPIED:
        return copies
    if b"\0" not in body:  # no argument of a command has one
        headers = {"content-type": "application/json"} | (sign(body) if sign else {})
        flags = " \\\n  ".join(f"-H {shlex.quote(f'{name}: {value}')}" for name, value in headers.items())
        copies.append(("curl", f"curl {shlex.quote(url)} \\\n  {flags} \\\n  --data-raw {quoted(body)}"))
    copies.append(("pytest", "\n".join(_sample(detail.summary.type, body))))
    return copies


def quoted(body: bytes) -> str:
    """Return bytes as an argument of a shell: in plain quotes if they are printable, else in `$'…'` of bash."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        text = ""
    if text and _is_shown_as_it_is(text):
        return shlex.quote(text)
    return "$'" + "".join(_escaped(char) for char in body.decode("utf-8", "surrogateescape")) + "'"


def _is_shown_as_it_is(text: str) -> bool:
    return text.replace("\n", "").replace("\t", "").isprintable()


def _escaped(char: str) -> str:
    if char in "\\'":
        return f"\\{char}"
    if char.isprintable():
        return char
    return "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogateescape"))


def _command(summary: DeliverySummary) -> str:
    """Return a `receiver replay` of this delivery alone."""
    if summary.webhook_id and "\\" not in summary.webhook_id:  # else it may be an escape that the body lacks
        job = f"--job {shlex.quote(summary.job_id)} " if summary.job_id else ""
        return f"receiver replay {job}--where {shlex.quote(f'webhookId == {json.dumps(summary.webhook_id)}')}"
    first = summary.received_at
    return f"receiver replay --since {first.isoformat()} --until {(first + _MICROSECOND).isoformat()}"


def _sample(kind: str, body: bytes) -> Iterator[str]:
    yield "from receiver import parse_event"
    yield "\n"
    yield f"def test_{re.sub('[^a-z0-9]+', '_', kind.lower())}() -> None:"
    yield f"    event = parse_event({body!r})"
    yield f"    assert event.type == {kind!a}"
