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


def give_way(arguments: Sequence[str]) -> None:
    """Take the place behind the endpoint that a command has, also for its threads and its processes.

    A worker does not interrupt what runs when it has work again. That is worth about 5 % of the acks at 1 KB. Linux
    calls it SCHED_BATCH (sched(7)); elsewhere there is nothing like it. A policy that somebody has chosen stays.
    """
    if is_reader(arguments):
        os.nice(_NICENESS)
    if arguments[:1] == ["work"] and sys.platform == "linux":
        # Some sandboxes forbid it, and musl does not have it (sched_getscheduler.c: ENOSYS). All works without.
        with suppress(OSError):
            if os.sched_getscheduler(0) == os.SCHED_OTHER:
                os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def is_reader(arguments: Sequence[str]) -> bool:
    """Tell whether a command only reads, for long.

    None that writes may have a lower priority: the endpoint would wait for its lock while it waits for a processor.
    """
    if arguments[:1] == ["replay"]:
        return not _WRITING.intersection(arguments)
    return arguments[:1] == ["backup"] or " ".join(arguments[:2]) in _READERS
