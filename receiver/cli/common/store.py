"""The configured store, opened for reading, for a recorded decision or for maintenance."""

import getpass
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from typing import TypeVar

from receiver.cli.common.exit_codes import FAILED, OK
from receiver.cli.common.output import note
from receiver.core.choosing import recorded
from receiver.core.clock import Clock, SystemClock
from receiver.core.deliveries import StoredDelivery
from receiver.core.ports.reports import Reports
from receiver.core.ports.store import Controls, Maintenance, Store
from receiver.core.recorded_actions import NewAction
from receiver.core.text import counted, escape_controls
from receiver.core.types import Tell
from receiver.runtime.processes import run
from receiver.settings import Settings
from receiver.stores import open_store

T = TypeVar("T")


def configured_store(settings: Settings) -> Store:
    """Return the configured store; it is not touched before it is opened."""
    return open_store(settings.store)


async def now_of(store: Store) -> datetime:
    """Return the present moment for decisions about work: that of all processes which share the store."""
    async with clock_of(store) as clock:
        return clock.now()


def clock_of(store: Store) -> AbstractAsyncContextManager[Clock]:
    """Open the clock of all processes which share the store."""
    return store.clock(SystemClock())


def open_reports(settings: Settings) -> AbstractAsyncContextManager[Reports]:
    """Open the configured store for reading. Entering raises StoreError if there is none."""
    return open_store(settings.store).reports()


@asynccontextmanager
async def open_controls(settings: Settings, *, create: bool = False) -> AsyncIterator[Controls]:
    """Open the configured store for decisions. Entering raises StoreError if there is none, or creates it."""
    store = open_store(settings.store)
    if create and not store.exists():
        async with store.log():
            pass
    async with store.controls() as controls:
        yield controls


def read(settings: Settings, report: Callable[[Reports], Awaitable[T]]) -> T:
    """Run one report."""

    async def work() -> T:
        async with open_reports(settings) as reports:
            return await report(reports)

    return run(work(), fastest=False)


def maintain(settings: Settings, maintenance: Callable[[Maintenance, Clock], Awaitable[T]], *, tell: Tell) -> T:
    """Run one piece of maintenance by the clock of the store. Remarks about the room on the disk go to `tell`."""
    store = open_store(settings.store)

    async def work() -> T:
        async with store.maintenance(tell=tell) as opened, clock_of(store) as clock:
            return await maintenance(opened, clock)

    return run(work(), fastest=False)


def decide(settings: Settings, decision: Callable[[Controls], Awaitable[T]], *, create: bool = False) -> T:
    """Run one decision; with `create` in a new store if there is none."""

    async def work() -> T:
        async with open_controls(settings, create=create) as controls:
            return await decision(controls)

    return run(work(), fastest=False)


def decide_reading(settings: Settings, decision: Callable[[Reports, Controls], Awaitable[T]]) -> T:
    """Run one decision that also reads reports."""

    async def work() -> T:
        # In this order: the last connection to close must be one that may empty the write-ahead log.
        async with open_controls(settings) as controls, open_reports(settings) as reports:
            return await decision(reports, controls)

    return run(work(), fastest=False)


class ActionCount:
    """The progress of one recorded action."""

    def __init__(self, controls: Controls, clock: Clock, number: int) -> None:
        self._controls = controls
        self._clock = clock
        self.number = number

    async def add(self, *, seen: int, changed: int) -> None:
        """Add to the numbers of items that it has checked and changed."""
        await self._controls.advance_action(self.number, seen=seen, changed=changed, now=self._clock.now())


@asynccontextmanager
async def recording(
    controls: Controls,
    store: Store,
    verb: str,
    about: str,
    *,
    planned: int,
    choice: Mapping[str, str] | None = None,
) -> AsyncIterator[ActionCount]:
    """Record an action of this user around the block that carries it out."""
    action = NewAction(actor(), verb, about, planned, choice or {})
    async with clock_of(store) as clock, recorded(controls, clock, action) as number:
        yield ActionCount(controls, clock, number)


def actor() -> str:
    """Return who runs this command."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container may run under a number without a name
        user = "unknown"
    return f"cli {user}@{socket.gethostname()}"


_NAMED = 3


class UnreadableEvents:
    """Counts the events that a command leaves out, and keeps why the first few cannot be read."""

    def __init__(self) -> None:
        self.count = 0
        self._reasons: list[str] = []

    def leaves_out(self, stored: StoredDelivery) -> bool:
        """Return whether the body of an event cannot be read, and count the event in that case."""
        if not stored.unreadable:
            return False
        self.count += 1
        if len(self._reasons) < _NAMED:
            self._reasons.append(stored.unreadable)
        return True

    def report(self) -> int:
        """Write to standard error how many were left out, and name the first. Return the exit code for that."""
        if not self.count:
            return OK
        note(f"left out {counted(self.count, 'event')}: the store cannot read their bodies")
        for reason in self._reasons:
            note(f"  {escape_controls(reason)}")
        if self.count > len(self._reasons):
            note(f"  and {self.count - len(self._reasons):,} more")
        return FAILED
