"""Record an action around the block that carries it out."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from receiver.core.clock import Clock
from receiver.core.ports.controls import ActionLog
from receiver.core.recorded_actions import NewAction
from receiver.errors import ReceiverError, StoreError, StoreRefused

STOPPED = "it was stopped"
_MAX_TEXT = 500


@asynccontextmanager
async def recorded(log: ActionLog, clock: Clock, action: NewAction) -> AsyncIterator[int]:
    """Record that an action begins, give its number, and record how the block ended."""
    number = await log.begin_action(action, now=clock.now())
    try:
        yield number
    except BaseException as exc:
        await end_early(log, clock, number, reason_of(exc))
        raise
    await log.end_action(number, now=clock.now())


async def end_early(log: ActionLog, clock: Clock, number: int, reason: str) -> None:
    """Record why an action has ended before it was done, if the store can be written."""
    try:
        await log.end_action(number, now=clock.now(), error=reason[:_MAX_TEXT])
    except (StoreError, StoreRefused):
        return  # it is shown as interrupted, after a while


def reason_of(error: BaseException) -> str:
    """Say why an action ended early. Only errors that are made for people are shown."""
    if isinstance(error, asyncio.CancelledError | KeyboardInterrupt | GeneratorExit):
        return STOPPED
    return str(error) if isinstance(error, ReceiverError) else f"a fault of the program: {type(error).__name__}"
