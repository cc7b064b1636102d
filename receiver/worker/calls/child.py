"""A process that runs functions for a worker: `python -m receiver.worker.calls.child LEVEL FORMAT DESCRIPTOR`.

LEVEL is the log level, FORMAT is `json` or `text`, and DESCRIPTOR is a socket to the worker.
"""

import importlib
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from operator import attrgetter
from pathlib import Path
from queue import SimpleQueue
from typing import Any, BinaryIO

from receiver.routing.loader import load_router
from receiver.runtime.log_lines import attempt_fields
from receiver.runtime.logs import configure_logs, log_crashes
from receiver.runtime.processes import end_after_parent
from receiver.worker.attempts import Raised, require_done
from receiver.worker.calls.pools import (
    SIZE,
    CallDone,
    CallStarted,
    FunctionCall,
    NumberedCall,
    RoutingCall,
    read_message,
    write_message,
)
from receiver.worker.events import lane_of, read_event, read_to_route, wanting


def main(level: str, log_format: str, descriptor: str) -> None:
    """Run calls until the worker closes its end or dies."""
    for signal_number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # A platform may signal all processes, but only the worker is to end this one. A function is set because
        # programs that a handler starts would inherit SIG_IGN.
        signal.signal(signal_number, lambda *_: None)
    end_after_parent(timedelta(0))
    worker = socket.socket(fileno=int(descriptor))
    worker.set_inheritable(False)
    worker.setblocking(True)  # it is not, where code in the worker has called `socket.setdefaulttimeout`
    configure_logs(level=level, as_json=log_format == "json")
    log_crashes()
    messages: SimpleQueue[Any] = SimpleQueue()
    threading.Thread(target=_listen, args=(worker.makefile("rb"), messages), daemon=True).start()
    sys.path[:] = messages.get().folders
    with suppress(OSError):  # the worker has ended
        while True:
            answer(messages.get(), lambda message: worker.sendall(write_message(message)))


def answer(numbered: NumberedCall, send: Callable[[CallStarted | CallDone], None]) -> None:
    """Run a call and send its result or its exception.

    If the function forks, its result is what it returns in this process. The copy of the process ends where the
    function ends: with the exit code of its SystemExit, with 1 after another error, otherwise with 0.
    """
    process, number, call = os.getpid(), numbered.number, numbered.call
    raised, exit_code = None, 0
    try:
        run = _function(call) if isinstance(call, FunctionCall) else _routing(call)
        _end_copy_of(process, 0)  # the import of a module may fork too
        send(CallStarted(number))
        run()
    except BaseException as exc:
        raised, exit_code = Raised.of(exc), _exit_code(exc)
    _end_copy_of(process, exit_code)
    send(CallDone(number, raised))


def _end_copy_of(process: int, exit_code: int) -> None:
    """End this process if it is a fork of `process`: it would answer for it, and wait for calls that never come."""
    if os.getpid() != process:
        os._exit(exit_code)  # finalizers of the process would delete its files


def _exit_code(error: BaseException) -> int:
    """Return the exit code of a program that ends with this error (https://docs.python.org/3/library/sys.html)."""
    code = error.code if isinstance(error, SystemExit) else 1
    return code & 0xFF if isinstance(code, int) else int(code is not None)


def _function(call: FunctionCall) -> Callable[[], object]:
    function = attrgetter(call.qualname)(importlib.import_module(call.module))
    events = [read_event(source) for source in call.sources]
    attempt_fields.set(lambda: call.log_fields)  # this process runs one call at a time
    if call.trace:
        from receiver.signals.traces.starting import traced  # loads OpenTelemetry

        function = traced(function, call.trace)
    return lambda: require_done(function(events if call.batched else events[0]))


def _routing(call: RoutingCall) -> Callable[[], None]:
    router = load_router(call.handlers, folder=Path(call.folder))
    handlers = [handler for handler in router if handler.name in call.names]

    def route() -> None:
        for source in call.sources:
            routed = read_to_route(source)
            for handler in wanting(handlers, routed):
                lane_of(handler, routed.event)

    return route


def _listen(incoming: BinaryIO, messages: "SimpleQueue[Any]") -> None:
    """Queue messages. When the connection ends, kill this process and every process that it has started."""
    try:
        while len(size := incoming.read(SIZE.size)) == SIZE.size:
            messages.put(read_message(incoming.read(*SIZE.unpack(size))))
    finally:
        logging.shutdown()
        if os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)
        os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
