"""The outbox: it keeps the events of jobs and monitors, and sends them as webhooks by the schedule of the service.

Deliveries to one address are sent in their order, one at a time as long as it answers.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar
from urllib.parse import urlsplit

import httpcore
import httpx
from typing_extensions import override

from receiver.core.addresses import is_loopback, is_private
from receiver.core.clock import Clock, SystemClock, Timer
from receiver.emulator.activity import Activity
from receiver.emulator.contracts import WebhookTarget
from receiver.emulator.failures import ScrapeFailed
from receiver.emulator.fetching.network import CheckedNetwork, NetworkZone, Resolve, SystemResolver
from receiver.emulator.fetching.refusals import HostNotAllowed
from receiver.emulator.ids import IdSource
from receiver.emulator.json_text import to_json
from receiver.emulator.state.database import PatientState, StateDatabase
from receiver.emulator.webhooks import table
from receiver.emulator.webhooks.table import (
    DeliveryRecord,
    DueDelivery,
    PreparedDelivery,
    attempt_of,
    record,
    skip,
    take,
)
from receiver.errors import ConfigurationError
from receiver.runtime.log_lines import event_log
from receiver.service.schedule import SERVICE, EndpointResponse, SenderSchedule, State
from receiver.service.sender import Sender, SendResult
from receiver.signals.traces.switch import running_trace

log = event_log(__name__)

T = TypeVar("T")
Json = dict[str, Any]

SILENT_WIDTH = 8
"""How many deliveries are on their way at one time to an address that does not answer."""
MAX_ADDRESSES = 64
"""To how many addresses connections are kept open."""
_MAX_ON_THE_WAY = 32
_AFTER_CRASH = timedelta(minutes=1)
_PUBLIC = frozenset({NetworkZone.INTERNET})
_FAILURES = (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, OSError)


def wants(events: Sequence[str], event_type: str) -> bool:
    """Return whether the filter of a webhook lets an event pass; an empty one lets all pass.

    It may name the full type, its second part, or everything after its first part.
    """
    if not events:
        return True
    _, *parts = event_type.split(".")
    return not {event_type, ".".join(parts), *parts[:1]}.isdisjoint(events)


def build_body(
    event_type: str,
    job_id: str,
    delivery_id: str,
    *,
    success: bool,
    data: list[Any],
    error: str | None,
    metadata: Mapping[str, Any],
) -> bytes:
    """Return the bytes that are signed and sent, keys in the service's order. `data` may be JSON already."""
    envelope: Json = {"success": success, "type": event_type, "id": job_id, "webhookId": delivery_id, "data": data}
    if error is not None:
        envelope["error"] = error
    envelope["metadata"] = dict(metadata)
    return to_json(envelope)


@dataclass(frozen=True, slots=True)
class Treatment:
    """What happens to one delivery."""

    copies: int = 1
    """How often it arrives, with the same id each time; 0 loses it."""
    late: timedelta = timedelta(0)
    """How long it is held back on the emulator's clock. Different times shuffle deliveries."""


AS_USUAL = Treatment()


class WebhookTreatments(Protocol):
    """Decides what happens to each delivery on its way. The admin API can set one."""

    def choose(self, event_type: str) -> Treatment:
        """Return what happens to the next delivery of this type."""


class NoTreatments(WebhookTreatments):
    """Every delivery takes its usual way."""

    @override
    def choose(self, event_type: str) -> Treatment:
        return AS_USUAL


class _AnswerStream(httpx.AsyncByteStream):
    """The body of an answer, as it comes."""

    def __init__(self, response: httpcore.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._response.aiter_stream():
                yield piece
        except _FAILURES as exc:
            raise httpx.ReadError(str(exc)) from exc

    @override
    async def aclose(self) -> None:
        await self._response.aclose()


class PublicTransport(httpx.AsyncBaseTransport):
    """Sends requests to addresses in the given zones. It raises HostNotAllowed for a host that has none there.

    The addresses of a name are checked when the connection is made.
    """

    def __init__(self, resolve: Resolve, zones: frozenset[NetworkZone] = _PUBLIC) -> None:
        network = CheckedNetwork(resolve, zones)
        self._pool = httpcore.AsyncConnectionPool(ssl_context=httpx.create_ssl_context(), network_backend=network)

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        sent = httpcore.Request(
            method=request.method,
            url=httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        try:
            response = await self._pool.handle_async_request(sent)
        except HostNotAllowed:
            raise
        except (*_FAILURES, ScrapeFailed) as exc:  # the last says that the name is unknown
            raise httpx.ConnectError(str(exc), request=request) from exc
        return httpx.Response(
            response.status,
            headers=response.headers,
            stream=_AnswerStream(response),
            extensions=response.extensions,
        )

    @override
    async def aclose(self) -> None:
        await self._pool.aclose()


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneContext:
    """What all lanes of an outbox share."""

    state: PatientState
    clock: Clock
    network_clock: Clock
    """Real time, for the time-out of an attempt."""
    schedule: SenderSchedule
    activity: Activity
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
    attempts: list[Json]
    """As they are kept; a delivery may have several copies."""
    response: EndpointResponse
    at: datetime


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
        """Whether nothing is on its way and no retry is due later."""
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
                if not self._answers:
                    for _ in range(SILENT_WIDTH - len(self._workers)):
                        self._start()
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
            return await self._context.state.run(work)
        except Exception:
            if tried is not None:
                self._taken.discard(tried.delivery.seq)
            raise

    def _can_leave(self) -> bool:
        """Leave the rest to another worker, if the address answers again and there is one."""
        if not self._answers or len(self._workers) == 1:
            return False
        self._leave()
        return True

    def _leave(self) -> None:
        """Give up looking for deliveries: from here on, `wake` starts another worker."""
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

    async def _try(self, one: DueDelivery) -> _Tried:
        attempts: list[Json] = []
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
            # For example a header that no library can write: the other deliveries are not affected.
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


class Outbox:
    """Keeps and sends webhooks: a webhook delivery is kept before it is sent.

    Deliveries to one address start in the order in which they were kept, each after the answer to the one before.
    A failed one comes again later, and does not hold the others back. While an address does not answer at all,
    several are on their way to it at one time. `treatments` may be replaced at any time.
    """

    def __init__(
        self,
        database: StateDatabase,
        *,
        clock: Clock,
        ids: IdSource,
        secret: str | None = None,
        to_private: bool = True,
        schedule: SenderSchedule = SERVICE,
        activity: Activity | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        network_clock: Clock | None = None,
        resolve: Resolve | None = None,
    ) -> None:
        """`clock` is the emulator's; the time-out of an endpoint passes on `network_clock`, which is real.

        Without `to_private`, deliveries to a host that `resolve` finds inside are skipped.
        """
        self.treatments: WebhookTreatments = NoTreatments()
        self._database = database
        self._clock = clock
        self._ids = ids
        self._to_private = to_private
        self._schedule = schedule
        self._given_transport = transport
        self._resolve = resolve
        self._system: SystemResolver | None = None
        self._context = LaneContext(
            state=database.patient,
            clock=clock,
            network_clock=network_clock or SystemClock(),
            schedule=schedule,
            activity=activity or Activity(),
            slots=asyncio.Semaphore(_MAX_ON_THE_WAY),
            secret=secret,
            transport=self._transport,
        )
        self._lanes: dict[str, DeliveryLane] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        now = self._clock.now()
        for url in await self._database.run(lambda c: table.shorten_waits(c, now, self._schedule)):
            self._wake_lane(url)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for lane in self._lanes.values():
            await lane.close()
        await asyncio.gather(*self._closing)
        if self._system is not None:
            self._system.close()

    def prepare(
        self,
        target: WebhookTarget | None,
        event_type: str,
        job_id: str,
        *,
        success: bool = True,
        data: list[Any] | None = None,
        error: str | None = None,
    ) -> PreparedDelivery | None:
        """Return the delivery of an event, for `keep` in a transaction and `wake` after it.

        None if there is no target, or its filter refuses the type.
        """
        if target is None or not wants(target.events, event_type):
            return None
        treatment = self.treatments.choose(event_type)
        now = self._clock.now()
        delivery_id = self._ids.new_delivery()
        state: str = State.ATTEMPT
        if treatment.copies < 1:
            state = table.LOST
        elif not self._to_private and _is_inside(target.url):
            state = table.SKIPPED
        sent = state == State.ATTEMPT
        body = build_body(
            event_type, job_id, delivery_id, success=success, data=data or [], error=error, metadata=target.metadata
        )
        return PreparedDelivery(
            id=delivery_id,
            url=target.url,
            headers={**running_trace(), **target.headers},
            type=event_type,
            job_id=job_id,
            body=body if sent else None,
            copies=treatment.copies,
            state=state,
            created_at=now,
            due_at=now + treatment.late if sent else None,
        )

    def keep(self, connection: sqlite3.Connection, *prepared: PreparedDelivery | None) -> None:
        """Keep deliveries within a transaction of the state database, in this order."""
        for one in prepared:
            if one is not None:
                table.insert(connection, one)

    def wake(self, *prepared: PreparedDelivery | None) -> None:
        """Send what was kept, now that its transaction is committed."""
        for url in {one.url for one in prepared if one is not None and one.due_at is not None}:
            self._wake_lane(url)

    async def deliveries(
        self, *, job_id: str | None = None, before: int | None = None, limit: int = 100
    ) -> list[DeliveryRecord]:
        """Return deliveries with their attempts, newest first; with `before`, those with a lower `seq`."""
        return await self._database.run(lambda c: table.listing(c, job_id=job_id, before=before, limit=limit))

    async def counts(self) -> dict[str, int]:
        """Return how many deliveries are in each state."""
        return await self._database.run(table.counts)

    def _transport(self) -> httpx.AsyncBaseTransport | None:
        """Return what takes the requests of one lane. A name may stand for an inner address, at any time."""
        if self._given_transport is not None or self._to_private:
            return self._given_transport
        if self._resolve is None:
            self._resolve = self._system = SystemResolver()
        return PublicTransport(self._resolve)

    def _wake_lane(self, url: str) -> None:
        lane = self._lanes.get(url)
        if lane is None:
            self._make_room()
            lane = self._lanes[url] = DeliveryLane(url, self._context)
        lane.wake()

    def _make_room(self) -> None:
        idle = [url for url, lane in self._lanes.items() if lane.idle]
        for url in idle[: max(0, len(self._lanes) - MAX_ADDRESSES + 1)]:
            task = asyncio.create_task(self._lanes.pop(url).close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


def _is_inside(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return is_private(host) or is_loopback(host)
