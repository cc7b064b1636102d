"""What all running jobs share."""

from collections.abc import Callable
from dataclasses import dataclass

from receiver.core.clock import Clock
from receiver.service.emulator.account.slots import TeamSlots
from receiver.service.emulator.activity import Activity
from receiver.service.emulator.contracts import JobAccount
from receiver.service.emulator.ids import IdSource
from receiver.service.emulator.jobs.site_rules import OpenSite
from receiver.service.emulator.scrapes import Scraper
from receiver.service.emulator.state.database import StateDatabase
from receiver.service.emulator.webhooks.outbox import Outbox


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
