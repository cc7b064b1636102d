"""Shows others that a worker lives."""

import os
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

from receiver.core.activity import WorkerSign
from receiver.core.clock import Clock
from receiver.core.ports.queue import WorkerSigns
from receiver.core.types import WorkerId
from receiver.errors import StoreError, StoreRefused
from receiver.runtime.log_lines import event_log
from receiver.worker.upkeep.background import running_beside
from receiver.worker.upkeep.supervisor import ProcessEnd

log = event_log(__name__)

EVERY = timedelta(seconds=20)


@asynccontextmanager
async def shown_alive(queue: WorkerSigns, clock: Clock, sign: WorkerSign) -> AsyncIterator[None]:
    """Show for as long as the block lasts that this worker lives. Its work goes on if the store cannot show it."""
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
        await clock.sleep(EVERY)


# FOLDED: Workers that follow each other: each takes over the work of those that died before it.
_REMEMBERED = 20


def new_worker_id() -> WorkerId:
    """Return a name for a worker that no other has or will have."""
    return WorkerId(f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}")


class Succession:
    """Makes the command line of each next worker, for a supervisor."""

    def __init__(
        self,
        command: Callable[[WorkerId, Sequence[WorkerId], bool], Sequence[str]],
        new_id: Callable[[], WorkerId],
        *,
        store_refused: int,
    ) -> None:
        """`command` gets the name of the worker, the names of the dead workers that it replaces, and whether the
        worker before it has told already that the store is refused. It has if it ended with `store_refused`. A
        worker that told exit code 0 has given its work back, so it is none of the dead.
        """
        self._command = command
        self._new_id = new_id
        self._store_refused = store_refused
        self._worker: WorkerId | None = None
        self._dead: list[WorkerId] = []

    def __call__(self, last: ProcessEnd | None) -> Sequence[str]:
        """Return the command line of the next worker; `last` is the end of the worker before it."""
        if last is not None and last.ran_long:
            self._dead.clear()  # that worker had enough time to take over their work
        gave_back = last is not None and last.code == 0  # as before a restart with new code: nothing is left of it
        if self._worker is not None and not gave_back:
            self._dead = [*self._dead, self._worker][-_REMEMBERED:]
        self._worker = self._new_id()
        is_told = last is not None and last.code == self._store_refused
        return self._command(self._worker, self._dead, is_told)
