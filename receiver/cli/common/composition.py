"""Puts a server together: the endpoint, the workers, and what runs beside them."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from pathlib import Path
from socket import socket
from typing import Any

from receiver.app import Receiver
from receiver.cli.common.serving import Coroutines, serve_until_stopped
from receiver.cli.common.supervised import worker_supervisors
from receiver.core.event_loop import run
from receiver.core.log_lines import event_log
from receiver.core.ports.log import DeliveryLog
from receiver.errors import ConfigurationError, StoreError, StoreRefused
from receiver.settings import Settings
from receiver.stores import open_store
from receiver.stores.writer_process.log import open_writer_process
from receiver.stores.writer_process.starting import StartedWriter
from receiver.web.listening import address
from receiver.worker.supervisor import Supervisor

log = event_log("receiver.cli.serve")

Beside = Callable[[Settings, str], Coroutine[Any, Any, None]]
"""Something that runs beside a server, for its settings and the base of its address."""


def serve_on(
    listener: socket,
    settings: Settings,
    flags: Mapping[str, object],
    *,
    writer: StartedWriter | None,
    worker: bool,
    reload: bool,
    beside: Sequence[Beside],
) -> int:
    """Serve on a bound socket until a signal comes or the first worker is refused. Return the exit code.

    `writer` is the process that writes to the store, where one was started for this.
    """

    def workers(changed: Callable[[], None] = lambda: None) -> Sequence[Supervisor]:
        return worker_supervisors(settings, flags, reload=reload, changed=changed) if worker else ()

    def all_beside(supervisors: Sequence[Supervisor]) -> Coroutines:
        asked = [partial(one, settings, address(listener)) for one in beside]
        return [*asked, partial(_restart_after_changes, supervisors)] if reload else asked

    ballast = () if worker else (partial(_make_ballast, settings),)
    if settings.web_processes > 1:
        from receiver.cli.common.web_processes import serve_with_processes  # only for many cores

        return serve_with_processes(
            settings, flags, listener, workers, lambda workers: [*all_beside(workers), *ballast]
        )
    supervisors = workers()
    worker_lives = (lambda: any(one.is_running for one in supervisors)) if supervisors else None
    app = Receiver(settings, worker_lives=worker_lives, log=_log_of(writer, settings))
    return run(
        serve_until_stopped(
            app,
            settings,
            listener,
            supervisors=supervisors,
            beside=all_beside(supervisors),
            later=ballast,
        )
    )


def _log_of(
    writer: StartedWriter | None, settings: Settings
) -> Callable[[], AbstractAsyncContextManager[DeliveryLog]] | None:
    """Return what opens the store by the process that writes; None where the app opens it itself."""
    if writer is None:
        return None
    return partial(
        open_writer_process,
        settings.store,
        log_level=settings.log_level,
        json_logs=settings.json_logs,
        started=writer,
    )


async def _make_ballast(settings: Settings) -> None:
    """Leave a ballast file beside the database, as maintenance by a worker does: somebody may prune by hand."""
    with suppress(StoreError, StoreRefused):
        async with open_store(settings.store).maintenance():
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
