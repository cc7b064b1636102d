"""The deliveries to one address: one after the other, as long as it answers."""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

import httpx

from receiver.core.clock import Clock, Timer
from receiver.core.log_lines import event_log
from receiver.errors import ConfigurationError
from receiver.service.emulator.activity import Activity
from receiver.service.emulator.fetching.refusals import HostNotAllowed
from receiver.service.emulator.state.database import StateDatabase
from receiver.service.emulator.webhooks.table import DueDelivery, attempt_of, record, skip, take
from receiver.service.schedule import EndpointResponse, SenderSchedule
from receiver.service.sender import Sender, SendResult

log = event_log(__name__)

T = TypeVar("T")

SILENT_WIDTH = 8
"""How many deliveries are on their way at one time to an address that does not answer."""
_AFTER_CRASH = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneContext:
    """What all lanes of an outbox share."""

    database: StateDatabase
    """Where deliveries are kept."""
    clock: Clock
    """The emulator's time, for retries."""
    network_clock: Clock
    """Real time, for the time-out of an attempt."""
    schedule: SenderSchedule
    """The time-out and the retry delays."""
    activity: Activity
    """Counts what runs."""
    slots: asyncio.Semaphore
    """How many are sent at one time."""
    secret: str | None = field(repr=False)
    """Signs deliveries; None sends them unsigned."""
    transport: Callable[[], httpx.AsyncBaseTransport | None]
    """Makes what takes the requests of a lane; None is the network."""


@dataclass(frozen=True, slots=True)
class _Tried:
    """An attempt that is still to be noted; without any attempts, the delivery is skipped."""

    delivery: DueDelivery
    """What was sent."""
    attempts: list[dict[str, Any]]
    """How many there were, with this one."""
    response: EndpointResponse
    """How the endpoint answered."""
    at: datetime
    """When it ended."""


class DeliveryLane:
    """Sends what is due to one address, when it is woken and when a retry comes due."""

    def __init__(self, url: str, context: LaneContext) -> None:
        self._url = url
        self._address = url.partition("?")[0].rpartition("@")[2]  # the rest may hold secrets
        self._context = context
        self._tasks: set[asyncio.Task[None]] = set()
        self._workers: set[asyncio.Task[None]] = set()
        self._timer: Timer | None = None
        self._again = False
        self._answers = True
        self._taken: set[int] = set()
        self._sender: Sender | None = None
        self._stack = AsyncExitStack()
        self._opening = asyncio.Lock()

    @property
    def idle(self) -> bool:
        """Whether nothing is on its way and no retry is waited for."""
        return not self._tasks and self._timer is None

    def wake(self) -> None:
        """Look for what is due, now or as soon as the delivery on its way is answered."""
        self._again = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._workers:
            self._start()

    async def close(self) -> None:
        """Give up what is on its way, and close the connections."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stack.aclose()

    def _start(self) -> None:
        self._context.activity.begin()
        task = asyncio.create_task(self._work())
        self._tasks.add(task)
        self._workers.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._workers.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("webhooks_crashed", exc_info=error, extra={"url": self._address})
            self._wake_after(_AFTER_CRASH)
        self._context.activity.end()

    def _wake_after(self, duration: timedelta) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._context.clock.call_later(duration, self.wake)

    async def _work(self) -> None:
        tried: _Tried | None = None
        while not self._can_leave():
            self._again = False
            found = await self._noted(partial(self._next, tried=tried), tried)
            tried = None
            if isinstance(found, DueDelivery):
                self._adapt_width()
                tried = await self._try(found)
            elif not self._again:
                self._leave()
                if found is not None:
                    self._wake_after(max(timedelta(0), found - self._context.clock.now()))
                return
        if tried is not None:
            await self._noted(partial(self._note, tried=tried), tried)

    async def _noted(self, work: Callable[[sqlite3.Connection], T], tried: _Tried | None) -> T:
        """Run a transaction. An attempt that it cannot note is made again."""
        try:
            return await self._context.database.run(work, patient=True)
        except Exception:
            if tried is not None:
                self._taken.discard(tried.delivery.seq)
            raise

    def _can_leave(self) -> bool:
        """Leave the rest to another worker, if the address answers and there is one."""
        if not self._answers or len(self._workers) == 1:
            return False
        self._leave()
        return True

    def _leave(self) -> None:
        """Count no more as one who looks for deliveries: from here on, `wake` starts another worker."""
        task = asyncio.current_task()
        if task is not None:
            self._workers.discard(task)

    def _next(self, connection: sqlite3.Connection, tried: _Tried | None) -> DueDelivery | datetime | None:
        if tried is not None:
            self._note(connection, tried)
        found = take(connection, self._url, self._context.clock.now(), self._taken)
        if isinstance(found, DueDelivery):
            self._taken.add(found.seq)
        return found

    def _note(self, connection: sqlite3.Connection, tried: _Tried) -> None:
        if tried.attempts:
            record(connection, tried.delivery, tried.attempts, tried.response, tried.at, self._context.schedule)
        else:
            skip(connection, tried.delivery)
        self._taken.discard(tried.delivery.seq)

    def _adapt_width(self) -> None:
        if not self._answers:
            for _ in range(SILENT_WIDTH - len(self._workers)):
                self._start()

    async def _try(self, one: DueDelivery) -> _Tried:
        attempts: list[dict[str, Any]] = []
        ok = False
        for _ in range(one.copies):
            at = self._context.clock.now()
            try:
                result = await self._send(one)
            except HostNotAllowed:
                break
            answer = result.answer if result.ok else result.meaning or result.answer
            attempts.append(attempt_of(at, status=result.status, answer=answer, seconds=result.seconds))
            self._answers = result.status is not None
            ok = ok or result.ok
        response = EndpointResponse.SUCCESS if ok else EndpointResponse.FAILURE
        return _Tried(one, attempts, response, self._context.clock.now())

    async def _send(self, one: DueDelivery) -> SendResult:
        try:
            async with self._context.slots:
                sender = self._sender or await self._open()
                return await sender.send(one.body, headers=one.headers)
        except HostNotAllowed:
            raise
        except ConfigurationError as exc:
            return SendResult(None, "no connection", None, 0.0, str(exc))
        except Exception as exc:
            # A header that no library can write, say: the other deliveries go on.
            log.exception("webhook_crashed", extra={"url": self._address})
            return SendResult(None, "not sent", None, 0.0, f"{type(exc).__name__}: it could not be sent")

    async def _open(self) -> Sender:
        async with self._opening:
            if self._sender is None:
                sender = Sender(
                    self._url,
                    secret=self._context.secret,
                    timeout=self._context.schedule.timeout,
                    concurrency=SILENT_WIDTH,
                    clock=self._context.network_clock,
                    transport=self._context.transport(),
                )
                self._sender = await self._stack.enter_async_context(sender)
        return self._sender
