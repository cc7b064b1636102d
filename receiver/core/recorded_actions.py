"""What people did to a store: who did what, when, and to how many."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

KEPT = timedelta(days=90)
"""How long an action is remembered."""
MAX_KEPT = 10_000
"""The newest actions that are remembered; of more the oldest are forgotten."""
INTERRUPTED = "interrupted: nothing was seen of it for a minute"
SILENT = timedelta(minutes=1)
"""An action that has not ended, and of which nothing was seen for so long, was interrupted."""


@dataclass(frozen=True, slots=True)
class NewAction:
    """An action that is about to begin."""

    actor: str
    """Who: `console 10.0.0.7` or `cli operator@host`."""
    verb: str
    about: str
    """What it is done to, in words."""
    planned: int
    choice: Mapping[str, str] = field(default_factory=dict)
    """The same for programs: a filter or ids. By it the action is undone, or goes on after an interruption."""


@dataclass(frozen=True, slots=True)
class RecordedAction:
    """An action, and how far it has come."""

    id: int
    what: NewAction
    began_at: datetime
    seen_at: datetime
    """When it last came further."""
    ended_at: datetime | None = None
    seen: int = 0
    """How many of the planned items it has looked at."""
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
        """Whether it has not looked at everything that was planned."""
        return self.seen < self.what.planned

    def was_interrupted(self, now: datetime) -> bool:
        """Tell whether its process has ended without saying so."""
        return self.ended_at is None and now - self.seen_at > SILENT

    def as_seen(self, now: datetime) -> "RecordedAction":
        """Return it with the error INTERRUPTED if it was interrupted."""
        return replace(self, error=INTERRUPTED) if self.was_interrupted(now) else self

    def goes_on(self, now: datetime) -> bool:
        """Tell whether it is under way."""
        return self.ended_at is None and not self.was_interrupted(now)
