"""The supervisor keeps a worker process running beside the web process."""

import asyncio
import logging
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta

from receiver.core.clock import Clock
from receiver.core.types import WorkerId

log = logging.getLogger(__name__)

_FIRST_PAUSE = timedelta(seconds=1)
_LONGEST_PAUSE = timedelta(seconds=60)
_REMEMBERED = 20
_HEALTHY = timedelta(seconds=60)
"""After a worker that ran this long, the next pause is the first one again."""


class Supervisor:
    """Starts a worker, and starts a new one after a growing pause when the worker ends by itself.

    The worker's standard input is a pipe to which nobody writes. When this process dies, the pipe ends, and the
    worker stops too.
    """

    def __init__(
        self,
        command: Callable[[WorkerId, Sequence[WorkerId]], Sequence[str]],
        environment: Mapping[str, str],
        clock: Clock,
        new_id: Callable[[], WorkerId],
        *,
        grace: timedelta,
        refused: int,
    ) -> None:
        """`command` returns the command line for a new worker's name and the names of the dead workers it replaces.

        `refused` is the exit code of a worker that cannot start because its configuration is wrong.
        """
        self._command = command
        self._environment = dict(environment)
        self._clock = clock
        self._new_id = new_id
        self._grace = grace
        self._refused = refused
        self._process: asyncio.subprocess.Process | None = None

    @property
    def worker_lives(self) -> bool:
        """Whether a worker process is running. It may still be importing the handlers."""
        return self._process is not None and self._process.returncode is None

    async def run(self) -> None:
        """Keep a worker running until cancelled. Then stop the worker and return when it has ended.

        A second cancel while the worker stops changes nothing. This returns by itself if the first worker is
        refused. A later refused worker is replaced, because somebody may repair the handlers meanwhile.
        """
        pause = _FIRST_PAUSE
        dead: list[WorkerId] = []
        is_first = True
        while True:
            worker, started = self._new_id(), self._clock.now()
            how, code = await self._run_once(self._command(worker, dead))
            if is_first and code == self._refused:
                return
            is_first = False
            if self._clock.now() - started >= _HEALTHY:
                pause = _FIRST_PAUSE
                dead.clear()  # this worker had enough time to take over their work
            dead = [*dead, worker][-_REMEMBERED:]
            level = logging.ERROR if code else logging.INFO  # with code 0 somebody has stopped it
            log.log(level, "worker_ended", extra={"how": how, "restart_in_s": pause.total_seconds()})
            await self._clock.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def _run_once(self, command: Sequence[str]) -> tuple[str, int]:
        """Run one worker. Return a description of its end and its exit code."""
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                env=self._environment,
                start_new_session=True,  # Ctrl-C reaches only this process, which then stops the worker
            )
        except OSError as exc:  # for example out of memory or processes
            return f"not started: {exc.strerror}", 1
        self._process = process
        try:
            code = await process.wait()
            return _describe(code), code
        except asyncio.CancelledError:
            stopping = asyncio.create_task(self._stop(process))
            while not stopping.done():
                with suppress(asyncio.CancelledError):  # a second signal must not leave the worker running
                    await asyncio.shield(stopping)
            raise

    async def _stop(self, process: asyncio.subprocess.Process) -> None:
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(self._grace.total_seconds()):
                await process.wait()
        except TimeoutError:
            log.error("worker_killed", extra={"reason": "it did not stop within its grace time"})
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def _describe(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:  # a real-time signal
        return f"killed by signal {-code}"


def worker_command(*arguments: str) -> Sequence[str]:
    """Return the command line of `receiver work` in this interpreter.

    With `-P`, a `logging.py` or `receiver.py` beside the handlers cannot replace the real module.
    """
    return (sys.executable, "-P", "-m", "receiver", "work", *arguments)
