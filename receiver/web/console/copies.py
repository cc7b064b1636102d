"""Ways to have a delivery again elsewhere, to copy: a command, a request, a test."""

import json
import re
import shlex
from collections.abc import Callable, Iterator
from datetime import timedelta

from receiver.core.deliveries import DeliveryDetail, DeliverySummary

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
