"""What a handler is told beside its event, and what its worker lends it."""

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Generator, MutableMapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from receiver.core.types import DeliveryKey, HandlerName, Headers, Trigger
from receiver.errors import NoApiKey

if TYPE_CHECKING:  # it takes 0.2 s and is needed by workers with an API key only
    from receiver.service.client import AsyncClient, Client

MAX_KEY_LENGTH = 200
"""In characters, of a key for `once`."""

AskOnce = Callable[[HandlerName, str, datetime], Awaitable[bool]]
"""Ask the store whether a handler asks for a key for the first time."""


@dataclass(frozen=True, slots=True)
class DeliveryInfo:
    """The delivery an event was read from. `headers` have their secrets masked."""

    key: DeliveryKey
    received_at: datetime
    headers: Headers
    duplicates: int
    size: int


class HandlerLog(logging.LoggerAdapter[logging.Logger]):
    """A logger whose lines name the handler and the delivery; fields of one's own come as `extra=`."""

    def process(self, msg: object, kwargs: MutableMapping[str, Any]) -> tuple[object, MutableMapping[str, Any]]:
        """Add our fields to the caller's; the base class would drop those, before Python 3.13."""
        kwargs["extra"] = {**(kwargs.get("extra") or {}), **(self.extra or {})}
        return msg, kwargs


class Clients(Protocol):
    """Clients of the service's API with our key, shared by all handlers of a worker."""

    @property
    def for_async(self) -> "AsyncClient":
        """The one for async handlers."""

    @property
    def for_plain(self) -> "Client":
        """The one for plain functions."""


@dataclass(frozen=True, slots=True)
class Services:
    """What a worker lends to the contexts of its handlers. Its event loop is where the store can be asked."""

    loop: asyncio.AbstractEventLoop
    now: Callable[[], datetime]
    ask_once: AskOnce | None = None
    clients: Clients | None = None


class Once:
    """Whether a key is asked for for the first time: `await` it in async code, take it as a bool in plain code.

    The store is asked when it is awaited or tested, and one of these asks only until it has an answer.
    """

    __slots__ = ("_answer", "_ask", "_loop")

    def __init__(self, ask: Callable[[], Awaitable[bool]], loop: asyncio.AbstractEventLoop) -> None:
        self._ask = ask
        self._loop = loop
        self._answer: bool | None = None

    def __await__(self) -> Generator[Any, None, bool]:
        return self._answered().__await__()

    def __bool__(self) -> bool:
        if self._answer is None:
            if _running_loop() is not None:
                # A coroutine would be true always, and send the second e-mail.
                raise RuntimeError("in async code ctx.once(...) has to be awaited: `if await ctx.once(...)`")
            self._answer = asyncio.run_coroutine_threadsafe(self._asked(), self._loop).result()
        return self._answer

    async def _answered(self) -> bool:
        if self._answer is None:
            if _running_loop() is self._loop:
                self._answer = await self._asked()
            else:  # a plain handler with an event loop of its own
                asked = asyncio.run_coroutine_threadsafe(self._asked(), self._loop)
                self._answer = await asyncio.wrap_future(asked)
        return self._answer

    async def _asked(self) -> bool:
        return await self._ask()


def _nothing() -> None:
    """Do nothing: a context made by hand has no time-out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseContext:
    """What `Context` and `BatchContext` have in common. `now` is when the attempt began.

    `log` is a logger whose lines name the handler and, with a single event, its delivery.
    """

    handler: HandlerName
    now: datetime
    log: logging.LoggerAdapter[logging.Logger]
    _services: Services | None = field(default=None, repr=False, compare=False)
    _beat: Callable[[], None] = field(default=_nothing, repr=False, compare=False)

    def once(self, key: str) -> Once:
        """Tell whether this handler asks for this key for the first time, over all attempts, events and workers.

        `if await ctx.once(f"mail {event.job_id}"): ...` in async handlers, the same without `await` in plain
        functions; forgetting the `await` is a RuntimeError. True is said exactly once and kept in the store
        before it is said: what is done then is never done twice, and not at all if the process dies in between.
        A key is a text of 1 to 200 characters.
        """
        if not isinstance(key, str):
            raise TypeError(f"ctx.once takes a text, not {type(key).__name__}")
        if not 1 <= len(key) <= MAX_KEY_LENGTH:
            raise ValueError(f"ctx.once takes a key of 1 to {MAX_KEY_LENGTH} characters, not of {len(key)}")
        services = self._services
        if services is None or services.ask_once is None:
            raise RuntimeError("ctx.once needs a worker with a store; this context has none")
        ask_once = services.ask_once
        return Once(lambda: ask_once(self.handler, _storable(key), services.now()), services.loop)

    def heartbeat(self) -> None:
        """Say that the handler still gets on: its time-out begins anew. A plain call in async handlers too."""
        self._beat()

    @property
    def client(self) -> "AsyncClient":
        """A client of the service's API for async handlers, with RECEIVER_BASE_URL and RECEIVER_API_KEY.

        `await ctx.client.crawl_status(event.job_id)`, or `await ctx.client.get("/v2/...")` for what has no method:
        the key goes to the service only. It is shared by all handlers of the worker, so leave it open. Without a
        key this raises NoApiKey, which buries the work item at once: it can be retried once the key is set. Plain
        functions have `sync_client`; asking for this one there is a RuntimeError.
        """
        clients = self._clients()
        if _running_loop() is None:
            raise RuntimeError("ctx.client is for async handlers; a plain function has ctx.sync_client")
        return clients.for_async

    @property
    def sync_client(self) -> "Client":
        """The client of the service's API for plain functions. It can be used by several threads at a time.

        Otherwise it is like `client`. In async handlers it would stop everything else, and is a RuntimeError.
        """
        clients = self._clients()
        if _running_loop() is not None:
            raise RuntimeError("ctx.sync_client is for plain functions; an async handler has ctx.client")
        return clients.for_plain

    def _clients(self) -> Clients:
        if self._services is None or self._services.clients is None:
            raise NoApiKey(
                "no RECEIVER_API_KEY is set, and the handler calls the service: set it and restart the worker"
            )
        return self._services.clients


@dataclass(frozen=True, slots=True, kw_only=True)
class Context(BaseContext):
    """What a handler of single events is told, as its second argument or by the annotation `Context`.

    `attempt` counts from 1, `trigger` says why it runs. `job` is the id of the job, for monitors of the check.
    `delivery.key` is the same in every attempt, so it serves as an idempotency key.
    """

    attempt: int
    trigger: Trigger
    delivery: DeliveryInfo
    job: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchContext(BaseContext):
    """What a handler with `batch=` is told, as its second argument or by the annotation `BatchContext`.

    `deliveries` and `triggers` are in the order of the events. `attempt` is 1 for a batch of new events and
    more for a single one that is tried again, since what failed in a batch is.
    """

    attempt: int
    deliveries: tuple[DeliveryInfo, ...]
    triggers: tuple[Trigger, ...]


def _storable(key: str) -> str:
    """Return a key in a form that every store takes; other characters may come from the sender."""
    if key.isprintable():
        return key
    return "sha256:" + hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
