"""`receiver console`: the pages of the console, on their own port."""

import asyncio
import socket
import sys
from collections.abc import Callable, Sequence
from datetime import timedelta

import click

from receiver.cli.common.exit_codes import OK
from receiver.cli.common.interrupt import stop_signals
from receiver.cli.common.settings import console_flags, load_logged_settings
from receiver.console import Console
from receiver.runtime.log_lines import event_log
from receiver.runtime.processes import end_after_parent, run
from receiver.settings import Settings
from receiver.web.listening import address, bind
from receiver.web.server import make_server

log = event_log("receiver.cli.console")

MAX_CONNECTIONS = 250
"""More than the streams of changes that may be open, so that pages always come through."""
GRACE = timedelta(seconds=1)
"""How long open answers may take after a request to stop."""


@click.command()
@console_flags
@click.option("--with-parent", is_flag=True, hidden=True, help="Stop when standard input ends.")
@click.option("--listener", type=int, hidden=True, help="Descriptor of the socket, given by a supervisor.")
@click.option("--by-flag", multiple=True, hidden=True, help="Name of a setting that was a flag of the supervisor.")
def console(with_parent: bool, listener: int | None, by_flag: Sequence[str], **flags: object) -> int:
    """Show deliveries, work and jobs in the browser.

    It shows what arrived and what failed, with a button for each remedy: retry, bury, run again, pause. By default
    only this machine reaches it: others need RECEIVER_CONSOLE_HOST and RECEIVER_CONSOLE_PASSWORD. Ctrl-C stops it.
    """
    settings = load_logged_settings(flags)
    settings.require_safe_console()
    if with_parent:
        end_after_parent(GRACE)
    if listener is not None:
        bound = socket.socket(fileno=listener)
    else:
        bound = bind(
            settings.console_host, settings.console_port, host_by="--console-host", port_by="--console-port"
        )
    given = [*by_flag, *(name for name, value in flags.items() if value is not None)]
    return run(_serve(Console(settings, by_flag=given), settings, bound, with_parent=with_parent))


async def _serve(app: Console, settings: Settings, listener: socket.socket, *, with_parent: bool) -> int:
    server = make_server(
        app,
        read_timeout=settings.read_timeout,
        shutdown=GRACE,
        most_connections=MAX_CONNECTIONS,
        proxy_headers=settings.console_behind_proxy,
    )

    def stop() -> None:
        app.end_streams()
        server.should_exit = True

    loop = asyncio.get_running_loop()
    for number in stop_signals():
        loop.add_signal_handler(number, stop)
    if with_parent:
        await _call_at_end_of_input(stop)
    async with app.lifespan():
        log.info("console_serving", extra={"url": address(listener), "read_only": settings.console_read_only})
        await server.serve(sockets=[listener])
    log.info("console_stopped")
    return OK


async def _call_at_end_of_input(stop: Callable[[], None]) -> None:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    asyncio.ensure_future(reader.read()).add_done_callback(lambda _: stop())
