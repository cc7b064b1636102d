"""A process that runs functions for a worker: `python -m receiver.worker.child LEVEL FORMAT DESCRIPTOR`.

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

from receiver.core.log_lines import attempt_fields
from receiver.core.logs import configure_logs, log_crashes
from receiver.routing.loader import load_router
from receiver.worker.failures import Raised, require_done
from receiver.worker.fanout import read_event, read_to_route, wanting
from receiver.worker.lanes import lane_of
from receiver.worker.parent_death import end_after_parent
from receiver.worker.process_messages import (
    SIZE,
    Call,
    CallDone,
    CallStarted,
    FunctionCall,
    RoutingCall,
    read_message,
    write_message,
)


def main(level: str, log_format: str, descriptor: str) -> None:
    """Run calls until the worker closes its end or dies."""
    for signal_number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # A platform may signal all processes, but only the worker shall end this one. Programs that a handler
        # starts would inherit SIG_IGN, so this sets a function.
        signal.signal(signal_number, lambda *_: None)
    end_after_parent(timedelta(0))
    worker = socket.socket(fileno=int(descriptor))
    worker.set_inheritable(False)
    configure_logs(level=level, as_json=log_format == "json")
    log_crashes()
    messages: SimpleQueue[Any] = SimpleQueue()
    threading.Thread(target=_listen, args=(worker.makefile("rb"), messages), daemon=True).start()
    sys.path[:] = messages.get().folders
    with suppress(OSError):  # the worker has ended
        while True:
            answer(messages.get(), lambda message: worker.sendall(write_message(message)))


def answer(call: Call, send: Callable[[CallStarted | CallDone], None]) -> None:
    """Run a call and send its result or its exception."""
    try:
        run = _function(call) if isinstance(call, FunctionCall) else _routing(call)
        send(CallStarted())
        run()
    except BaseException as exc:
        send(CallDone(Raised.of(exc)))
    else:
        send(CallDone(None))


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
