"""What the parts of the emulator know of each other: the webhooks that go out, and the account that pays."""

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class WebhookTarget:
    """Where the events of a job or monitor go, as the request said."""

    url: str
    """Where to post."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Headers beside those of the service, by name."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """What comes back in each event."""
    events: tuple[str, ...] = ()
    """Names as they were given: full types, or what comes after the family. Empty: all events."""


@dataclass(frozen=True, slots=True)
class JobFailure:
    """How a job fails, because somebody asked for it."""

    after: int
    """How many of its pages end before; 0 fails it before its first page."""
    error: str
    """Why, for people."""


class JobFaults(Protocol):
    """Decides which jobs fail. The admin API can set it."""

    def choose_job(self, kind: str) -> JobFailure | None:
        """Return how the job that starts now fails; None for the usual way."""


class NoJobFaults:
    """Every job takes its usual way."""

    def choose_job(self, kind: str) -> JobFailure | None:
        """Return None."""
        return None


class Account(Protocol):
    """The credits of a team."""

    async def remaining(self, team: str) -> int:
        """Return the credits that are left."""

    async def charge(self, team: str, amount: int) -> None:
        """Take an amount of credits off, never below 0."""


class JobAccount(Protocol):
    """The credits of a team, taken off together with what they pay for."""

    async def remaining(self, team: str) -> int:
        """Return the credits that are left."""

    def charge_within(self, connection: sqlite3.Connection, team: str, amount: int) -> None:
        """Take an amount of credits off, never below 0, as a part of a transaction of the state."""

    def pay_within(self, connection: sqlite3.Connection, team: str, amount: int) -> bool:
        """Do the same if the team has as many credits left; otherwise do nothing, and return False."""


class NoteAnswer(Protocol):
    """Notes answered calls, so that something can be said of them."""

    async def __call__(self, team: str, job_id: str, endpoint: str) -> None:
        """Note one."""
