"""Workers that follow each other: each takes over the work of those that died before it."""

import os
import secrets
import socket
from collections.abc import Callable, Sequence

from receiver.core.types import WorkerId
from receiver.worker.supervisor import ProcessEnd

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
