"""`receiver serve`: the endpoint, and workers beside it."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import click

from receiver.app import Receiver
from receiver.cli.common.logging_setup import load_logged_settings
from receiver.cli.common.serving import Coroutines, address, bind_console, serve_until_stopped
from receiver.cli.common.setting_flags import listening_flags, running_flags, web_flags
from receiver.cli.common.store import open_maintenance
from receiver.cli.common.supervised import console_supervisor, worker_supervisors
from receiver.cli.common.web_processes import serve_as_one_of_several, serve_with_processes
from receiver.core.event_loop import run
from receiver.core.log_lines import event_log
from receiver.core.ports.log import DeliveryLog
from receiver.errors import ConfigurationError, StoreError, StoreRefused
from receiver.settings import Settings
from receiver.stores.writer_process.log import can_use_writer_process, open_writer_process
from receiver.web.server import bind
from receiver.worker.supervisor import Supervisor

log = event_log(__name__)

Beside = Callable[[Settings, str], Coroutine[Any, Any, None]]
"""Something that runs beside a server, for its settings and the base of its address."""


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
    is started again, and the others go on.
    """
    if listener is not None and shared is not None and number is not None:
        return serve_as_one_of_several(load_logged_settings(flags), listener, shared, number, worker=worker)
    if reload and not worker:
        raise click.UsageError("--reload restarts the worker: leave out --no-worker")
    return serve_with(flags, worker=worker, reload=reload, beside=[_serve_console(flags)] if console else ())


def serve_with(flags: Mapping[str, object], *, worker: bool, reload: bool, beside: Sequence[Beside] = ()) -> int:
    """Serve with these settings until a signal comes or the first worker is refused. Return the exit code.

    What is in `beside` runs as long as the server.
    """
    settings = load_logged_settings(flags)
    settings.require_authentication()
    settings.require_safe_metrics()
    if advice := settings.webhook_advice():
        log.warning("public_url_not_reachable", extra={"advice": advice})

    def workers(changed: Callable[[], None] = lambda: None) -> Sequence[Supervisor]:
        return worker_supervisors(settings, flags, reload=reload, changed=changed) if worker else ()

    def all_beside(supervisors: Sequence[Supervisor]) -> Coroutines:
        asked = [partial(one, settings, address(listener)) for one in beside]
        if not supervisors:
            return [*asked, partial(_make_ballast, settings)]
        return [*asked, partial(_restart_after_changes, supervisors)] if reload else asked

    if settings.web_processes > 1:
        listener = bind(settings.host, settings.port)
        return serve_with_processes(settings, flags, listener, workers, all_beside)
    supervisors = workers()
    worker_lives = (lambda: any(one.is_running for one in supervisors)) if supervisors else None
    app = Receiver(settings, worker_lives=worker_lives, log=_writer_process(settings))
    listener = bind(settings.host, settings.port)
    return run(
        serve_until_stopped(app, settings, listener, supervisors=supervisors, beside=all_beside(supervisors))
    )


def _writer_process(settings: Settings) -> Callable[[], AbstractAsyncContextManager[DeliveryLog]] | None:
    """Return what opens the store in a process of its own, where that can use another core; None elsewhere.

    SQLite writes in the process that appends, and takes about half of its time. A PostgreSQL server has processes.
    """
    if not settings.store.startswith("sqlite:") or not can_use_writer_process():
        return None
    return partial(open_writer_process, settings.store, log_level=settings.log_level, json_logs=settings.json_logs)


def _serve_console(flags: Mapping[str, object]) -> Beside:
    """Return the console's process beside a server. Its port is taken now, or the command ends with an error."""
    settings = load_logged_settings(flags)
    settings.require_safe_console()
    listener = bind_console(settings, host_by="RECEIVER_CONSOLE_HOST", port_by="RECEIVER_CONSOLE_PORT")

    async def supervised(settings: Settings, _: str) -> None:
        with listener:
            await console_supervisor(flags, listener).run()

    return supervised


async def _make_ballast(settings: Settings) -> None:
    """Leave a ballast file beside the database, as maintenance by a worker does: somebody may prune by hand."""
    with suppress(StoreError, StoreRefused):
        async with open_maintenance(settings):
            pass


async def _restart_after_changes(supervisors: Sequence[Supervisor]) -> None:
    from receiver.cli.common.reloading import code_changes  # only a developer has to load the watcher

    try:
        async for changed in code_changes(Path.cwd()):
            log.info("code_changed", extra={"files": changed, "then": "the worker restarts"})
            for supervisor in supervisors:
                supervisor.restart()
    except ConfigurationError as exc:
        log.error("code_not_watched", extra={"reason": str(exc)})
