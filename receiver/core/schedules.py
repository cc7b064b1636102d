"""Scheduled runs: their type and keys, how they are stored, and the outcome of one that was due."""

import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from receiver.core.types import DeliveryKey, HandlerName

RUN_FAMILY = "schedule."
RUN_TYPE = "schedule.run"
"""The type of a scheduled run, where events have theirs."""
RUN_KEY_PREFIX = "every:"
"""How the keys of scheduled runs begin. No delivery of a sender gets such a key."""

KEPT_RUNS = 100
"""Ended runs of a handler that a store keeps: a run every minute must not fill the disk."""
FORGOTTEN_AFTER = timedelta(days=31)
"""A schedule whose next run has been overdue for this long is forgotten: its handler was removed."""

_PLAIN_NAME = re.compile(r"[0-9A-Za-z._-]{1,160}")
_HASH_LENGTH = 40


class RunOutcome(StrEnum):
    """The outcome of a scheduled run that was due."""

    MADE = "made"
    UNFINISHED = "unfinished"
    """Left out, because the run before has not ended."""
    DISABLED = "disabled"
    """Left out, because the handler is disabled."""
    TAKEN = "taken"
    """Another worker has made or left out this run."""


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """The next run of a handler; `schedule` is as written in the code."""

    handler: HandlerName
    schedule: str
    next_at: datetime


def run_keys(handler: HandlerName) -> str:
    """Return the beginning of the keys of a handler's runs. The keys sort by the time at which a run was due."""
    plain = _PLAIN_NAME.fullmatch(handler)
    name = handler if plain else hashlib.sha256(handler.encode()).hexdigest()[:_HASH_LENGTH]
    return f"{RUN_KEY_PREFIX}{name}:"


def run_key(handler: HandlerName, due_at: datetime) -> DeliveryKey:
    """Return the key of the run of a handler that is due at a moment."""
    return DeliveryKey(f"{run_keys(handler)}{due_at.astimezone(UTC):%Y-%m-%dT%H:%M:%S}Z")


def counts_still(planned: PlannedRun, schedule: str, noted: datetime) -> bool:
    """Return whether the next run that a store has noted still counts, in place of the planned one.

    It does not if the schedule has changed, or if it is later than planned: a clock was ahead when it was noted.
    """
    return schedule == planned.schedule and noted <= planned.next_at
