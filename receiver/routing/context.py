"""The context of a handler: the facts about its attempt, and the tools of its worker."""

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Generator, MutableMapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from receiver.core.retries import MAX_PAUSE
from receiver.core.types import DeliveryKey, HandlerName, Headers, Trigger
from receiver.core.units import in_words
from receiver.errors import HandlerError, NoApiKey
from receiver.events import Event
from receiver.routing.schedules import Pause, read_pause

if TYPE_CHECKING:  # it takes 0.2 s and is needed by workers with an API key only
    from receiver.service.client import AsyncClient, Client

MAX_KEY_LENGTH = 200
"""The longest key for `once`, in characters."""

AskLater = Callable[[object, object, timedelta], None]
"""Takes the handler, the event and the delay of `BaseContext.later`."""

AskOnce = Callable[[HandlerName, str, datetime], Awaitable[bool]]
"""Asks the store whether a handler uses a key for the first time."""


@dataclass(frozen=True, slots=True)
class DeliveryInfo:
    """The delivery from which an event was read."""

    id: DeliveryKey
    """The public id: `webhookId` of the body, or else `sha256:` and the hash of the body. It is the same in every
    attempt, so it can serve as an idempotency key."""
    received_at: datetime
    """When the receiver got the delivery, in UTC."""
    headers: Headers
    """The headers of the request, with lower-case names; secrets in them are masked."""
    duplicates: int
    """How many more times the service has sent the same delivery until now."""
    size: int
    """The length of the body in bytes."""


class HandlerLog(logging.LoggerAdapter[logging.Logger]):
    """A logger whose lines name the handler and the delivery. A caller adds its own fields as `extra=`."""

    def process(self, msg: object, kwargs: MutableMapping[str, Any]) -> tuple[object, MutableMapping[str, Any]]:
        """Add our fields to the caller's. Before Python 3.13 the base class drops the caller's fields."""
        kwargs["extra"] = {**(kwargs.get("extra") or {}), **(self.extra or {})}
        return msg, kwargs


class Clients(Protocol):
    """Clients of the service's API, shared by all handlers of a worker."""

    @property
    def for_async(self) -> "AsyncClient":
        """The client for async handlers."""

    @property
    def for_plain(self) -> "Client":
        """The client for plain functions."""


@dataclass(frozen=True, slots=True)
class Services:
    """The tools of a worker that contexts use. Only code in its event loop can ask the store."""

    loop: asyncio.AbstractEventLoop
    now: Callable[[], datetime]
    ask_once: AskOnce | None = None
    clients: Clients | None = None


class Once:
    """Whether a key is used for the first time: `await` it in async code, test it as a bool in plain code.

    It asks the store when it is awaited or tested, and only once.
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
                # Without this error, code that forgets `await` would send the second e-mail too.
                raise RuntimeError("in async code ctx.once(...) has to be awaited: `if await ctx.once(...)`")
            self._answer = asyncio.run_coroutine_threadsafe(self._asked(), self._loop).result()
        return self._answer

    async def _answered(self) -> bool:
        if self._answer is None:
            if _running_loop() is self._loop:
                self._answer = await self._ask()
            else:  # a plain handler that runs an event loop
                asked = asyncio.run_coroutine_threadsafe(self._asked(), self._loop)
                self._answer = await asyncio.wrap_future(asked)
        return self._answer

    async def _asked(self) -> bool:
        return await self._ask()


def _nothing() -> None:
    """Do nothing: a context that a test makes has no time-out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseContext:
    """The common part of `Context` and `BatchContext`."""

    handler: HandlerName
    """The name of the handler."""
    now: datetime
    """When the attempt started, in UTC."""
    log: logging.LoggerAdapter[logging.Logger]
    """A logger whose lines name the handler and, for a single event, its delivery."""
    _services: Services | None = field(default=None, repr=False, compare=False)
    _beat: Callable[[], None] = field(default=_nothing, repr=False, compare=False)
    _later: AskLater | None = field(default=None, repr=False, compare=False)

    def once(self, key: str) -> Once:
        """Return whether this handler uses this key for the first time, over all attempts, events and workers.

        Write `if await ctx.once(f"mail {event.job_id}"): ...` in async handlers, and the same without `await` in
        plain functions. A forgotten `await` is a RuntimeError. The answer is True exactly once, after the store has
        kept the key: the action is never done twice, and not at all if the process dies before it. A key is a text
        of 1 to 200 characters.
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
        """Restart the handler's time-out, because it still makes progress. Do not `await` it."""
        self._beat()

    def later(self, handler: Callable[..., Any] | str, event: Event, *, after: Pause) -> None:
        """Run a handler of the router once more for this delivery, after a delay. Do not `await` it.

        `handler` is a function of the router or the name of its handler, best one registered with `router.later`;
        `event` is the event that this handler got, or one of its batch. `after` is a time such as `"10 minutes"`,
        `90` seconds or a timedelta, counted from the end of this attempt. The store keeps the new work item in the
        same transaction as the success of this attempt: a failed attempt makes none. It can be seen, retried and
        buried like any other work item. Raises HandlerError for a handler that the router does not have, or that is
        not for such an event.
        """
        pause = read_pause("ctx.later", "after=", after)
        if not timedelta(0) <= pause <= MAX_PAUSE:
            raise HandlerError(f"ctx.later: after= takes from 0s to {in_words(MAX_PAUSE)}")
        if self._later is None:
            raise RuntimeError("ctx.later needs a worker; this context has none")
        self._later(handler, event, pause)

    @property
    def client(self) -> "AsyncClient":
        """A client of the service's API for async handlers, with RECEIVER_BASE_URL and RECEIVER_API_KEY.

        Write `await ctx.client.crawl_status(event.job_id)`, or `await ctx.client.get("/v2/...")` for a path without
        a method. The key is sent to the service only. All handlers of the worker share the client: do not close it.
        Without a key this raises NoApiKey, which buries the work item at once; retry it when the key is set. Plain
        functions have `sync_client`; in them this raises RuntimeError.
        """
        clients = self._clients()
        if _running_loop() is None:
            raise RuntimeError("ctx.client is for async handlers; a plain function has ctx.sync_client")
        return clients.for_async

    @property
    def sync_client(self) -> "Client":
        """The client of the service's API for plain functions, like `client`. Several threads can use it at once.

        In async handlers, whose event loop it would block, this raises RuntimeError.
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
    """The context of a handler for single events: its second argument, or a parameter annotated with `Context`."""

    attempt: int
    """The number of this attempt at this work item, from 1."""
    trigger: Trigger
    """Why the attempt runs: `delivery`, `retry`, `replay`, `backfill`, `schedule` or `later`."""
    delivery: DeliveryInfo
    """The delivery from which the event was read."""
    job_id: str | None = None
    """The id of the job; for monitors, the id of the check."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchContext(BaseContext):
    """The context of a handler with `batch=`: its second argument, or a parameter annotated with `BatchContext`."""

    attempt: int
    """1 for a batch of new events; higher for a single event that is tried again after its batch failed."""
    deliveries: tuple[DeliveryInfo, ...]
    """The deliveries, in the order of the events."""
    triggers: tuple[Trigger, ...]
    """Why each event is handled now, in the order of the events."""


def _storable(key: str) -> str:
    """Return a key in a form that every store accepts. Control characters may come from the sender."""
    if key.isprintable():
        return key
    return "sha256:" + hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
