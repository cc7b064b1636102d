"""A database in the folder of the test, filled with deliveries and work items, and a terminal to look at it."""

import asyncio
import os
import pty
import re
import select
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from receiver.core.claims import Lease, Settlement
from receiver.core.deliveries import Delivery
from receiver.core.ports.log import DeliveryLog
from receiver.core.ports.queue import WorkQueue
from receiver.core.ports.reports import Reports
from receiver.core.ports.store import Controls
from receiver.core.types import (
    AttemptOutcome,
    DeliveryKey,
    HandlerName,
    HandlerSwitch,
    Trigger,
    WorkerId,
    WorkState,
)
from receiver.core.work import Attempt, Hold, NewWork, WorkFilter, WorkSummary
from receiver.stores import open_store
from tests.doubles import LONG, appended
from tests.process import warm

NOON = datetime(2026, 8, 4, 12, tzinfo=UTC)
STORE = "sqlite:///kept.db"
BODY = b'{ "type": "crawl.page",\n "data": [{}, {}], "error": "slow", "metadata": {"a": "1"} }\r\n'
HEADERS = (("content-type", "application/json"), ("x-a", "1"), ("x-a", "2"))
SAVE = HandlerName("handlers.pages.save")
TELL = HandlerName("handlers.chat.tell")

WAITING, QUEUED, HELD, RUNNING = WorkState.WAITING, WorkState.QUEUED, WorkState.HELD, WorkState.RUNNING
DONE, DEAD, SKIPPED = WorkState.DONE, WorkState.DEAD, WorkState.SKIPPED
_WORKER = WorkerId("w")
_ENDED = (DONE, DEAD)
_TYPE_AGAIN_SECONDS = 2


def delivery(key: str, minutes: float = 0, **changes: Any) -> Delivery:
    """Return a delivery that arrived so many minutes after noon."""
    made = Delivery(
        key=DeliveryKey(key),
        type="crawl.page",
        job_id="job-1",
        webhook_id=key,
        success=True,
        received_at=NOON + timedelta(minutes=minutes),
        headers=HEADERS,
        body=BODY,
    )
    return made._replace(**changes)


class Filling:
    """Puts deliveries and their work items into the store. Ids of work items count from 1, moments from noon."""

    def __init__(self, log: DeliveryLog, queue: WorkQueue, controls: Controls, reports: Reports) -> None:
        self.log, self.queue, self.controls, self.reports = log, queue, controls, reports
        self._lease = Lease(_WORKER, NOON + timedelta(days=10_000))
        self._items = 0

    async def items(
        self,
        count: int,
        state: WorkState,
        handler: HandlerName = SAVE,
        *,
        lane: str | None = None,
        holds_lane: bool = False,
        note: str | None = None,
        key: str = "key-{}",
        attempt: Attempt | None = None,
        **changes: Any,
    ) -> range:
        """Make deliveries that came at the same time, and their work items for this handler, all in one state."""
        if state is SKIPPED:
            await self.controls.switch(handler, HandlerSwitch.DISABLED)
        first = self._items + 1
        numbers = range(first, first + count)
        await asyncio.gather(*[appended(self.log, delivery(key.format(number), **changes)) for number in numbers])
        hold = Hold(NOON + timedelta(minutes=1), NOON + timedelta(hours=1)) if state is HELD else None
        claim = state in (RUNNING, *_ENDED)
        batch = await self.queue.routing_batch(limit=count, max_bytes=10**9)
        new = [NewWork(one.seq, handler, claim, lane=lane, hold=hold) for one in batch.deliveries]
        await self.queue.route(batch, new, lease=self._lease, now=NOON)
        self._items += count
        if state in _ENDED:
            attempt = attempt or ended("ValueError: no such page" if state is DEAD else None)
            await self.queue.settle(
                [
                    Settlement(work_id, handler, _WORKER, attempt, state, NOON, holds_lane=holds_lane)
                    for work_id in numbers
                ]
            )
        if note is not None:
            await self.queue.recheck(first, at=NOON + timedelta(minutes=2), note=note)
        if state is SKIPPED:
            await self.controls.switch(handler, HandlerSwitch.ON)
        return numbers

    async def item(self, state: WorkState, handler: HandlerName = SAVE, **changes: Any) -> int:
        """Make one delivery and its work item; return the item's id."""
        return (await self.items(1, state, handler, **changes))[0]


def ended(error: str | None = None, *, number: int = 1, seconds: float = 0.25, **changes: Any) -> Attempt:
    """Return an attempt that began at noon and took so long."""
    outcome = AttemptOutcome.SUCCEEDED if error is None else AttemptOutcome.FAILED
    made = Attempt(number, Trigger.DELIVERY, NOON, NOON + timedelta(seconds=seconds), outcome, error)
    return made._replace(**changes)


@asynccontextmanager
async def filling(url: str = STORE) -> AsyncIterator[Filling]:
    """Open the store to fill it."""
    store = open_store(url)
    async with AsyncExitStack() as stack:
        log = await stack.enter_async_context(store.log())
        queue = await stack.enter_async_context(store.queue())
        controls = await stack.enter_async_context(store.controls())
        reports = await stack.enter_async_context(store.reports())
        yield Filling(log, queue, controls, reports)


async def filled(*steps: Callable[[Filling], Awaitable[object]]) -> None:
    """Fill the store."""
    async with filling() as store:
        for step in steps:
            await step(store)


def fill(*steps: Callable[[Filling], Awaitable[object]]) -> None:
    """Fill the store from a test that is not async."""
    asyncio.run(filled(*steps))


def made(*states: WorkState, handler: HandlerName = SAVE) -> None:
    """Make one work item in each of these states, in this order, with ids from 1 on. Queued items need a lane."""
    fill(*(lambda store, state=state: store.item(state, handler) for state in states))


def items(wanted: WorkFilter | None = None) -> list[WorkSummary]:
    """Return the work items in the store, the oldest first."""

    async def read() -> list[WorkSummary]:
        async with open_store(STORE).reports() as reports:
            return [item async for item in reports.work_items(wanted or WorkFilter())]

    return asyncio.run(read())[::-1]


def states() -> list[str]:
    """Return the state of every work item, in the order of their ids."""
    return [item.state.value for item in items()]


def on_a_terminal(*args: str, columns: int = 140, answer: str | None = None) -> tuple[int, str]:
    """Run a command in a terminal of its own, answering its question; return exit code and what appears there.

    Styles are left out, and so is how a progress bar moves.
    """
    ours, theirs = pty.openpty()
    environment = os.environ | {"COLUMNS": str(columns), "TERM": "xterm"}
    process = warm.start(args, Path.cwd(), environment, stdout=theirs, stderr=theirs, on_terminal=True)
    os.close(theirs)
    seen = _talk(ours, answer)
    os.close(ours)
    return process.wait(LONG), re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", seen.decode()).replace("\r\n", "\n")


def _talk(terminal: int, answer: str | None) -> bytes:
    seen = b""
    typed = False
    while True:
        ready = select.select([terminal], [], [], _TYPE_AGAIN_SECONDS)[0]
        if ready:
            try:
                chunk = os.read(terminal, 65_536)
            except OSError:  # how Linux tells the end of a terminal
                chunk = b""
            if not chunk:
                return seen
            seen += chunk
        # What is typed while `input` is just beginning can be lost, as a person sees: it is typed again.
        if answer is not None and b"[y/N]: " in seen and not (typed and ready):
            os.write(terminal, answer.encode())
            typed = True
