"""What all running jobs share."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from receiver.core.clock import Clock
from receiver.service.emulator.activity import Activity
from receiver.service.emulator.contracts import JobAccount
from receiver.service.emulator.ids import IdSource
from receiver.service.emulator.jobs.site_rules import OpenSite
from receiver.service.emulator.scrapes import Scraper
from receiver.service.emulator.state.database import StateDatabase
from receiver.service.emulator.webhooks.outbox import Outbox


class TeamSlots:
    """How many pages of a team are scraped at one time, in all of its jobs together."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._slots: dict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(most))

    def of(self, team: str) -> asyncio.Semaphore:
        """Return the slots of a team."""
        return self._slots[team]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext:
    """The parts of the emulator that a running job uses."""

    database: StateDatabase
    """Where jobs are kept."""
    scraper: Scraper
    """Scrapes pages."""
    outbox: Outbox
    """Sends events."""
    account: JobAccount
    """Pays, in the transaction that notes a page."""
    clock: Clock
    """The emulator's time."""
    ids: IdSource
    """Makes ids."""
    open_site: OpenSite
    """Finds out the rules of a site."""
    slots: TeamSlots
    """The places for pages of each team."""
    activity: Activity
    """Counts what runs."""
    changed: Callable[[str], None]
    """Is called with the id of a job after each change."""
