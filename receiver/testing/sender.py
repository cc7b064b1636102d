"""The service's side in a test: deliveries are posted in process, and tried again by its schedule."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import httpx
from starlette.types import ASGIApp

from receiver.service.schedule import SERVICE, EndpointResponse, SenderSchedule, State, after, pause_before
from receiver.service.sender import Sender, SendResult
from receiver.service.simulator.scenario import OutageKind
from receiver.testing.clock import SteppedClock
from receiver.testing.samples import Deliverable, as_body

_ADDRESS = "http://receiver.test"


@dataclass(frozen=True, slots=True)
class SentAttempt:
    """One attempt that has ended. Deliveries are numbered from 1, and so are the attempts of each.

    `result` is the receiver's answer, and `state` the state of the delivery after it.
    """

    delivery: int
    number: int
    started_at: datetime
    ended_at: datetime
    result: SendResult
    state: State


class Sent:
    """A delivery as the service sees it: its state in the schedule, and its attempts until now."""

    def __init__(self, number: int, body: bytes) -> None:
        self.number = number
        self.body = body
        self.state = State.ATTEMPT
        self.attempts: list[SentAttempt] = []

    def __repr__(self) -> str:
        return f"Sent({self.number}, {self.state}, attempts={len(self.attempts)})"


class ScheduledSender:
    """Posts deliveries, and retries failed ones by the service's schedule, on the clock of the test.

    `attempts` are all attempts that have ended, in the order of their ends.
    """

    def __init__(
        self, sender: Sender, connection: "_Connection", clock: SteppedClock, schedule: SenderSchedule
    ) -> None:
        self.attempts: list[SentAttempt] = []
        self._sender = sender
        self._connection = connection
        self._clock = clock
        self._schedule = schedule
        self._sent = 0
        self._under_way: set[asyncio.Task[Any]] = set()

    async def send(self, given: Deliverable) -> Sent:
        """Send a delivery, and return it when all its effects at the present time have happened.

        An attempt that waits for the clock has not ended then; `clock.advance` continues it, and makes retries.
        """
        [sent] = await self.send_all([given])
        return sent

    async def send_all(self, given: Iterable[Deliverable]) -> list[Sent]:
        """Send several deliveries at the same moment, as `send` does."""
        await self._clock.settle()
        sent = [Sent(number, as_body(one)) for number, one in enumerate(given, start=self._sent + 1)]
        self._sent += len(sent)
        for one in sent:
            self._begin(one)
        await self._clock.settle()
        return sent

    @contextmanager
    def outage(self, kind: OutageKind = OutageKind.REFUSE, *, status: int = 503) -> Iterator[None]:
        """Make attempts that start in the block fail before they reach the receiver.

        With `refuse` they get no connection, with `hang` no answer within the time-out, with `status` this status.
        """
        self._connection.down, self._connection.status = OutageKind(kind), status
        try:
            yield
        finally:
            self._connection.down = None

    def _begin(self, sent: Sent) -> None:
        task = asyncio.create_task(self._attempt(sent))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _attempt(self, sent: Sent) -> None:
        started_at = self._clock.now()
        result = await self._sender.send(sent.body)
        sent.state = after(sent.state, EndpointResponse.SUCCESS if result.ok else EndpointResponse.FAILURE)
        number = len(sent.attempts) + 1
        attempt = SentAttempt(sent.number, number, started_at, self._clock.now(), result, sent.state)
        sent.attempts.append(attempt)
        self.attempts.append(attempt)
        pause = pause_before(sent.state, self._schedule)
        if pause is not None:
            self._clock.call_later(pause, lambda: self._begin(sent))

    async def _quiet(self) -> None:
        await self._clock.all_ended(lambda: set(self._under_way))

    async def _stop(self) -> None:
        for task in self._under_way:
            task.cancel()
        if self._under_way:
            await asyncio.wait(self._under_way)


class _Connection(httpx.AsyncBaseTransport):
    """The connection to the app, which can be interrupted."""

    def __init__(self, app: ASGIApp, clock: SteppedClock) -> None:
        # A server answers 500 for what an app raises.
        self._app = httpx.ASGITransport(app, raise_app_exceptions=False)
        self._clock = clock
        self.down: OutageKind | None = None
        self.status = 503

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        match self.down:
            case None:
                return await self._app.handle_async_request(request)
            case OutageKind.STATUS:
                return httpx.Response(self.status, request=request)
            case OutageKind.HANG:
                await self._clock.sleep(timedelta(days=365))
        raise httpx.ConnectError("the receiver is out", request=request)


@asynccontextmanager
async def open_sender(
    app: ASGIApp,
    clock: SteppedClock,
    *,
    path: str = "/webhooks",
    secret: str | None = None,
    signature_header: str = "X-Firecrawl-Signature",
    token: tuple[str, str] | None = None,
    schedule: SenderSchedule = SERVICE,
) -> AsyncIterator[ScheduledSender]:
    """Open a sender to an ASGI app for the block. The lifespan of the app is not run here."""
    connection = _Connection(app, clock)
    posting = Sender(
        _ADDRESS + path,
        secret=secret,
        signature_header=signature_header,
        token=token,
        timeout=schedule.timeout,
        concurrency=1_000,
        clock=clock,
        transport=connection,
    )
    async with posting:
        sender = ScheduledSender(posting, connection, clock, schedule)
        with clock.moving_with(sender._quiet):
            try:
                yield sender
            finally:
                await sender._stop()
