"""`receiver serve`: the endpoint, and workers beside it."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from receiver.cli.common.settings import listening_flags, load_logged_settings, running_flags, web_flags
from receiver.runtime.log_lines import event_log
from receiver.settings import Settings, log_short_secrets
from receiver.stores.writer_process.starting import (
    StartedWriter,
    can_use_writer_process,
    writer_command,
    writer_started,
)
from receiver.web.listening import bind

if TYPE_CHECKING:  # it loads the server, which waits until the process that writes has begun
    from receiver.cli.common.serving import Beside

log = event_log(__name__)


@click.command()
@running_flags
@listening_flags
@web_flags
@click.option("--worker/--no-worker", default=True, help="Run workers beside the endpoint (the default).")
@click.option("--reload", is_flag=True, help="Restart the workers whenever a Python file of this folder changes.")
@click.option("--console", is_flag=True, help="Serve the console beside it, on its own port.")
@click.option("--listener", type=int, hidden=True, help="Descriptor of the socket, given by a supervisor.")
@click.option("--shared", type=click.Path(path_type=Path), hidden=True, help="Folder that the web processes share.")
@click.option("--number", type=int, hidden=True, help="Number of this web process, from 0.")
def serve(
    worker: bool,
    reload: bool,
    console: bool,
    listener: int | None,
    shared: Path | None,
    number: int | None,
    **flags: object,
) -> int:
    """Receive deliveries and run your handlers.

    The endpoint stores every delivery before it acknowledges it. A worker process runs the handlers. Ctrl-C,
    SIGTERM or SIGHUP stops the command cleanly: it answers received requests and lets running handlers finish. If
    handlers cannot be loaded at the start, the exit code is 2; with --reload the worker then waits for a change.
    Later it restarts the worker, and still stores deliveries.

    On a machine with many cores, --web-processes and --workers start several processes of each kind. One that dies
    is started again, while the others continue.
    """
    if listener is not None and shared is not None and number is not None:
        from receiver.cli.common.serving import serve_as_one_of_several  # loads the server

        return serve_as_one_of_several(load_logged_settings(flags), listener, shared, number, worker=worker)
    if reload and not worker:
        raise click.UsageError("--reload restarts the worker: leave out --no-worker")
    return serve_with(flags, worker=worker, reload=reload, beside=[_serve_console(flags)] if console else ())


def serve_with(flags: Mapping[str, object], *, worker: bool, reload: bool, beside: "Sequence[Beside]" = ()) -> int:
    """Serve with these settings until a signal comes or the first worker is refused. Return the exit code.

    What is in `beside` runs as long as the server.
    """
    settings = load_logged_settings(flags)
    settings.require_authentication()
    settings.require_safe_metrics()
    log_short_secrets(settings)
    if advice := settings.webhook_advice():
        log.warning("public_url_not_reachable", extra={"advice": advice})
    with bind(settings.host, settings.port) as listener, _writer_process(settings) as writer:
        # Only here: both processes then load their modules at the same time, which saves a third of the start.
        from receiver.cli.common.serving import serve_on

        return serve_on(listener, settings, flags, writer=writer, worker=worker, reload=reload, beside=beside)


def _writer_process(settings: Settings) -> AbstractContextManager[StartedWriter | None]:
    """Start a process that writes to the store, where that can use another core; return None elsewhere.

    SQLite writes in the process that appends, and takes about half of its time. A PostgreSQL server has processes.
    Several web processes append themselves.
    """
    is_one_file = settings.store.startswith("sqlite:") and settings.web_processes == 1
    if not is_one_file or not can_use_writer_process():
        return nullcontext()
    return writer_started(
        writer_command(settings.store, log_level=settings.log_level, json_logs=settings.json_logs)
    )


def _serve_console(flags: Mapping[str, object]) -> "Beside":
    """Return the console's process beside a server. Its port is taken now, or the command ends with an error."""
    settings = load_logged_settings(flags)
    settings.require_safe_console()
    settings.require_own_console_port()
    listener = bind(
        settings.console_host,
        settings.console_port,
        host_by="RECEIVER_CONSOLE_HOST",
        port_by="RECEIVER_CONSOLE_PORT",
    )

    async def supervised(settings: Settings, _: str) -> None:
        from receiver.cli.common.supervised import console_supervisor  # loaded by then

        with listener:
            await console_supervisor(flags, listener).run()

    return supervised
