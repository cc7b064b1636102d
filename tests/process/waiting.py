"""Waiting in tests for what other processes do."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

PATIENCE_SECONDS = 120.0
"""How long a test waits for what must happen; only a failing test waits that long."""
POLL_SECONDS = 0.02


async def until(
    holds: Callable[[], bool], what: str | Callable[[], str], *, within: float = PATIENCE_SECONDS
) -> None:
    """Return when the condition holds; fail, saying what was waited for, when it does not in time.

    For what nothing signals: a row in another process's database, a file that a handler writes. `what` may be a
    function that says how far it came.
    """
    try:
        async with asyncio.timeout(within):
            while not holds():  # noqa: ASYNC110 - another process changes it
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        waited_for = what if isinstance(what, str) else what()
        raise AssertionError(f"waited {within:g} s in vain for: {waited_for}") from None


async def until_told(asks: Callable[[], Awaitable[bool]], what: str, *, within: float = PATIENCE_SECONDS) -> None:
    """Return when an answer is yes, as `until` does it: for what has to be asked of another process."""
    try:
        async with asyncio.timeout(within):
            while not await asks():  # noqa: ASYNC110 - another process changes it
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        raise AssertionError(f"waited {within:g} s in vain for: {what}") from None


async def cancelled(task: "asyncio.Task[None]") -> None:
    """Cancel a task and wait for its end; raises what it raised before."""
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def meanwhile(task: "asyncio.Task[None]", act: Callable[[], Awaitable[None]]) -> None:
    """Do something while a task runs, then cancel that."""
    try:
        await act()
    finally:
        await cancelled(task)
