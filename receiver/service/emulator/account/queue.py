"""What runs for a team at the moment, as its usage endpoints tell."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamQueue:
    """The pages of a team that are scraped now, and those that wait."""

    active: int = 0
    """Pages that are scraped now."""
    waiting: int = 0
    """Pages of jobs that are not begun."""
    last_success: datetime | None = None
    """When a page was scraped last."""


class QueueSource(Protocol):
    """Knows what runs. The jobs do."""

    async def queue_of(self, team: str) -> TeamQueue:
        """Return what runs for a team now."""


class EmptyQueue:
    """Nothing runs: for an emulator without jobs."""

    async def queue_of(self, team: str) -> TeamQueue:
        """Return zeros."""
        return TeamQueue()
