"""What people did, in a store in memory."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice

from receiver.core.recorded_actions import NewAction, RecordedAction
from receiver.errors import UnknownAction
from receiver.stores.memory.face import MemoryFace


class MemoryActions(MemoryFace):
    """An ActionLog and an ActionReader."""

    async def begin_action(self, action: NewAction, *, now: datetime) -> int:
        """Record that an action begins."""
        self.state.last_action += 1
        number = self.state.last_action
        self.state.actions[number] = RecordedAction(number, action, now, now)
        self.state.changes.set()
        return number

    async def advance_action(self, action: int, *, seen: int, changed: int, now: datetime) -> None:
        """Add to what it has looked at and changed."""
        self.count_for(action, seen=seen, changed=changed, now=now)

    async def end_action(self, action: int, *, now: datetime, error: str | None = None) -> None:
        """Record that it has ended."""
        if (found := self.state.actions.get(action)) is not None:
            self.state.actions[action] = replace(found, ended_at=now, error=error)
            self.state.changes.set()

    async def actions(self, *, limit: int, before: int | None = None) -> Sequence[RecordedAction]:
        """Return recorded actions, the newest first."""
        newest = reversed(self.state.actions.values())
        return list(islice((one for one in newest if before is None or one.id < before), limit))

    async def action(self, number: int) -> RecordedAction:
        """Return a recorded action."""
        if (found := self.state.actions.get(number)) is None:
            raise UnknownAction(number)
        return found

    def count_for(self, action: int | None, *, seen: int, changed: int, now: datetime) -> None:
        """Add to an action; None is no action."""
        if action is not None and (found := self.state.actions.get(action)) is not None:
            self.state.actions[action] = replace(
                found, seen=found.seen + seen, changed=found.changed + changed, seen_at=now
            )
