"""Types that all parts share: ids, states, headers and the version of a schema."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import NewType

DeliveryKey = NewType("DeliveryKey", str)
"""Public id of a delivery: the sender's `webhookId`, or `sha256:` and the hex digest of the body."""

HandlerName = NewType("HandlerName", str)
"""Name of a handler, unique in a router: `module.function` unless it was given one."""

WorkerId = NewType("WorkerId", str)
"""Name of one run of one worker process. It is never used again: a lease names exactly one run."""

Headers = tuple[tuple[str, str], ...]
"""Request headers in the order they came, names in lower case, values decoded as Latin-1 (RFC 9110, 5.5)."""

Tell = Callable[[str], object]
"""Takes a sentence for a person, such as a note of a command."""

Globs = str | tuple[str, ...]
"""A glob, or several of which one must match."""


def glob_list(globs: Globs | None) -> tuple[str, ...]:
    """Return the globs as a tuple, empty for None."""
    return () if globs is None else (globs,) if isinstance(globs, str) else globs


class AppendOutcome(StrEnum):
    """What the store did with a delivery that was appended to it."""

    ACCEPTED = "accepted"
    """It is new and now stored."""
    DUPLICATE = "duplicate"
    """A delivery with this key is stored; this one was counted on it."""
    CONFLICT = "conflict"
    """A delivery with this key and another body is stored; this body was put in quarantine."""


class Origin(StrEnum):
    """Where a delivery came from."""

    SENDER = "sender"
    IMPORT = "import"
    """An operator imported it, to examine and replay it. No worker makes work for it."""
    BACKFILL = "backfill"
    """Fetched from the service in place of an event that did not arrive."""
    SCHEDULE = "schedule"
    """A scheduled run of a handler. A worker made it together with its work item."""


class DeliveryState(StrEnum):
    """How far a delivery has come, over all its work items."""

    NEW = "new"
    """No worker has routed it."""
    WORKING = "working"
    """At least one of its work items runs, or will run."""
    DONE = "done"
    """Every work item succeeded or was skipped, or no handler matched."""
    DEAD = "dead"
    """Nothing is left to run, and at least one work item is dead."""


OPEN_DELIVERIES = frozenset({DeliveryState.NEW, DeliveryState.WORKING})
"""A delivery in one of these is not finished."""


class WorkState(StrEnum):
    """State of one work item. `work_states` has the table of how it changes."""

    WAITING = "waiting"
    """It is due now or later; any worker may claim it then."""
    QUEUED = "queued"
    """It waits in its lane for another item."""
    HELD = "held"
    """It waits until the pages of its job are handled."""
    RUNNING = "running"
    """A worker runs it under a lease."""
    DONE = "done"
    """Its handler succeeded."""
    DEAD = "dead"
    """It failed for good, or an operator buried it."""
    SKIPPED = "skipped"
    """Its handler was disabled."""


class HandlerSwitch(StrEnum):
    """An operator's decision about a handler, for all workers, until the next decision."""

    ON = "on"
    PAUSED = "paused"
    """Its work gathers, and runs after a resume."""
    DISABLED = "disabled"
    """Its work is skipped."""


class Trigger(StrEnum):
    """Why an attempt ran."""

    DELIVERY = "delivery"
    RETRY = "retry"
    REPLAY = "replay"
    BACKFILL = "backfill"
    SCHEDULE = "schedule"
    """A scheduled run was due."""
    LATER = "later"
    """Another handler of the delivery asked for it with `ctx.later`."""


class AttemptOutcome(StrEnum):
    """How an attempt ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    LOST = "lost"
    """Its worker died or lost its lease; its end is unknown."""


@dataclass(frozen=True, slots=True)
class Schema:
    """The version of the schema that a database has, and the one that this program needs."""

    stored: int
    needed: int
