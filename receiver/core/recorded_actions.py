"""Recorded actions: who did what to a store, when, and to how many items."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

KEPT = timedelta(days=90)
"""How long an action is remembered."""
MAX_KEPT = 10_000
"""How many actions are remembered; beyond that the oldest are forgotten."""
INTERRUPTED = "interrupted: nothing was seen of it for a minute"
SILENT = timedelta(minutes=1)
"""An action that has not ended, and made no progress for this long, was interrupted."""


@dataclass(frozen=True, slots=True)
class NewAction:
    """An action that is about to begin."""

    actor: str
    """Who: `console 10.0.0.7` or `cli operator@host`."""
    verb: str
    about: str
    """The items, in words."""
    planned: int
    choice: Mapping[str, str] = field(default_factory=dict)
    """The items for programs: a filter or ids. With it the action is undone, or continued if it was interrupted."""


@dataclass(frozen=True, slots=True)
class RecordedAction:
    """An action, and how far it has come."""

    id: int
    what: NewAction
    began_at: datetime
    seen_at: datetime
    """When it last made progress."""
    ended_at: datetime | None = None
    seen: int = 0
    """How many of the planned items it has examined."""
    changed: int = 0
    error: str | None = None
    """Why it ended early."""

    @property
    def percent(self) -> int:
        """How much of it is done, in percent."""
        if self.ended_at is not None or not self.what.planned:
            return 100
        return min(99, self.seen * 100 // self.what.planned)

    @property
    def has_rest(self) -> bool:
        """Whether planned items are left that it has not examined."""
        return self.seen < self.what.planned

    def was_interrupted(self, now: datetime) -> bool:
        """Return whether its process ended without recording the end."""
        return self.ended_at is None and now - self.seen_at > SILENT

    def as_seen(self, now: datetime) -> "RecordedAction":
        """Return it with the error INTERRUPTED if it was interrupted."""
        return replace(self, error=INTERRUPTED) if self.was_interrupted(now) else self

    def goes_on(self, now: datetime) -> bool:
        """Return whether it is under way."""
        return self.ended_at is None and not self.was_interrupted(now)
