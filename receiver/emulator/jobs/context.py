"""What all running jobs share."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from receiver.core.clock import Clock
from receiver.emulator.account.account import TeamSlots
from receiver.emulator.clock import Activity
from receiver.emulator.contracts import JobAccount
from receiver.emulator.ids import IdSource
from receiver.emulator.jobs.sites import OpenSite
from receiver.emulator.scrapes import Scraper
from receiver.emulator.state.database import StateDatabase
from receiver.emulator.webhooks.outbox import Outbox


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


# FOLDED: Tells watchers of a job that something has changed.
class JobWatch:
    """One watcher of one job."""

    def __init__(self) -> None:
        self._news = asyncio.Event()

    def notify(self) -> None:
        """Let `changed` return."""
        self._news.set()

    async def changed(self) -> None:
        """Return when the job has changed since the last return, or since the watch began."""
        await self._news.wait()
        self._news.clear()


class JobChanges:
    """The watchers of all jobs."""

    def __init__(self) -> None:
        self._watches: dict[str, set[JobWatch]] = defaultdict(set)

    def notify(self, job_id: str) -> None:
        """Tell all that watch a job."""
        for watch in self._watches.get(job_id, ()):
            watch.notify()

    @contextmanager
    def watch(self, job_id: str) -> Iterator[JobWatch]:
        """Watch a job for as long as the block lasts."""
        watch = JobWatch()
        self._watches[job_id].add(watch)
        try:
            yield watch
        finally:
            self._watches[job_id].discard(watch)
            if not self._watches[job_id]:
                del self._watches[job_id]
