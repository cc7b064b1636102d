"""Scheduled runs: their keys, how they are stored, and what became of one that was due."""

import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from receiver.core.types import DeliveryKey, HandlerName

# FOLDED: How scheduled runs are told from deliveries of a sender: their type and their keys.
RUN_FAMILY = "schedule."
RUN_TYPE = "schedule.run"
"""The type of a scheduled run, where events have theirs."""
RUN_KEY_PREFIX = "every:"
"""How the keys of scheduled runs begin. No delivery of a sender gets such a key."""


KEPT_RUNS = 100
"""Ended runs of a handler that a store keeps: a run every minute must not fill the disk."""
FORGOTTEN_AFTER = timedelta(days=31)
"""A schedule whose next run has been overdue for so long is forgotten: its handler was removed."""

_PLAIN_NAME = re.compile(r"[0-9A-Za-z._-]{1,160}")
_HASH_LENGTH = 40


class RunOutcome(StrEnum):
    """What became of a scheduled run that was due."""

    MADE = "made"
    UNFINISHED = "unfinished"
    """The run before has not ended, so this one is left out."""
    DISABLED = "disabled"
    """The handler is disabled, so this one is left out."""
    TAKEN = "taken"
    """Another worker has made or left out this run."""


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """The next run of a handler, by its `schedule` as it is written in the code."""

    handler: HandlerName
    schedule: str
    next_at: datetime


def run_keys(handler: HandlerName) -> str:
    """Return how the keys of all runs of a handler begin. They sort by the time at which the runs were due."""
    plain = _PLAIN_NAME.fullmatch(handler)
    name = handler if plain else hashlib.sha256(handler.encode()).hexdigest()[:_HASH_LENGTH]
    return f"{RUN_KEY_PREFIX}{name}:"


def run_key(handler: HandlerName, due_at: datetime) -> DeliveryKey:
    """Return the key of the run of a handler that is due at a moment."""
    return DeliveryKey(f"{run_keys(handler)}{due_at.astimezone(UTC):%Y-%m-%dT%H:%M:%S}Z")


def counts_still(planned: PlannedRun, schedule: str, noted: datetime) -> bool:
    """Tell whether the next run that a store has noted for a schedule counts, and not the planned one.

    It does not if the schedule has changed, or if it is later than planned: a clock was ahead when it was noted.
    """
    return schedule == planned.schedule and noted <= planned.next_at
