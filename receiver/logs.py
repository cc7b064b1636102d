"""Log lines: arrows for people, JSON objects for machines. Records carry an event word and fields."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def configure_logs(*, level: str, as_json: bool) -> None:
    """Send all log lines of the process to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else ConsoleFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for noisy in ("uvicorn", "uvicorn.error", "asyncio", "httpx", "httpcore", "aiosqlite"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, logging.getLevelName(level)))


class JsonFormatter(logging.Formatter):
    """One JSON object a line: `time, level, logger, event`, then the fields, then `exception` if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        content: dict[str, Any] = {
            "time": _moment(record).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            content["exception"] = self.formatException(record.exc_info)
        return json.dumps(content, default=str)


class ConsoleFormatter(logging.Formatter):
    """One line for people; an arrow for what comes in, a mark for how a handler ended."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, with control characters of the outside world made harmless."""
        fields = _fields(record)
        known = _LINES.get(record.getMessage()) if record.name.startswith("receiver.") else None
        try:
            lines = [known(fields)] if known else _other(record, fields).split("\n")
        except (KeyError, TypeError, ValueError):  # somebody else's record with one of our words
            lines = _other(record, {}).split("\n")
        text = f"{_moment(record).astimezone():%H:%M:%S} " + "\n".join(_harmless(line) for line in lines)
        details = fields.get("traceback") or (record.exc_info and self.formatException(record.exc_info))
        if details:
            text += "\n" + "\n".join(_harmless(one) for one in str(details).rstrip().splitlines())
        return text


def _delivery(word: str, fields: dict[str, Any]) -> str:
    size = _size(fields["size"])
    return f"→ {fields['type']:<24} {_short(fields['key'])}  {size:>8}  {word}{_of_job(fields)}"


def _attempt(mark: str, fields: dict[str, Any], rest: str = "") -> str:
    milliseconds = fields["seconds"] * 1000
    return (
        f"{mark} {fields['type']:<24} {_short(fields['key'])}  {milliseconds:>5.0f} ms  {fields['handler']}{rest}"
    )


def _failed(fields: dict[str, Any]) -> str:
    due = datetime.fromisoformat(fields["due_at"]).astimezone()
    return _attempt("✗", fields, f"  attempt {fields['attempt']}: {fields['error']}; again at {due:%H:%M:%S}")


def _dead(fields: dict[str, Any]) -> str:
    return _attempt("✗", fields, f"  DEAD after attempt {fields['attempt']}: {fields['error']}")


def _unhandled(fields: dict[str, Any]) -> str:
    code = fields["stub"].rstrip().replace("\n", " ⏎ ")
    return f"· {fields['type']:<24} no handler wants it. One to paste: {code}"


_LINES = {
    "delivery_accepted": lambda fields: _delivery("accepted", fields),
    "delivery_duplicate": lambda fields: _delivery("duplicate", fields),
    "delivery_conflict": lambda fields: _delivery("CONFLICT: this key had another body; see quarantine", fields),
    "delivery_refused": lambda fields: f"→ refused: {fields['reason']}: {fields['detail']}",
    "delivery_not_stored": lambda fields: f"→ NOT STORED, answered 503: {fields['reason']}",
    "attempt_succeeded": lambda fields: _attempt("✓", fields),
    "attempt_failed": _failed,
    "work_dead": _dead,
    "attempt_overdue": lambda fields: (
        f"! {fields['type']:<24} {_short(fields['key'])}  {fields['handler']}: attempt_overdue, runs for more than "
        f"{fields['timeout_s']:g} s and cannot be stopped"
    ),
    "event_unhandled": _unhandled,
}


def _other(record: logging.LogRecord, fields: dict[str, Any]) -> str:
    if "handler" in fields and "key" in fields and "attempt" in fields:
        return f"· {fields['type']:<24} {_short(fields['key'])}  {fields['handler']}: {record.getMessage()}"
    shown = " ".join(f"{name}={value}" for name, value in fields.items() if name != "traceback")
    level = f"{record.levelname}: " if record.levelno >= logging.WARNING else ""
    return f"{level}{record.getMessage()} {shown}".rstrip()


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


def _moment(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


def _short(key: str) -> str:
    return key.removeprefix("sha256:")[:8]


def _of_job(fields: dict[str, Any]) -> str:
    return f"  job {fields['job_id']}" if fields.get("job_id") else ""


def _size(size: int) -> str:
    return f"{size} B" if size < 1024 else f"{size / 1024:.1f} KiB"


def _harmless(line: str) -> str:
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in line)
