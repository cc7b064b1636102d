"""Which commands leave the processors to the endpoint, where these are busy, and how."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress

_READERS = frozenset({"events export", "events list", "jobs list", "store copy"})
"""Commands of groups that only read, and may go through a whole store."""
_WRITING = frozenset({"--enqueue", "--record"})
"""Options with which `replay` writes."""
_READER_NICENESS = 10
_WORKER_NICENESS = 5
"""Linux gives a worker a third of the time that a program of niceness 0 has, while both want the same processor."""


def give_way(arguments: Sequence[str]) -> None:
    """Take the place behind the endpoint that a command has, also for its threads and its processes.

    Stored deliveries can wait, and a sender does not wait for long. So a worker has a lower priority: where all
    processors are busy, that is worth about 10 % of the acks at 1 KB. It also does not interrupt what runs when it
    has work again, which is worth about 5 %. Linux calls that SCHED_BATCH (sched(7)); elsewhere there is nothing
    like it. A worker keeps a priority or a policy that somebody has chosen.
    """
    if is_reader(arguments):
        _add_niceness(_READER_NICENESS)
    if arguments[:1] != ["work"]:
        return
    if os.getpriority(os.PRIO_PROCESS, 0) == 0:
        _add_niceness(_WORKER_NICENESS)
    if sys.platform == "linux":
        # Some sandboxes forbid it, and musl does not have it (sched_getscheduler.c: ENOSYS). All works without.
        with suppress(OSError):
            if os.sched_getscheduler(0) == os.SCHED_OTHER:
                os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def _add_niceness(more: int) -> None:
    with suppress(OSError):  # a sandbox may forbid it
        os.nice(more)


def is_reader(arguments: Sequence[str]) -> bool:
    """Tell whether a command only reads, for long.

    One that writes many deliveries at a time has no lower priority: the endpoint would wait for its lock while it
    waits for a processor. The transactions of a worker take little of one.
    """
    if arguments[:1] == ["replay"]:
        return not _WRITING.intersection(arguments)
    return arguments[:1] == ["backup"] or " ".join(arguments[:2]) in _READERS
