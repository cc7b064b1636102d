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
"""After a worker that lived this long, the pauses begin anew with the first."""


class Supervisor:
    """Starts a worker, and starts it again with growing pauses when it ends by itself.

    The worker's standard input is a pipe that nobody writes to: when this process dies, however suddenly, the
    worker reads its end and stops too.
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
        """`command` makes the command line of a worker from its name and those of dead ones to take over.

        `refused` is the exit code of a worker that cannot start as it is configured.
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
        """Whether a worker process runs. It may still be importing the handlers."""
        return self._process is not None and self._process.returncode is None

    async def run(self) -> None:
        """Keep a worker running until cancelled; then stop it, and return when it has ended.

        To cancel it again while the worker stops changes nothing. It returns by itself when the first worker is
        refused; a later one is started again, since handlers that were broken by a change may be mended.
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
                dead.clear()  # it had the time to take their work over
            dead = [*dead, worker][-_REMEMBERED:]
            level = logging.ERROR if code else logging.INFO  # 0: somebody stopped it
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
                start_new_session=True,  # Ctrl-C is for us; the worker is told by us
            )
        except OSError as exc:  # out of memory or of processes, say
            return f"not started: {exc.strerror}", 1
        self._process = process
        try:
            code = await process.wait()
            return _describe(code), code
        except asyncio.CancelledError:
            stopping = asyncio.create_task(self._stop(process))
            while not stopping.done():
                with suppress(asyncio.CancelledError):  # another signal must not leave the worker behind
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

    `-P` keeps a `logging.py` or `receiver.py` among the handlers from standing in for the real one.
    """
    return (sys.executable, "-P", "-m", "receiver", "work", *arguments)
