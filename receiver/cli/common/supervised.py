"""Processes that a command starts and supervises: workers, and web processes that share a socket."""

import asyncio
import os
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

from receiver.cli.common.exit_codes import OK, STORE_UNREACHABLE, WRONG_USE
from receiver.cli.common.interrupt import stop_signals
from receiver.core.clock import SystemClock
from receiver.core.types import WorkerId
from receiver.settings import PREFIX, Settings
from receiver.worker.upkeep.supervisor import (
    NO_BYTECODE,
    NextWorker,
    Supervisor,
    new_worker_id,
    own_command,
    supervise,
)

MARGIN = timedelta(seconds=5)
"""Extra time for a worker after its grace time, and for the server after the deadline."""


def environment(flags: Mapping[str, object]) -> Mapping[str, str]:
    """Return the environment of a process with the settings of this one, including its flags."""
    given = {f"{PREFIX}{name.upper()}": str(value) for name, value in flags.items() if value is not None}
    return {**os.environ, **given}


def worker_supervisors(
    settings: Settings,
    flags: Mapping[str, object],
    *,
    reload: bool = False,
    changed: Callable[[], None] = lambda: None,
) -> Sequence[Supervisor]:
    """Return a supervisor for each worker. `changed` is called when a worker has started or ended.

    Each worker serves its metrics on a port of its own: the first on METRICS_PORT, the next on the port after it.
    """
    # Code can be pasted from a terminal; a log file has no use for it.
    stubs = ["--stubs"] if reload and sys.stderr is not None and sys.stderr.isatty() else []

    def command(worker: WorkerId, dead: Sequence[WorkerId], store_refusal_told: bool) -> Sequence[str]:
        taken_over = [word for name in dead for word in ("--takes-over", name)]
        told = ["--store-refusal-told"] if store_refusal_told else []
        return own_command("work", "--name", worker, "--with-parent", *taken_over, *told, *stubs)

    def supervisor(number: int) -> Supervisor:
        port = settings.metrics_port and settings.metrics_port + number
        return Supervisor(
            NextWorker(command, new_worker_id, store_refused=STORE_UNREACHABLE),
            {**environment(flags), f"{PREFIX}METRICS_PORT": str(port), **(NO_BYTECODE if reload else {})},
            SystemClock(),
            grace=settings.grace + MARGIN,
            refused=WRONG_USE,
            store_refused=STORE_UNREACHABLE,
            restarts_after_changes=reload,
            changed=changed,
        )

    return [supervisor(number) for number in range(settings.workers)]


def console_supervisor(flags: Mapping[str, object], listener: socket.socket) -> Supervisor:
    """Return the supervisor of the console, in a process of its own: acks do not wait for its pages."""
    by_flag = [word for name, value in flags.items() if value is not None for word in ("--by-flag", name)]
    command = own_command("console", "--with-parent", "--listener", str(listener.fileno()), *by_flag)
    return Supervisor(
        lambda _: command,
        environment(flags),
        SystemClock(),
        kind="console",
        inherited=[listener.fileno()],
        grace=MARGIN,
        refused=WRONG_USE,
        store_refused=STORE_UNREACHABLE,
    )


async def supervise_until_stopped(
    supervisors: Sequence[Supervisor], *, stopping: Callable[[], None] = lambda: None
) -> int:
    """Run supervisors until a signal comes, or until the first process of one is refused. Return the exit code.

    `stopping` is called before the processes stop.
    """
    supervision = asyncio.create_task(supervise(supervisors))

    def stop() -> None:
        stopping()
        supervision.cancel()

    for signal_number in stop_signals():
        asyncio.get_running_loop().add_signal_handler(signal_number, stop)
    await asyncio.wait([supervision])
    if supervision.cancelled():
        return OK
    supervision.result()
    return WRONG_USE
