"""One replay that somebody has agreed to."""

import shlex
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace

from receiver.cli.common.output import note
from receiver.cli.common.unreadable import UnreadableEvents
from receiver.cli.replay.flags import ReplayFlags
from receiver.core.bulk import Cursor, DeliveryPlan
from receiver.core.ports.controls import Controls
from receiver.core.ports.reports import Reports
from receiver.core.ports.store import Store
from receiver.core.text import escape_controls
from receiver.replay.selection import Chosen, Selection
from receiver.routing import Router
from receiver.settings import Settings


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """The flags of a replay, the chosen events, their plan, and the open store."""

    settings: Settings
    store: Store
    reports: Reports
    router: Router
    selection: Selection
    plan: DeliveryPlan
    flags: ReplayFlags
    outer: AsyncExitStack
    """Closed after the reports: the last connection to close must be one that may empty the write-ahead log."""
    unreadable: UnreadableEvents = field(default_factory=UnreadableEvents)
    """The events that were left out so far."""

    async def chosen(self) -> AsyncIterator[Chosen]:
        """Yield the chosen events in their order, and count those whose bodies cannot be read."""
        async for one in self.selection.of(self.reports):
            self.unreadable.leaves_out(one.stored)
            yield one

    async def controls(self) -> Controls:
        """Open the store for writing."""
        return await self.outer.enter_async_context(self.store.controls())

    def note_continuation(self, place: Cursor | None) -> None:
        """Print the command on standard error that continues after this place, with the same events."""
        if self.flags.planned:
            return  # --reload begins again with the next change
        rest = replace(self.flags, wanted=self.selection.wanted, after=place or self.flags.after)
        command = shlex.join(["receiver", *rest.arguments()])
        note(f"to go on where this stopped:\n  {escape_controls(command)}")
