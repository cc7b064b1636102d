"""Serving on a socket until a signal comes: the endpoint, the workers, and what runs beside them.

Several web processes accept connections from one socket: the supervisor binds it, and each process inherits it.
With a socket of its own (SO_REUSEPORT), a process that dies would lose the connections that wait in its queue:
https://nginx.googlesource.com/nginx/+/337afd5f271943a02b8d34c8e707e5571d094b86
"""

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from receiver.app import Receiver
from receiver.cli.common.exit_codes import OK, STORE_UNREACHABLE, WRONG_USE
from receiver.cli.common.interrupt import stop_signals
from receiver.cli.common.supervised import MARGIN, environment, supervise_until_stopped, worker_supervisors
from receiver.core.clock import SystemClock, running_beside
from receiver.core.ports.log import DeliveryLog
from receiver.errors import ConfigurationError, StoreError, StoreRefused
from receiver.runtime.log_lines import event_log
from receiver.runtime.processes import end_after_parent, run
from receiver.settings import Settings
from receiver.signals.metrics import SHARED_FOLDER
from receiver.stores import open_store
from receiver.stores.writer_process.process import open_writer_process
from receiver.stores.writer_process.starting import StartedWriter
from receiver.web.listening import address
from receiver.web.server import make_server
from receiver.worker.upkeep.supervisor import ProcessEnd, Supervisor, own_command, supervise

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

    What is in `beside` runs as long as the server. What is in `later` runs from the first answered request on,
    since it may take long to load. `level` is that of the log lines about start and end.
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


Beside = Callable[[Settings, str], Coroutine[Any, Any, None]]
"""Something that runs beside a server, for its settings and the base of its address."""


def serve_on(
    listener: socket.socket,
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
        return serve_with_processes(
            settings, flags, listener, workers, lambda workers: [*all_beside(workers), *ballast]
        )
    supervisors = workers()
    worker_lives = (lambda: any(one.is_running for one in supervisors)) if supervisors else None
    app = Receiver(settings, worker_lives=worker_lives, log=_log_of(writer, settings))
    return run(
        serve_until_stopped(
            app, settings, listener, supervisors=supervisors, beside=all_beside(supervisors), later=ballast
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
    """Leave a ballast file beside the database, as a worker's maintenance does, for a prune by hand."""
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


_NO_WORKER = "no_worker"
"""A file in the shared folder that exists while no worker runs. The opposite would fail: systems delete files from
temporary folders that were not touched for days."""


def serve_with_processes(
    settings: Settings,
    flags: Mapping[str, object],
    listener: socket.socket,
    workers: Callable[[Callable[[], None]], Sequence[Supervisor]],
    beside: Callable[[Sequence[Supervisor]], Coroutines],
) -> int:
    """Supervise web processes and workers until a signal comes, or until the first process of one is refused.

    Return the exit code. `workers` makes the supervisors of workers; it gets what they call when a worker has
    started or ended.
    """
    with _shared_folder() as folder:
        mark = folder / _NO_WORKER
        mark.touch()

        def show_worker() -> None:
            with suppress(OSError):  # only /readyz shows it; a full disk must not stop the server
                if any(supervisor.is_running for supervisor in of_workers):
                    mark.unlink(missing_ok=True)
                else:
                    folder.mkdir(mode=0o700, exist_ok=True)  # a system may have deleted it
                    mark.touch()

        of_workers = workers(show_worker)
        webs = [
            _web_supervisor(settings, flags, listener, folder, number, has_worker=bool(of_workers))
            for number in range(settings.web_processes)
        ]
        return run(_supervise(settings, listener, [*webs, *of_workers], beside(of_workers)))


@contextmanager
def _shared_folder() -> Iterator[Path]:
    """Make a folder for what the processes share: counters of metrics, and whether a worker runs."""
    try:
        folder = TemporaryDirectory(prefix="receiver-")
    except OSError as exc:
        raise ConfigurationError(
            f"several web processes need a folder for temporary files ({exc.strerror}): set TMPDIR to one"
        ) from None
    with folder as path:
        yield Path(path)


def _web_supervisor(
    settings: Settings,
    flags: Mapping[str, object],
    listener: socket.socket,
    folder: Path,
    number: int,
    *,
    has_worker: bool,
) -> Supervisor:
    command = own_command(
        *("serve", "--listener", str(listener.fileno()), "--shared", str(folder), "--number", str(number)),
        "--worker" if has_worker else "--no-worker",
    )

    def next_command(_: ProcessEnd | None) -> Sequence[str]:
        with suppress(OSError):  # a process without metrics needs no folder
            folder.mkdir(mode=0o700, exist_ok=True)
        return command

    return Supervisor(
        next_command,
        {**environment(flags), SHARED_FOLDER: str(folder)},
        SystemClock(),
        kind="web_process",
        grace=settings.ack_deadline + 2 * MARGIN,
        refused=WRONG_USE,
        store_refused=STORE_UNREACHABLE,
        inherited=[listener.fileno()],
    )


async def _supervise(
    settings: Settings, listener: socket.socket, supervisors: Sequence[Supervisor], beside: Coroutines
) -> int:
    async with open_store(settings.store).log():
        pass  # it exists now and has the current schema; if it cannot be used, this command ends at once
    async with AsyncExitStack() as stack:
        log_listening(settings, listener)
        for one in beside:
            await stack.enter_async_context(running_beside(one()))
        await asyncio.sleep(0)  # they begin before the workers: the files are watched before a worker reads them
        code = await supervise_until_stopped(supervisors, stopping=listener.close)
    log.info("server_stopped")
    return code


def serve_as_one_of_several(settings: Settings, descriptor: int, folder: Path, number: int, *, worker: bool) -> int:
    """Serve on an inherited socket, with this process's part of the memory, until the supervisor stops or dies.

    Return the exit code. `number` is that of this process among the web processes, from 0. A process that replaces
    a dead one has its number, and continues its counters.
    """
    end_after_parent(settings.ack_deadline + 2 * MARGIN)
    share = settings.model_copy(update={"max_in_flight": settings.max_in_flight // settings.web_processes})
    if settings.metrics:
        from receiver.signals.metrics.registry import count_as  # takes long to load, and few have it on

        count_as(number)
    mark = folder / _NO_WORKER
    app = Receiver(share, worker_lives=(lambda: not mark.exists()) if worker else None)
    listener = socket.socket(fileno=descriptor)
    return run(serve_until_stopped(app, share, listener, beside=[_stop_with_supervisor], level=logging.DEBUG))


async def _stop_with_supervisor() -> None:
    """Stop this process when its standard input ends: then the supervisor has died."""
    ended = asyncio.Event()

    def read() -> None:
        if not os.read(sys.stdin.fileno(), 1024):
            ended.set()
            loop.remove_reader(sys.stdin.fileno())

    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin.fileno(), read)
    await ended.wait()
    signal.raise_signal(signal.SIGTERM)
