"""Which commands leave the processors to the endpoint, where these are busy, and how."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress

_READERS = frozenset({"events export", "events list", "jobs list", "store copy"})
"""Commands of groups that only read, and may go through a whole store."""
_WRITING = frozenset({"--enqueue", "--record"})
"""Options with which `replay` writes."""
_NICENESS = 10
"""As much as the command `nice` adds by itself (POSIX, nice). While another program wants the same processor, Linux
then gives a tenth of the time that the other one has."""


def give_way(arguments: Sequence[str]) -> None:
    """Take the place behind the endpoint that a command has, also for its threads and its processes.

    Stored deliveries can wait, and a sender does not wait for long. So a worker has a lower priority: where all
    processors are busy, that is worth about 20 % of the acks at 1 KB. It also does not interrupt what runs when it
    has work again, which is worth about 5 %. Linux calls that SCHED_BATCH (sched(7)); elsewhere there is nothing
    like it. A priority or a policy that somebody has chosen stays.
    """
    works = arguments[:1] == ["work"]
    if (works or is_reader(arguments)) and os.nice(0) == 0:
        os.nice(_NICENESS)
    if works and sys.platform == "linux":
        # Some sandboxes forbid it, and musl does not have it (sched_getscheduler.c: ENOSYS). All works without.
        with suppress(OSError):
            if os.sched_getscheduler(0) == os.SCHED_OTHER:
                os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def is_reader(arguments: Sequence[str]) -> bool:
    """Tell whether a command only reads, for long.

    One that writes many deliveries at a time has no lower priority: the endpoint would wait for its lock while it
    waits for a processor. The transactions of a worker are short.
    """
    if arguments[:1] == ["replay"]:
        return not _WRITING.intersection(arguments)
    return arguments[:1] == ["backup"] or " ".join(arguments[:2]) in _READERS
