"""What is around a worker: its name, the sign that it lives, and the supervisor that starts the next one."""

import asyncio
import logging
import os
import secrets
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, TypeVar

from receiver.core.activity import WorkerSign
from receiver.core.clock import Clock, first_of, running_beside
from receiver.core.ports.queue import WorkerSigns
from receiver.core.types import WorkerId
from receiver.errors import StoreError, StoreRefused
from receiver.runtime.log_lines import event_log
from receiver.runtime.processes import ExitNote, end_of, exit_note, leave_terminal

log = event_log(__name__)

_T = TypeVar("_T")

_FIRST_PAUSE = timedelta(seconds=1)
_LONGEST_PAUSE = timedelta(seconds=60)
_HEALTHY = timedelta(seconds=60)
"""After a process that ran this long, the next pause is the first one again."""
NO_BYTECODE = {"PYTHONDONTWRITEBYTECODE": "1"}
"""Environment of programs that read code again after each change: Python takes a compiled module for current if its
source has the same size and was changed in the same second."""


@dataclass(frozen=True, slots=True)
class ProcessEnd:
    """The end of a process: the exit code that it reported before, and whether it ran for a minute or more.

    `code` is None after a crash: a signal, or anything other than the receiver, ended the process.
    """

    code: int | None
    ran_long: bool


class Supervisor:
    """Keeps a process running, a worker or another one: after a growing pause it starts the next.

    The standard input of the process is a pipe that ends when the supervisor dies. Then the process stops too.
    """

    def __init__(
        self,
        command: Callable[[ProcessEnd | None], Sequence[str]],
        environment: Mapping[str, str],
        clock: Clock,
        *,
        kind: Literal["worker", "web_process", "console"] = "worker",
        grace: timedelta,
        refused: int,
        store_refused: int,
        restarts_after_changes: bool = False,
        inherited: Sequence[int] = (),
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """`command` returns the command line of the next process. It gets the end of the one before, if any.

        `refused` is the exit code of a process whose configuration is wrong. With `restarts_after_changes` the next
        one waits for a `restart`. `store_refused` is that of a process that cannot use the store, such as a damaged
        one; the next one starts after the longest pause. Both count only if the process reports them by
        `tell_exit_code`; every other end is a crash. The process inherits the descriptors in `inherited`. `changed`
        is called when `is_running` has changed. Log events begin with `kind`.
        """
        self._command = command
        self._environment = dict(environment)
        self._clock = clock
        self._kind = kind
        self._grace = grace
        self._refused = refused
        self._store_refused = store_refused
        self._restarts_after_changes = restarts_after_changes
        self._inherited = tuple(inherited)
        self._changed = changed
        self._restart = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None

    @property
    def is_running(self) -> bool:
        """Return whether there is a process, which may still be importing."""
        return self._process is not None and self._process.returncode is None

    def restart(self) -> None:
        """Replace the process as soon as it has finished, at the latest after the grace time."""
        self._restart.set()

    async def run(self) -> None:
        """Keep a process running until cancelled. Then stop it, and return when it has ended.

        A second cancel changes nothing. This returns by itself if the first process is refused. A later one is
        replaced: the handlers may be repaired meanwhile.
        """
        pause = _FIRST_PAUSE
        last: ProcessEnd | None = None
        while True:
            self._restart.clear()
            started = self._clock.steady()
            how, code = await self._run_once(self._command(last))
            if last is None and code == self._refused and not self._restarts_after_changes:
                return
            is_known = last is not None and code == last.code == self._store_refused
            last = ProcessEnd(code, ran_long=self._clock.steady() - started >= _HEALTHY)
            if self._restart.is_set() or last.ran_long:
                pause = _FIRST_PAUSE
            if code == self._store_refused:
                pause = _LONGEST_PAUSE
            if not self._restart.is_set():
                await self._wait_after(how, code, pause, is_known=is_known)
                pause = min(pause * 2, _LONGEST_PAUSE)

    async def _wait_after(self, how: str, code: int | None, pause: timedelta, *, is_known: bool) -> None:
        """Log the end of a process, and wait for the pause or a restart."""
        if code == self._refused and self._restarts_after_changes:
            log.error("worker_waits_for_change", extra={"advice": "correct the handlers and save the file"})
            await self._restart.wait()
            return
        level = logging.INFO if code == 0 else logging.ERROR  # it was stopped
        log.log(
            logging.DEBUG if is_known else level,
            f"{self._kind}_ended",
            extra={"how": how, "restart_in_s": pause.total_seconds()},
        )
        await first_of(self._clock.sleep(pause), self._restart.wait())

    async def _run_once(self, command: Sequence[str]) -> tuple[str, int | None]:
        """Run one process until it ends or a restart.

        Return a description of its end and the code that it reported.
        """
        with ExitStack() as stack:
            try:
                note = stack.enter_context(exit_note())
                process, is_cancelled = await self._start(command, note)
            except OSError as exc:  # for example out of memory, files or processes
                return f"not started: {exc.strerror}", None
            code = await self._end_of(process, is_cancelled=is_cancelled)
            return end_of(code), code if note.has(code) else None

    async def _start(self, command: Sequence[str], note: ExitNote) -> tuple[asyncio.subprocess.Process, bool]:
        """Start a process. Return it, and whether this was cancelled. Raises OSError if none starts."""
        start = asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            env={**self._environment, **note.environment},
            pass_fds=(*self._inherited, note.writer),
            preexec_fn=leave_terminal,  # Ctrl-C reaches only this process, which then stops the worker
        )
        started, is_cancelled = await _to_the_end(start)  # in a cancelled start asyncio kills the process
        if is_cancelled and started.exception() is not None:
            raise asyncio.CancelledError
        return started.result(), is_cancelled

    async def _end_of(self, process: asyncio.subprocess.Process, *, is_cancelled: bool) -> int:
        """Return the exit code of a process, which a restart or a cancel ends."""
        self._process = process
        try:
            self._changed()
            if not is_cancelled:
                await first_of(process.wait(), self._restart.wait())
        finally:
            stopped, is_cancelled_now = await _to_the_end(self._stop(process))  # no process is left behind
            stopped.result()
            self._changed()
        if is_cancelled or is_cancelled_now:
            raise asyncio.CancelledError
        return await process.wait()

    async def _stop(self, process: asyncio.subprocess.Process) -> None:
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(self._grace.total_seconds()):
                await process.wait()
        except TimeoutError:
            log.error(f"{self._kind}_killed", extra={"reason": "it did not stop within its grace time"})
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def _to_the_end(work: Coroutine[Any, Any, _T]) -> "tuple[asyncio.Task[_T], bool]":
    """Return the task of this work when it is done, and whether there was a cancel, which does not interrupt it."""
    task = asyncio.create_task(work)
    is_cancelled = False
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            is_cancelled = True
    return task, is_cancelled


async def supervise(supervisors: Sequence[Supervisor]) -> None:
    """Run supervisors until cancelled. Then stop their processes, and return when all of them have ended.

    If one returns, because its first process was refused, the others stop and this returns too.
    """
    tasks = {asyncio.create_task(supervisor.run()) for supervisor in supervisors}
    is_cancelled = False
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        is_cancelled = True
    for task in tasks:
        task.cancel()
    while any(not task.done() for task in tasks):
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError:
            is_cancelled = True
    for task in tasks:
        if not task.cancelled():
            task.result()
    if is_cancelled:
        raise asyncio.CancelledError


def own_command(*arguments: str) -> Sequence[str]:
    """Return the command line of a `receiver` command in this interpreter.

    With `-P`, a `logging.py` or `receiver.py` beside the handlers cannot replace the real module.
    """
    return (sys.executable, "-P", "-m", "receiver", *arguments)


SIGN_EVERY = timedelta(seconds=20)


@asynccontextmanager
async def shown_alive(queue: WorkerSigns, clock: Clock, sign: WorkerSign) -> AsyncIterator[None]:
    """Show that this worker lives for as long as the block lasts. A store that cannot do so stops no work."""
    async with running_beside(_beat(queue, clock, sign)):
        yield
    try:
        await queue.sign_off(sign.name)
    except (StoreError, StoreRefused) as exc:
        log.warning("worker_not_shown", extra={"reason": str(exc)})


async def _beat(queue: WorkerSigns, clock: Clock, sign: WorkerSign) -> None:
    while True:
        try:
            await queue.sign_on(sign, now=clock.now())
        except (StoreError, StoreRefused) as exc:
            log.warning("worker_not_shown", extra={"reason": str(exc)})
        except Exception:  # a bug of ours must not end the worker
            log.exception("worker_not_shown")
        await clock.sleep(SIGN_EVERY)


_REMEMBERED = 20


def new_worker_id() -> WorkerId:
    """Return a name that no other worker has or will have."""
    return WorkerId(f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}")


class NextWorker:
    """Makes the command line of each next worker. It takes over the work of those that died before it."""

    def __init__(
        self,
        command: Callable[[WorkerId, Sequence[WorkerId], bool], Sequence[str]],
        new_id: Callable[[], WorkerId],
        *,
        store_refused: int,
    ) -> None:
        """`command` gets the worker's name, the names of the dead workers that it replaces, and whether the worker
        before it already reported, by the exit code `store_refused`, that the store refused it.
        """
        self._command = command
        self._new_id = new_id
        self._store_refused = store_refused
        self._worker: WorkerId | None = None
        self._dead: list[WorkerId] = []

    def __call__(self, last: ProcessEnd | None) -> Sequence[str]:
        """Return the command line of the next worker; `last` is the end of the worker before it."""
        if last is not None and last.ran_long:
            self._dead.clear()  # it had enough time to take over their work
        gave_back = last is not None and last.code == 0  # with its work returned, as before a restart with new code
        if self._worker is not None and not gave_back:
            self._dead = [*self._dead, self._worker][-_REMEMBERED:]
        self._worker = self._new_id()
        is_known = last is not None and last.code == self._store_refused
        return self._command(self._worker, self._dead, is_known)
