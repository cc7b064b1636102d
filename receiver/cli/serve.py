"""`receiver serve`: the endpoint, and a worker beside it."""

import asyncio
import logging
import os
import socket
from collections.abc import Sequence
from datetime import timedelta

import click

from receiver.app import Receiver, new_worker_id
from receiver.cli.common.event_loop import run
from receiver.cli.common.exit_codes import OK, WRONG_USE
from receiver.cli.common.interrupt import stop_signals
from receiver.cli.common.setting_flags import listening_flags, running_flags
from receiver.core.clock import SystemClock
from receiver.core.logs import configure_logs
from receiver.core.types import WorkerId
from receiver.settings import PREFIX, Settings, load_settings
from receiver.web.server import bind, make_server
from receiver.worker.supervisor import Supervisor, worker_command

log = logging.getLogger(__name__)

_MARGIN = timedelta(seconds=5)
"""Extra time for a worker after its grace time, and for the server after the deadline."""


@click.command()
@running_flags
@listening_flags
@click.option("--worker/--no-worker", default=True, help="Run a worker beside the endpoint (the default).")
def serve(worker: bool, **flags: object) -> int:
    """Receive deliveries and run your handlers.

    The endpoint stores every delivery before it acknowledges it. A worker process runs the handlers. Ctrl-C,
    SIGTERM or SIGHUP stops the command cleanly: it answers received requests and lets running handlers finish. If
    handlers cannot be loaded at the start, the exit code is 2. Later it restarts the worker, and still stores
    deliveries.
    """
    settings = load_settings(**flags)
    configure_logs(level=settings.log_level, as_json=settings.json_logs)
    settings.require_authentication()
    settings.require_safe_metrics()
    supervisor = _supervisor(settings, flags) if worker else None
    app = Receiver(settings, worker_lives=(lambda: supervisor.worker_lives) if supervisor else None)
    listener = bind(settings.host, settings.port)
    return run(_serve(app, settings, listener, supervisor))


def _supervisor(settings: Settings, flags: dict[str, object]) -> Supervisor:
    """Return a supervisor whose workers have the settings of this process, including its flags."""
    given = {f"{PREFIX}{name.upper()}": str(value) for name, value in flags.items() if value is not None}
    return Supervisor(
        _worker_command,
        {**os.environ, **given},
        SystemClock(),
        new_worker_id,
        grace=settings.grace + _MARGIN,
        refused=WRONG_USE,
    )


def _worker_command(worker: WorkerId, dead: Sequence[WorkerId]) -> Sequence[str]:
    taken_over = [word for name in dead for word in ("--takes-over", name)]
    return worker_command("--name", worker, "--with-parent", *taken_over)


async def _serve(app: Receiver, settings: Settings, listener: socket.socket, supervisor: Supervisor | None) -> int:
    """Serve until a signal comes or the first worker is refused. Return the exit code."""
    server = make_server(app, read_timeout=settings.read_timeout, shutdown=settings.ack_deadline + _MARGIN)
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
    async with app.lifespan():
        _announce(settings, listener)
        if supervisor is not None and not server.should_exit:
            supervision = asyncio.create_task(supervisor.run())
            supervision.add_done_callback(stop_if_refused)
        try:
            await server.serve(sockets=[listener])
        finally:
            if supervision is not None:
                supervision.cancel()
                await asyncio.wait([supervision])
    log.info("server_stopped")
    if supervision is None or supervision.cancelled():
        return OK
    supervision.result()
    return WRONG_USE


def _announce(settings: Settings, listener: socket.socket) -> None:
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    log.info("listening", extra={"url": f"http://{shown}:{port}{settings.path}", "store": settings.store})
