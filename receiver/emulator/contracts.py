"""What the parts of the emulator know of each other: webhooks that go out, jobs that fail, and who pays."""

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from typing_extensions import override


@dataclass(slots=True)
class PublicAddress:
    """Scheme, host and port of the emulator, without a slash at the end, as the last caller wrote them."""

    url: str = "http://127.0.0.1:3002"


@dataclass(frozen=True, slots=True)
class WebhookTarget:
    """Where the events of a job or monitor go, as the request said."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Headers beside those of the service, by name."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """What comes back in each event."""
    events: tuple[str, ...] = ()
    """Names as they were given: full types, or what comes after the family. Empty: all events."""


@dataclass(frozen=True, slots=True)
class JobFailure:
    """How a job fails on request."""

    after: int
    """How many of its pages end before; 0 fails it before its first page."""
    error: str
    """Why, for people."""


class JobFaults(Protocol):
    """Decides which jobs fail."""

    def choose_job(self, kind: str) -> JobFailure | None:
        """Return how the job that starts now fails; None for the usual way."""


class NoJobFaults(JobFaults):
    """Every job takes its usual way."""

    @override
    def choose_job(self, kind: str) -> JobFailure | None:
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
        """Do the same if the team has that many credits left; otherwise do nothing, and return False."""


class NoteAnswer(Protocol):
    """Notes an answered call, so that feedback on it can be accepted."""

    async def __call__(self, team: str, job_id: str, endpoint: str) -> None:
        """Note one."""
