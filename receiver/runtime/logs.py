"""The log of a program: where its lines go, also those of warnings and crashes."""

import logging
import os
import select
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Any, TextIO

from receiver.runtime.log_lines import ConsoleFormatter, EventText, JsonFormatter, add_attempt, event_log
from receiver.runtime.processes import write_some

log = event_log(__name__)

MAX_WAITING_BYTES = 4 * 1024 * 1024
"""Bytes of lines that may wait for a slow reader: some seconds of the fastest logging."""
_FLUSH_SECONDS = 2.0
MAX_WRITE_BYTES: int = getattr(select, "PIPE_BUF", 512)
"""A pipe takes this much in one piece, not mixed with the lines of other processes (POSIX, write())."""
_END = b""


def configure_logs(*, level: str, as_json: bool) -> None:
    """Send all log lines and warnings of the process to standard error. A stuck reader does not stop the process.

    Lines that a handler causes, by any logger, name the handler and its delivery.
    """
    # The parent may have closed standard error before it started this process.
    handler = BackgroundHandler(sys.stderr) if sys.stderr else logging.NullHandler()
    in_full = level.upper() == "DEBUG"
    colour = sys.stderr is not None and wants_colour(sys.stderr, os.environ)
    handler.setFormatter(JsonFormatter() if as_json else ConsoleFormatter(colour=colour, in_full=in_full))
    handler.addFilter(add_attempt)
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for noisy in ("uvicorn", "uvicorn.error", "asyncio", "httpx", "httpcore", "watchfiles"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, logging.getLevelName(level)))
    warnings.showwarning = _log_warning


def log_crashes() -> None:
    """Log each error that ends the process or a thread, or that cannot be raised, in a line, not as a traceback."""
    sys.excepthook = lambda kind, error, trace: _log_crash("crashed", error)
    threading.excepthook = _log_thread_crash
    sys.unraisablehook = lambda args: _log_crash("exception_ignored", args.exc_value, where=repr(args.object))


@contextmanager
def log_lines_through(write: Callable[[str], object]) -> Iterator[None]:
    """Pass log lines to `write` while the block runs, which draws on the terminal that they go to.

    All lines of the block are written when it ends.
    """
    handlers = [one for one in logging.getLogger().handlers if isinstance(one, BackgroundHandler)]
    for handler in handlers:
        handler.write_through(write)
    try:
        yield
    finally:
        for handler in handlers:
            handler.write_through(None)


def logs_are_json() -> bool:
    """Return whether the lines of this process are JSON objects."""
    return any(isinstance(one.formatter, JsonFormatter) for one in logging.getLogger().handlers)


def wants_colour(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Return whether lines get colours: on a terminal, unless NO_COLOR, FORCE_COLOR or TERM=dumb decide."""
    # In the order of Python's own tracebacks (docs, "Controlling color"); https://no-color.org
    if environment.get("NO_COLOR"):
        return False
    if environment.get("FORCE_COLOR"):
        return True
    return environment.get("TERM") != "dumb" and stream.isatty()


def _log_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    fields = {"category": category.__name__, "text": str(message), "where": f"{filename}:{lineno}"}
    log.warning("python_warning", extra=fields)


def _log_crash(word: str, error: BaseException | None, **fields: object) -> None:
    log.critical(word, exc_info=error, extra=fields)


def _log_thread_crash(args: threading.ExceptHookArgs) -> None:
    if args.exc_type is not SystemExit:  # it ends a thread silently, as with Python's own hook
        _log_crash("thread_crashed", args.exc_value, where=args.thread.name if args.thread else "?")


class BackgroundHandler(logging.Handler):
    """Writes lines to a file or pipe from a thread of its own: logging never waits for the reader.

    At most `max_waiting` bytes wait in its queue. It drops further lines and counts them in `dropped`; before the
    next line that it accepts, it writes a line with that count. `close` waits until everything is written, at most
    two seconds. The interpreter calls it at its end, through `logging.shutdown`.
    """

    # The standard library's QueueHandler and QueueListener do not serve here: they write one record at a time, and
    # a full queue makes them print a traceback to standard error, which may block.

    def __init__(self, stream: TextIO) -> None:
        self._descriptor = stream.fileno()  # before logging knows of this handler, since some streams have none
        super().__init__()
        self.max_waiting = MAX_WAITING_BYTES
        self.dropped = 0
        self._encoding = stream.encoding
        self._process = os.getpid()
        self._lines: SimpleQueue[bytes | threading.Event] = SimpleQueue()
        self._elsewhere: Callable[[str], object] | None = None
        self._accepted = 0
        self._written = 0  # only the thread changes this one
        self._thread = threading.Thread(target=self._write_all, name="logs", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue the line of a record. A forked process has no writing thread and writes the line itself."""
        line = self._line(record)
        if os.getpid() != self._process:
            self._write(line)
            return
        # Once lines are dropped, half of the queue must be free before the next is accepted: few reports of drops.
        most = self.max_waiting // 2 if self.dropped else self.max_waiting
        if self._accepted - self._written + len(line) > most:
            self.dropped += 1
            return
        self._report_dropped()
        self._put(line)

    def write_through(self, write: Callable[[str], object] | None) -> None:
        """Write all lines so far, waiting at most two seconds; then pass lines to `write` if there is one."""
        written = threading.Event()
        self._lines.put(written)
        written.wait(_FLUSH_SECONDS)
        self._elsewhere = write

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
            if self._elsewhere is None:
                self._write(piece)
            else:
                with suppress(OSError):  # the terminal is gone
                    self._elsewhere(piece.decode(self._encoding))
            self._written += len(piece)

    def _pieces(self) -> Iterator[bytes]:
        """Yield queued lines, several together, until the end mark."""
        piece = b""
        while True:
            try:
                line = self._lines.get_nowait() if piece else self._lines.get()
            except Empty:
                line = None
            ends_piece = not line or isinstance(line, threading.Event) or len(piece) + len(line) > MAX_WRITE_BYTES
            if piece and ends_piece:
                yield piece
                piece = b""
            if line == _END:
                return
            if isinstance(line, threading.Event):
                line.set()
            else:
                piece += line or b""

    def _write(self, piece: bytes) -> None:
        # Not through sys.stderr: the interpreter aborts at its end if a stuck thread holds the lock of sys.stderr
        # (CPython, Modules/_io/bufferedio.c, _enter_buffered_busy).
        while piece:
            try:
                piece = piece[write_some(self._descriptor, piece) :]
            except OSError:
                return  # the reader is gone or the disk full, and there is nowhere to report it


def _own_record(word: str, *, exc_info: Any = None, **fields: object) -> logging.LogRecord:
    extra = {**fields, "event": word}
    return log.logger.makeRecord(
        log.logger.name, logging.WARNING, "", 0, EventText(word, fields), (), exc_info, extra=extra
    )
