"""Several web processes that accept connections from one socket, and the process that supervises them.

The supervisor binds the socket, and each process inherits it. With a socket of its own (SO_REUSEPORT) a process
that dies would lose the connections that wait in its queue:
https://nginx.googlesource.com/nginx/+/337afd5f271943a02b8d34c8e707e5571d094b86
"""

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from receiver.app import Receiver
from receiver.cli.common.exit_codes import STORE_UNREACHABLE, WRONG_USE
from receiver.cli.common.serving import Coroutines, log_listening, serve_until_stopped
from receiver.cli.common.supervised import MARGIN, environment, supervise_until_stopped
from receiver.core.clock import SystemClock
from receiver.core.event_loop import run
from receiver.core.log_lines import event_log
from receiver.errors import ConfigurationError
from receiver.settings import Settings
from receiver.signals.metrics import SHARED_FOLDER
from receiver.stores import open_store
from receiver.worker.background import running_beside
from receiver.worker.parent_death import end_after_parent
from receiver.worker.supervisor import ProcessEnd, Supervisor, own_command

log = event_log("receiver.cli.serve")

_NO_WORKER = "no_worker"
"""A file in the shared folder. It exists while no worker runs, and not the other way round: systems remove from
folders for temporary files what nobody has touched for days."""


# --- the supervisor


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
            with suppress(OSError):  # it is told to whoever asks /readyz; a full disk must not stop the server
                if any(supervisor.is_running for supervisor in of_workers):
                    mark.unlink(missing_ok=True)
                else:
                    _make_again(folder)
                    mark.touch()

        of_workers = workers(show_worker)
        webs = [
            _web_supervisor(settings, flags, listener, folder, number, has_worker=bool(of_workers))
            for number in range(settings.web_processes)
        ]
        return run(_supervise(settings, listener, [*webs, *of_workers], beside(of_workers)))


@contextmanager
def _shared_folder() -> Iterator[Path]:
    """Make a folder for what the processes tell each other: counters of metrics, and whether a worker lives."""
    try:
        folder = TemporaryDirectory(prefix="receiver-")
    except OSError as exc:
        raise ConfigurationError(
            f"several web processes need a folder for temporary files ({exc.strerror}): set TMPDIR to one"
        ) from None
    with folder as path:
        yield Path(path)


def _make_again(folder: Path) -> None:
    """Make the shared folder if somebody has removed it."""
    folder.mkdir(mode=0o700, exist_ok=True)


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
            _make_again(folder)
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


# --- one web process


def serve_as_one_of_several(settings: Settings, descriptor: int, folder: Path, number: int, *, worker: bool) -> int:
    """Serve on an inherited socket, with this process's part of the memory, until the supervisor stops or dies.

    Return the exit code. `number` is that of this process among the web processes, from 0. A process that replaces
    a dead one has its number, and goes on with its counters.
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
