"""The emulator as an ASGI app, put together from its parts."""

import random
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta

import httpx
from starlette.types import ASGIApp, Receive, Scope, Send

from receiver.core.clock import Clock, SystemClock
from receiver.emulator import families
from receiver.emulator.account import account as credit_tables
from receiver.emulator.account import feedback as feedback_tables
from receiver.emulator.account import keys as idempotency_tables
from receiver.emulator.account.account import CreditLedger, EmptyQueue, RateLimits, pages_at_once
from receiver.emulator.account.keys import ApiKeys, IdempotencyKeys
from receiver.emulator.account.threats import ThreatGuard
from receiver.emulator.activity import Activity
from receiver.emulator.address import PublicAddress
from receiver.emulator.admin.faults import InjectedFaults
from receiver.emulator.admin.journal import Journal
from receiver.emulator.admin.operations import AdminOperations
from receiver.emulator.api.account import AccountOperations
from receiver.emulator.api.admin import PREFIX, AdminEndpoint
from receiver.emulator.api.calls import RegistrationOperations
from receiver.emulator.api.dispatch import CallGate, Dispatcher, RouteTable
from receiver.emulator.browser.media import PREFIX as MEDIA_PREFIX
from receiver.emulator.clock import EmulatorClock
from receiver.emulator.ids import open_ids
from receiver.emulator.options import EmulatorOptions
from receiver.emulator.parts import EmulatorBase, EmulatorParts, OpenParts
from receiver.emulator.state import database
from receiver.emulator.state.database import StateDatabase
from receiver.emulator.webhooks import table as webhook_tables
from receiver.emulator.webhooks.outbox import Outbox
from receiver.emulator.wire.bodies import RequestPolicy

SCHEMAS: tuple[str, ...] = (
    credit_tables.SCHEMA,
    feedback_tables.SCHEMA,
    idempotency_tables.SCHEMA,
    webhook_tables.SCHEMA,
    database.SCHEMA,
    *families.SCHEMAS,
)
"""The tables of all parts that this module puts together."""
PARTS: tuple[OpenParts, ...] = (families.open_families,)
"""The families of operations, beside the account."""


class Emulator:
    """The service as an ASGI app. It works within its `lifespan`, which a server or a test enters.

    Time passes on `clock`, `options.speed` times as fast, and the admin API can advance it. `transport` takes every
    request that leaves the emulator, pages and webhooks alike; without it they go over the network.
    """

    def __init__(
        self,
        options: EmulatorOptions | None = None,
        *,
        clock: Clock | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        parts: Sequence[OpenParts] = PARTS,
        schemas: Sequence[str] = SCHEMAS,
    ) -> None:
        self.options = options or EmulatorOptions()
        self.clock = EmulatorClock(clock or SystemClock(), self.options.speed)
        """The emulator's time."""
        self.activity = Activity()
        """What runs without waiting for the clock."""
        self.faults = InjectedFaults(random.Random(self.options.seed))  # noqa: S311 - chance, not secrets
        """What goes wrong on purpose."""
        self.journal = Journal()
        """The last calls."""
        self._transport = transport
        self._parts = tuple(parts)
        self._schemas = tuple(schemas)
        self._api: ASGIApp | None = None
        self._admin: ASGIApp | None = None
        self._sockets: list[ASGIApp] = []
        self._media: list[ASGIApp] = []
        self.address = PublicAddress()
        """Where callers reach it; each call tells."""

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator["Emulator"]:
        """Open the state and run jobs, monitors and webhooks for as long as the block lasts."""
        async with AsyncExitStack() as stack:
            base = await self._open_base(stack)
            parts = [await stack.enter_async_context(open_parts(base)) for open_parts in self._parts]
            self._put_together(base, parts)
            try:
                yield self
            finally:
                self._api = self._admin = None
                self._sockets = []
                self._media = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request or a WebSocket, or live as a server says."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "websocket":
            await self._socket(scope, receive, send)
        elif self._media and scope["path"].startswith(f"{MEDIA_PREFIX}/"):
            await self._media[0](scope, receive, send)
        else:
            app = self._admin if _is_admin(scope["path"]) else self._api
            if app is None:
                raise RuntimeError("the emulator works within its lifespan: enter it first")
            await app(scope, receive, send)

    async def settled(self) -> None:
        """Return when nothing runs that does not wait for the clock, or for a call."""
        await self.activity.over()

    async def advance(self, duration: timedelta) -> None:
        """Move the clock forward, and let everything happen that is due on the way."""
        await self.settled()
        await self.clock.advance(duration, self.settled)

    async def _open_base(self, stack: AsyncExitStack) -> EmulatorBase:
        options, clock = self.options, self.clock
        state = await stack.enter_async_context(StateDatabase(options.state, self._schemas))
        kept = database.KeptTime(clock)
        await state.run(kept.restore)
        state.before_commit = kept.keep

        async def keep_time() -> None:
            await state.run(kept.keep)

        clock.after_advance = keep_time
        stack.callback(setattr, clock, "after_advance", None)
        ids = await open_ids(state, clock, options.seed)
        client = await stack.enter_async_context(httpx.AsyncClient(transport=self._transport, trust_env=False))
        outbox = await stack.enter_async_context(
            Outbox(
                state,
                clock=clock,
                ids=ids,
                secret=options.webhook_secret,
                to_private=options.webhooks_to_private,
                activity=self.activity,
                transport=self._transport,
            )
        )
        outbox.treatments = self.faults
        return EmulatorBase(
            options=options,
            clock=clock,
            ids=ids,
            state=state,
            ledger=CreditLedger(state, clock, initial=options.credits),
            guard=ThreatGuard(enabled=options.threat_protection != "off", risk_url=options.risk_url, client=client),
            outbox=outbox,
            faults=self.faults,
            activity=self.activity,
            policy=RequestPolicy.of(options),
            address=self.address,
            transport=self._transport,
        )

    def _put_together(self, base: EmulatorBase, parts: Sequence[EmulatorParts]) -> None:
        options = self.options
        rates = RateLimits(self.clock, options.plan)
        account = AccountOperations(
            base.ledger,
            next((one.queues for one in parts if one.queues is not None), EmptyQueue()),
            self.clock,
            max_concurrency=pages_at_once(options.plan, options.max_concurrency),
        )
        keys = ApiKeys(options.keys, open_access=options.open_access)
        operations = [
            *account.operations(),
            *RegistrationOperations(keys, base.ledger).operations(),
            *(operation for one in parts for operation in one.operations),
        ]
        gate = CallGate(
            keys=keys,
            rates=rates,
            account=base.ledger,
            idempotency=IdempotencyKeys(base.state),
            faults=self.faults,
            journal=self.journal,
            clock=self.clock,
            ids=base.ids,
            address=self.address,
        )

        async def forget_rest() -> None:
            rates.forget_all()
            base.ledger.forget_all()
            await base.state.run(_empty_tables)

        admin = AdminOperations(
            clock=self.clock,
            speed=options.speed,
            journal=self.journal,
            faults=self.faults,
            ledger=base.ledger,
            outbox=base.outbox,
            operations=frozenset({"*", *(name for one in operations for name in (one.path, one.limit))}),
            resets=[*(one.reset for one in parts), forget_rest],
            settled=self.settled,
        )
        self._api = Dispatcher(RouteTable(operations), gate)
        self._admin = AdminEndpoint(admin, base.ids)
        self._sockets = [one.sockets for one in parts if one.sockets is not None]
        self._media = [one.media for one in parts if one.media is not None]

    async def _socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._sockets:
            await self._sockets[0](scope, receive, send)
            return
        await receive()
        await send({"type": "websocket.close", "code": 1008})

    async def _live(self, receive: Receive, send: Send) -> None:
        """Follow the lifespan protocol of ASGI: a server starts and ends the emulator."""
        await receive()
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(self.lifespan())
            except Exception as exc:
                await send({"type": "lifespan.startup.failed", "message": str(exc)})
                raise
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})


def _is_admin(path: str) -> bool:
    return path == PREFIX or path.startswith(f"{PREFIX}/")


def _empty_tables(connection: sqlite3.Connection) -> None:
    # Shadow tables are the inside of virtual ones, which look after them.
    names = connection.execute(
        "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type IN ('table', 'virtual')"
        " AND name NOT LIKE 'sqlite_%'"
    )
    for (name,) in names.fetchall():
        connection.execute(f'DELETE FROM "{name}"')  # noqa: S608 - a name of ours
