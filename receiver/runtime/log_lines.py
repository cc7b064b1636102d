"""Log lines: each is an event word and fields, shown as text or as a JSON object, and limited to a rate."""

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import Any

from receiver.core.clock import local_time
from receiver.core.text import escape_controls, short_id
from receiver.runtime.tracebacks import error_line, user_frames

Fields = Mapping[str, Any]

_DETAILS = frozenset({"frames", "traceback", "stub", "event"})
"""Fields that a text shows below the line, or not at all, instead of as `name=value`."""
_ATTEMPT = ("handler", "id", "type", "job_id", "attempt", "events")
"""Fields that name an attempt."""
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_STYLES = {logging.WARNING: "\x1b[33m", logging.ERROR: "\x1b[31m", logging.CRITICAL: "\x1b[31m"}
_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"

attempt_fields: ContextVar[Callable[[], Fields] | None] = ContextVar("attempt_fields", default=None)
"""Returns the fields that name the attempt at a work item that runs in this context."""


class EventText:
    """The message of one of our records, with a text that is made only when it is needed."""

    # The standard library's way to make a text late is an object as the message (Logging Cookbook, "Using arbitrary
    # objects as messages").

    __slots__ = ("fields", "word")

    def __init__(self, word: str, fields: Fields) -> None:
        self.word = word
        self.fields = fields

    def __str__(self) -> str:
        return "\n".join(self.lines(in_full=False))

    def lines(self, *, in_full: bool) -> Sequence[str]:
        """Return the line and those below it. With `in_full` a whole traceback replaces the user's frames."""
        known = _LINES.get(self.word)
        first = known(self.fields) if known else f"{self.word}{_named(self.fields)}"
        below = [] if in_full else list(self.fields.get("frames", ()))
        if in_full or "frames" not in self.fields:
            below = _lines(self.fields.get("traceback"))
        if known and "advice" in self.fields:
            below.append(self.fields["advice"])
        stub = [escape_controls(one) for one in _lines(self.fields.get("stub"))]  # at the left, for pasting
        return [escape_controls(first), *(f"  {escape_controls(one)}" for one in below), *stub]


class EventLog(logging.LoggerAdapter[logging.Logger]):
    """A logger of events: `log.info("listening", extra={"url": url})`.

    Each record has the fields as its own, with the word as `event`, and a text as its message: it is readable under
    any other set-up of logging too.
    """

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Make the message and the fields of a record."""
        fields = kwargs.get("extra") or {}
        kwargs["extra"] = {"event": msg, **fields}
        return EventText(msg, fields), kwargs


def event_log(name: str) -> EventLog:
    """Return the logger of events of a module."""
    return EventLog(logging.getLogger(name))


def add_attempt(record: logging.LogRecord) -> bool:
    """Add handler and delivery to a record that a handler caused, by any logger: a filter that keeps all."""
    fields = attempt_fields.get()
    if fields is not None and not isinstance(record.msg, EventText):
        vars(record).update(fields())
    return True


class JsonFormatter(logging.Formatter):
    """One JSON object for each line: `time`, `level`, `logger`, `event`, the fields, and any `exception`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line. The `event` of another logger's record is its message."""
        content: dict[str, Any] = {
            "time": _moment(record).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        if not isinstance(record.msg, EventText):
            content["message" if "event" in vars(record) else "event"] = record.getMessage()
        content |= _fields(record)
        if record.exc_info:
            content["exception"] = self.formatException(record.exc_info)
        return json.dumps(content, default=str)


class ConsoleFormatter(logging.Formatter):
    """A line for people: the local time with its offset, the level if it is not INFO, and the text.

    Below an error follow the frames of the user's code and a command to paste, or with `in_full` the whole
    traceback.
    """

    def __init__(self, *, colour: bool = False, in_full: bool = False) -> None:
        super().__init__()
        self._colour = colour
        self._in_full = in_full
        self._second, self._time = -1, ""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line. Control characters, line ends too, become escapes: a message cannot forge a line."""
        if isinstance(record.msg, EventText):
            first, *below = record.msg.lines(in_full=self._in_full)
        else:
            first, below = escape_controls(_text_of(record)), []
        level = "" if record.levelno == logging.INFO else f"{record.levelname} "
        below += [f"  {escape_controls(one)}" for one in self._exception(record)]
        return "\n".join([self._coloured(record, f"{level}{first}"), *below])

    def _coloured(self, record: logging.LogRecord, text: str) -> str:
        time = self._time_of(record)
        if not self._colour:
            return f"{time} {text}"
        style = _STYLES.get(record.levelno, "")
        return f"{_DIM}{time}{_PLAIN} {style}{text}{_PLAIN if style else ''}"

    def _time_of(self, record: logging.LogRecord) -> str:
        second = int(record.created)
        if second != self._second:  # thousands of lines may come in one second
            self._time = local_time(_moment(record))
            self._second = second
        return self._time

    def _exception(self, record: logging.LogRecord) -> Sequence[str]:
        if not record.exc_info or record.exc_info[1] is None:
            return ()
        error = record.exc_info[1]
        # An error without a frame of the user's code is one of ours, and needs its whole traceback.
        if isinstance(record.msg, EventText) and not self._in_full and (shown := user_frames(error)):
            return [*shown, error_line(error)]
        return self.formatException(record.exc_info).splitlines()


def _delivery(word: str, fields: Fields) -> str:
    size, job_id = fields["size"], fields.get("job_id")
    shown = f"{size} B" if size < 1024 else f"{size / 1024:.1f} KiB"
    return f"→ {_event(fields)} {shown} {word}{f' job {short_id(job_id)}' if job_id else ''}"


def _refused(fields: Fields) -> str:
    sender = f"from {fields['client']} to {fields['path']} by {fields['user_agent']!r}"
    return f"→ refused: {fields['reason']}: {fields['detail']} ({sender})"


def _failure(fields: Fields, rest: str) -> str:
    return f"✗ {_event(fields)} {fields['seconds'] * 1000:.0f} ms {fields['handler']}  {rest}"


def _failed(fields: Fields) -> str:
    due = datetime.fromisoformat(fields["due_at"]).astimezone()
    return _failure(fields, f"attempt {fields['attempt']}: {fields['error']}; again at {due:%H:%M:%S}")


def _dead(fields: Fields) -> str:
    lane = "; its lane waits until you retry or bury it" if fields.get("stops_lane") else ""
    return _failure(fields, f"DEAD after attempt {fields['attempt']}: {fields['error']}{lane}")


def _overdue(fields: Fields) -> str:
    limit = f"{fields['timeout_s']:g} s"
    return f"! {_events(fields)} {fields['handler']}: runs for more than {limit} and cannot be stopped"


def _exhausted(fields: Fields) -> str:
    suspects = f"; suspects: {', '.join(fields['suspects'])}" if fields["suspects"] else ""
    return f"worker_exhausted: {fields['reason']}{suspects}"


def _late(fields: Fields) -> str:
    took, limit = f"{fields['seconds']:.1f} s", f"{fields['timeout_s']:g} s"
    return f"! {_events(fields)} {fields['handler']}: took {took} of at most {limit}: {fields['reason']}"


def _loop_blocked(fields: Fields) -> str:
    where = f" at {fields['where']}" if fields["where"] else ""
    who = fields["handler"] or "code beside the handlers"
    return f"! {who} has blocked the event loop for at least {fields['seconds']:.0f} s{where}"


_LINES: Mapping[str, Callable[[Fields], str]] = {
    "delivery_accepted": lambda fields: _delivery("accepted", fields),
    "deliveries_received": lambda fields: f"→ and {fields['count']:,} more: {fields['kinds']}",
    "delivery_duplicate": lambda fields: _delivery("duplicate", fields),
    "delivery_conflict": lambda fields: _delivery("CONFLICT: this key had another body; see quarantine", fields),
    "delivery_refused": _refused,
    "deliveries_refused": lambda fields: f"→ and {fields['count']:,} more refused: {fields['kinds']}",
    "deliveries_not_stored": lambda fields: f"→ and {fields['count']:,} more NOT STORED: {fields['kinds']}",
    "connections_refused": lambda fields: f"and {fields['count']:,} more connections above the limit answered 503",
    "delivery_not_stored": lambda fields: f"→ NOT STORED, answered 503: {fields['reason']}",
    "attempt_succeeded": lambda fields: (
        f"✓ {_event(fields)} {fields['seconds'] * 1000:>5.0f} ms {fields['handler']}"
    ),
    "attempts_succeeded": lambda fields: f"✓ and {fields['count']:,} more: {fields['kinds']}",
    "attempt_failed": _failed,
    "work_dead": _dead,
    "attempt_overdue": _overdue,
    "attempt_late": _late,
    "event_loop_blocked": _loop_blocked,
    "event_loop_free": lambda fields: (
        f"! {fields['by']} blocked the event loop for at least {fields['seconds']:.0f} s in all"
    ),
    "event_unhandled": lambda fields: (
        f"· {fields['type']} no handler wants it{'. One to paste:' if 'stub' in fields else ''}"
    ),
    "worker_exhausted": _exhausted,
}


def _text_of(record: logging.LogRecord) -> str:
    """Return the text of another logger's record, with its own fields, and with handler and delivery if known."""
    fields = _fields(record)
    start = ""
    if "handler" in fields and ("events" in fields or {"id", "type"} <= fields.keys()):
        start = f"· {_events(fields)} {fields['handler']}: "
        fields = {name: value for name, value in fields.items() if name not in _ATTEMPT}
    logger = "" if record.name in ("root", vars(record).get("handler")) else f"{record.name}: "
    return f"{start}{logger}{record.getMessage().rstrip()}{_named(fields)}"


def _events(fields: Fields) -> str:
    return f"{fields['events']} events" if "events" in fields else _event(fields)


def _event(fields: Fields) -> str:
    return f"{fields['type']!s:<12} {short_id(str(fields['id']))}"


def _named(fields: Fields) -> str:
    shown = {name: value for name, value in fields.items() if name not in _DETAILS and value not in ("", None)}
    return "".join(f" {name}={value}" for name, value in shown.items())


def _lines(text: object) -> list[str]:
    return str(text or "").rstrip().splitlines()


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


def _moment(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


MAX_LINES = 100
"""Lines that are written per second. Under load, a line for each delivery took a fifth of the processor's time."""
_MAX_KINDS = 10
"""Kinds that a sum names. There may be thousands, since a sender chooses the types of its events."""


class LineRate:
    """Decides for each line whether it is written, and logs a sum of those that are not, in an event loop.

    The sum is the event `word` with the fields `count` and `kinds`.
    """

    def __init__(self, log: EventLog, word: str, level: int = logging.INFO) -> None:
        self._log = log
        self._word = word
        self._level = level
        self._until = 0.0
        self._lines = 0
        self._left_out: Counter[str] = Counter()

    def allows(self, kind: str, wanted: int = 1) -> int:
        """Return how many of the next lines, all of this kind, may be written, and count the others."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        if now >= self._until:
            self._until, self._lines = now + 1, 0
        self._lines += wanted
        left_out = self._lines - MAX_LINES
        if left_out <= 0:
            return wanted
        if not self._left_out:
            loop.call_at(self._until, self.flush)
        left_out = min(left_out, wanted)
        self._left_out[kind] += left_out
        return wanted - left_out

    def flush(self) -> None:
        """Log the sum of the lines left out since the last sum."""
        if self._left_out:
            total, named = self._left_out.total(), self._left_out.most_common(_MAX_KINDS)
            kinds = [f"{kind} {count:,}" for kind, count in named]
            if others := total - sum(count for _, count in named):
                kinds.append(f"others {others:,}")
            self._log.log(self._level, self._word, extra={"count": total, "kinds": ", ".join(kinds)})
            self._left_out.clear()


class Seldom:
    """Lets a line of each kind be written once in a period."""

    def __init__(self, period: timedelta) -> None:
        self._period = period
        self._written: dict[str, datetime] = {}

    def allows(self, kind: str, now: datetime) -> bool:
        """Return whether the next line of this kind may be written; then count it as written."""
        last = self._written.get(kind)
        if last is not None and now - last < self._period:
            return False
        self._written[kind] = now
        return True
