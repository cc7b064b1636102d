"""What an emulator is made of: the ground that all parts stand on, and what a part brings."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

import httpx
from starlette.types import ASGIApp

from receiver.emulator.account.account import CreditLedger, QueueSource
from receiver.emulator.account.threats import ThreatGuard
from receiver.emulator.activity import Activity
from receiver.emulator.address import PublicAddress
from receiver.emulator.api.calls import ApiOperation
from receiver.emulator.clock import EmulatorClock
from receiver.emulator.contracts import JobFaults
from receiver.emulator.ids import IdSource
from receiver.emulator.options import EmulatorOptions
from receiver.emulator.state.database import StateDatabase
from receiver.emulator.webhooks.outbox import Outbox
from receiver.emulator.wire.bodies import RequestPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatorBase:
    """What every part can use."""

    options: EmulatorOptions
    """What was chosen."""
    clock: EmulatorClock
    """The emulator's time."""
    ids: IdSource
    """Makes ids."""
    state: StateDatabase
    """The database, with the tables of all parts."""
    ledger: CreditLedger
    """The credits."""
    guard: ThreatGuard
    """Checks URLs."""
    outbox: Outbox
    """Sends webhooks."""
    faults: JobFaults
    """Decides which jobs fail."""
    activity: Activity
    """What runs without waiting for the clock."""
    policy: RequestPolicy
    """For the readers of requests."""
    address: PublicAddress
    """Where callers reach the emulator."""
    transport: httpx.AsyncBaseTransport | None
    """Takes every request that leaves the emulator, in tests; None is the network."""


async def _nothing() -> None:
    """Forget nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatorParts:
    """What parts bring."""

    operations: list[ApiOperation] = field(default_factory=list)
    """Operations of the API."""
    sockets: ASGIApp | None = None
    """Takes WebSockets; without it they are refused."""
    media: ASGIApp | None = None
    """Serves pictures and other files; without it there are none."""
    queues: QueueSource | None = None
    """Knows what runs and waits; the jobs do."""
    reset: Callable[[], Awaitable[object]] = _nothing
    """Stops what runs and forgets what is in memory; the tables are emptied after it."""


OpenParts = Callable[[EmulatorBase], AbstractAsyncContextManager[EmulatorParts]]
"""Makes parts, which live as long as the block."""
