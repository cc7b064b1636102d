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


class Outgoing(Protocol):
    """Takes the events of jobs and monitors, and delivers them by the schedule of the service."""

    async def put(
        self,
        target: WebhookTarget | None,
        event_type: str,
        job_id: str,
        *,
        success: bool = True,
        data: list[dict[str, Any]] | None = None,
        error: str | None = None,
    ) -> None:
        """Keep an event for delivery; without a target, or when its filter refuses the type, do nothing.

        When this returns, the event survives the end of the process, if the state is a file.
        """


class Account(Protocol):
    """The credits of a team."""

    async def remaining(self, team: str) -> int:
        """Return the credits that are left."""

    async def charge(self, team: str, amount: int) -> None:
        """Take an amount of credits off, never below 0."""


class JobAccount(Protocol):
    """The credits of a team, taken off together with what they pay for."""

    def charge_within(self, connection: sqlite3.Connection, team: str, amount: int) -> None:
        """Take an amount of credits off, never below 0, as a part of a transaction of the state."""

    def pay_within(self, connection: sqlite3.Connection, team: str, amount: int) -> bool:
        """Do the same if the team has as many credits left; otherwise do nothing, and return False."""
