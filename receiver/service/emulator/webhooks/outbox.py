"""Sends the events of jobs and monitors: in order for each address, and by the schedule of the service."""

import asyncio
import sqlite3
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import httpx

from receiver.core.addresses import is_loopback, is_private
from receiver.core.clock import Clock, SystemClock
from receiver.service.emulator.activity import Activity
from receiver.service.emulator.contracts import WebhookTarget
from receiver.service.emulator.fetching.network import Resolve, SystemResolver
from receiver.service.emulator.ids import IdSource
from receiver.service.emulator.state.database import StateDatabase
from receiver.service.emulator.webhooks import table
from receiver.service.emulator.webhooks.envelope import build_body, wants
from receiver.service.emulator.webhooks.lane import DeliveryLane, LaneContext
from receiver.service.emulator.webhooks.public_transport import PublicTransport
from receiver.service.emulator.webhooks.table import DeliveryRecord, PreparedDelivery
from receiver.service.emulator.webhooks.treatments import NoTreatments, WebhookTreatments
from receiver.service.schedule import SERVICE, SenderSchedule, State
from receiver.signals.traces.switch import running_trace

MAX_ADDRESSES = 64
"""To how many addresses connections are kept open."""
_MAX_ON_THE_WAY = 32


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
        """`clock` is the emulator's; an endpoint's time to answer passes on `network_clock`, which is real.

        Unless they go `to_private` hosts too, deliveries to a host that `resolve` finds inside are skipped.
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
            database=database,
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

    async def put(
        self,
        target: WebhookTarget | None,
        event_type: str,
        job_id: str,
        *,
        success: bool = True,
        data: list[Any] | None = None,
        error: str | None = None,
    ) -> None:
        """Keep an event for delivery; without a target, or when its filter refuses the type, do nothing.

        When this returns, the event survives the end of the process, if the state is a file.
        """
        prepared = self.prepare(target, event_type, job_id, success=success, data=data, error=error)
        if prepared is not None:
            await self._database.run(lambda connection: self.keep(connection, prepared))
            self.wake(prepared)

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
