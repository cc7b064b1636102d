"""Log lines: arrows for people, JSON objects for machines. Records carry an event word and fields."""

import json
import logging
import os
import select
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from queue import Empty, SimpleQueue
from typing import Any, TextIO

from receiver.core.text import escape_controls, short_id

_DETAILS = ("traceback", "stub")
"""Fields of several lines, shown below the line."""
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

MAX_WAITING_BYTES = 4 * 1024 * 1024
"""Bytes of lines that wait for a slow reader: some seconds of the fastest logging."""
_FLUSH_SECONDS = 2.0
MAX_WRITE_BYTES: int = getattr(select, "PIPE_BUF", 512)
"""A pipe takes this much in one piece, unmixed with the lines of other processes (POSIX, write())."""
_END = b""


def configure_logs(*, level: str, as_json: bool) -> None:
    """Send all log lines of the process to standard error. A reader that stops does not stop the process."""
    # The parent may have closed standard error before it started this process.
    handler = BackgroundHandler(sys.stderr) if sys.stderr else logging.NullHandler()
    handler.setFormatter(JsonFormatter() if as_json else ConsoleFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for noisy in ("uvicorn", "uvicorn.error", "asyncio", "httpx", "httpcore"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, logging.getLevelName(level)))


class BackgroundHandler(logging.Handler):
    """Writes lines to a file or pipe from a thread of its own: logging never waits for the reader.

    At most `max_waiting` bytes wait in its queue. It drops further lines and counts them in `dropped`; before the
    next line that it accepts, it writes a line with that count. `close` waits until everything is written, but no
    longer than two seconds. The interpreter calls it at its end, through `logging.shutdown`.
    """

    # Not the standard library's QueueHandler and QueueListener: they answer a full queue with a traceback on
    # standard error, which is what must not be waited for, and write one record at a time.

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self.max_waiting = MAX_WAITING_BYTES
        self.dropped = 0
        self._descriptor = stream.fileno()
        self._encoding = stream.encoding
        self._process = os.getpid()
        self._lines: SimpleQueue[bytes] = SimpleQueue()
        self._accepted = 0
        self._written = 0  # the only one that the thread changes
        self._thread = threading.Thread(target=self._write_all, name="logs", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue the line of a record. A forked process has no writing thread, so it writes the line itself."""
        line = self._line(record)
        if os.getpid() != self._process:
            self._write(line)
            return
        # Once lines are dropped, half of the queue must be free before the next is taken: few reports of drops.
        most = self.max_waiting // 2 if self.dropped else self.max_waiting
        if self._accepted - self._written + len(line) > most:
            self.dropped += 1
            return
        self._report_dropped()
        self._put(line)

    def close(self) -> None:
        """Wait until the queue is written, but no longer than two seconds."""
        self._report_dropped()
        self._lines.put(_END)
        self._thread.join(_FLUSH_SECONDS)
        super().close()

    def _line(self, record: logging.LogRecord) -> bytes:
        try:
            text = self.format(record)
        except Exception:  # arguments that do not fit the message; logging's own way is to print a traceback
            where = f"{record.pathname}:{record.lineno}"
            text = self.format(_own_record("log_line_broken", exc_info=sys.exc_info(), where=where))
        return f"{text}\n".encode(self._encoding, "backslashreplace")

    def _report_dropped(self) -> None:
        if self.dropped:
            self._put(self._line(_own_record("log_lines_dropped", count=self.dropped)))
            self.dropped = 0

    def _put(self, line: bytes) -> None:
        self._accepted += len(line)
        self._lines.put(line)

    def _write_all(self) -> None:
        for piece in self._pieces():
            self._write(piece)
            self._written += len(piece)

    def _pieces(self) -> Iterator[bytes]:
        """Yield queued lines, several together, until the end mark."""
        piece = b""
        while True:
            try:
                line = self._lines.get_nowait() if piece else self._lines.get()
            except Empty:
                line = None
            if piece and (not line or len(piece) + len(line) > MAX_WRITE_BYTES):
                yield piece
                piece = b""
            if line == _END:
                return
            piece += line or b""

    def _write(self, piece: bytes) -> None:
        # Not through sys.stderr: the interpreter aborts at its end when a stuck thread holds the lock of that
        # (CPython, Modules/_io/bufferedio.c, _enter_buffered_busy).
        while piece:
            try:
                piece = piece[os.write(self._descriptor, piece) :]
            except BlockingIOError:  # another program has made the pipe it shares with us non-blocking
                select.select((), (self._descriptor,), ())
            except OSError:
                return  # the reader is gone or the disk full, and there is nowhere to say so


def _own_record(word: str, *, exc_info: Any = None, **fields: Any) -> logging.LogRecord:
    own = logging.getLogger(__name__)
    return own.makeRecord(own.name, logging.WARNING, "", 0, word, (), exc_info, extra=fields)


class JsonFormatter(logging.Formatter):
    """One JSON object for each line: `time`, `level`, `logger`, `event`, the fields, and any `exception`."""

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
    """One line for people: an arrow for a delivery, a mark for the end of a handler."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line. Control characters, also line ends, become escapes: a message cannot forge a line.

        A traceback is indented below the line. A handler to paste is not.
        """
        fields = _fields(record)
        known = _LINES.get(record.getMessage()) if record.name.startswith("receiver.") else None
        try:
            line = known(fields) if known else _other(record, fields)
        except (KeyError, TypeError, ValueError):  # somebody else's record with one of our words
            known, line = None, _other(record, {})
        text = f"{_moment(record).astimezone():%H:%M:%S} {escape_controls(line)}"
        if known is _unhandled:
            return "\n".join([text, *_lines(fields["stub"])])
        details = fields.get("traceback") or (record.exc_info and self.formatException(record.exc_info))
        return "\n".join([text, *(f"  {one}" for one in _lines(details))])


def _lines(details: object) -> list[str]:
    return [escape_controls(one) for one in str(details or "").rstrip().splitlines()]


def _delivery(word: str, fields: dict[str, Any]) -> str:
    size = _size(fields["size"])
    return f"→ {fields['type']:<24} {short_id(fields['id'])}  {size:>8}  {word}{_of_job(fields)}"


def _attempt(mark: str, fields: dict[str, Any], rest: str = "") -> str:
    milliseconds = fields["seconds"] * 1000
    event = f"{fields['type']:<24} {short_id(fields['id'])}"
    return f"{mark} {event}  {milliseconds:>5.0f} ms  {fields['handler']}{rest}"


def _failed(fields: dict[str, Any]) -> str:
    due = datetime.fromisoformat(fields["due_at"]).astimezone()
    return _attempt("✗", fields, f"  attempt {fields['attempt']}: {fields['error']}; again at {due:%H:%M:%S}")


def _dead(fields: dict[str, Any]) -> str:
    return _attempt("✗", fields, f"  DEAD after attempt {fields['attempt']}: {fields['error']}")


def _unhandled(fields: dict[str, Any]) -> str:
    return f"· {fields['type']:<24} no handler wants it. One to paste{':' if fields['stub'] else ''}"


def _overdue(fields: dict[str, Any]) -> str:
    what = f"{fields['events']} events" if "events" in fields else f"{fields['type']:<24} {short_id(fields['id'])}"
    return f"! {what}  {fields['handler']}: runs for more than {fields['timeout_s']:g} s and cannot be stopped"


_LINES = {
    "delivery_accepted": lambda fields: _delivery("accepted", fields),
    "delivery_duplicate": lambda fields: _delivery("duplicate", fields),
    "delivery_conflict": lambda fields: _delivery("CONFLICT: this key had another body; see quarantine", fields),
    "delivery_refused": lambda fields: f"→ refused: {fields['reason']}: {fields['detail']}",
    "delivery_not_stored": lambda fields: f"→ NOT STORED, answered 503: {fields['reason']}",
    "attempt_succeeded": lambda fields: _attempt("✓", fields),
    "attempt_failed": _failed,
    "work_dead": _dead,
    "attempt_overdue": _overdue,
    "event_unhandled": _unhandled,
}


def _other(record: logging.LogRecord, fields: dict[str, Any]) -> str:
    if "handler" in fields and "id" in fields and "attempt" in fields:
        return f"· {fields['type']:<24} {short_id(fields['id'])}  {fields['handler']}: {record.getMessage()}"
    shown = " ".join(f"{name}={value}" for name, value in fields.items() if name not in _DETAILS)
    level = f"{record.levelname}: " if record.levelno >= logging.WARNING else ""
    return f"{level}{record.getMessage()} {shown}".rstrip()


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


def _moment(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


def _of_job(fields: dict[str, Any]) -> str:
    return f"  job {fields['job_id']}" if fields.get("job_id") else ""


def _size(size: int) -> str:
    return f"{size} B" if size < 1024 else f"{size / 1024:.1f} KiB"
