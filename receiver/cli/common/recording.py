"""What a command does to the store, recorded with who did it."""

import getpass
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from receiver.cli.common.store import clock_of
from receiver.core.clock import Clock
from receiver.core.ports.controls import Controls
from receiver.core.ports.store import Store
from receiver.core.recorded_actions import NewAction
from receiver.core.recording import recorded


class ActionCount:
    """Counts for one recorded action."""

    def __init__(self, controls: Controls, clock: Clock, number: int) -> None:
        self._controls = controls
        self._clock = clock
        self.number = number
        """The number of the action."""

    async def add(self, *, seen: int, changed: int) -> None:
        """Add to what it has looked at and changed."""
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
