"""Serving on a socket until a signal comes."""

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

from receiver.app import Receiver
from receiver.cli.common.exit_codes import OK, WRONG_USE
from receiver.cli.common.interrupt import stop_signals
from receiver.cli.common.supervised import MARGIN
from receiver.core.log_lines import event_log
from receiver.settings import Settings
from receiver.web.listening import address
from receiver.web.server import make_server
from receiver.worker.background import running_beside
from receiver.worker.supervisor import Supervisor, supervise

log = event_log("receiver.cli.serve")

Coroutines = Sequence[Callable[[], Coroutine[Any, Any, None]]]


async def serve_until_stopped(
    app: Receiver,
    settings: Settings,
    listener: socket.socket,
    *,
    supervisors: Sequence[Supervisor] = (),
    beside: Coroutines = (),
    later: Coroutines = (),
    level: int = logging.INFO,
) -> int:
    """Serve until a signal comes, or until the first worker of a supervisor is refused. Return the exit code.

    What is in `beside` runs as long as the server; what is in `later` too, from when requests are answered: it may
    take long to load. `level` is that of the log lines about start and end.
    """
    server = make_server(
        app,
        read_timeout=settings.read_timeout,
        shutdown=settings.ack_deadline + MARGIN,
        processes=settings.web_processes,
        direct=app.direct,
    )
    supervision: asyncio.Task[None] | None = None

    def stop(signal_number: int) -> None:
        server.handle_exit(signal_number, None)
        if supervision is not None:
            supervision.cancel()  # at once: platforms give both processes about 30 seconds in total

    def stop_if_refused(supervised: "asyncio.Task[None]") -> None:
        if not supervised.cancelled() and supervised.exception() is None:
            server.should_exit = True

    loop = asyncio.get_running_loop()
    for signal_number in stop_signals():  # before all else: process 1 ignores signals without a handler
        loop.add_signal_handler(signal_number, stop, signal_number)
    # The server would hide an error of the store, so the lifespan is entered here.
    async with app.lifespan(), AsyncExitStack() as stack:
        log_listening(settings, listener, level)
        from_readiness: Coroutines = [partial(_after, server.listening, one) for one in later]
        for one in [*beside, *from_readiness]:
            await stack.enter_async_context(running_beside(one()))
        await asyncio.sleep(0)  # they begin before the workers: the files are watched before a worker reads them
        if supervisors and not server.should_exit:
            supervision = asyncio.create_task(supervise(supervisors))
            supervision.add_done_callback(stop_if_refused)
        try:
            await server.serve(sockets=[listener])
        finally:
            if supervision is not None:
                supervision.cancel()
                await asyncio.wait([supervision])
    log.log(level, "server_stopped")
    if supervision is None or supervision.cancelled():
        return OK
    supervision.result()
    return WRONG_USE


async def _after(event: asyncio.Event, then: Callable[[], Coroutine[Any, Any, None]]) -> None:
    await event.wait()
    await then()


def log_listening(settings: Settings, listener: socket.socket, level: int = logging.INFO) -> None:
    """Log where deliveries can be sent now."""
    log.log(level, "listening", extra={"url": address(listener) + settings.path, "store": settings.shown_store()})
