"""Builders and stand-ins that the unit, store and flow tests share. None of them patches anything."""

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Self

from receiver.core.batches import Then, resolve
from receiver.core.clock import VirtualClock
from receiver.core.deliveries import Delivery, Quarantined, Receipt
from receiver.core.ports.log import DeliveryLog
from receiver.core.types import DeliveryKey, Headers, Tell
from receiver.signals import Signal
from receiver.stores.memory import MemoryStore
from receiver.stores.memory.controls import MemoryControls, MemoryMaintenance
from receiver.stores.memory.queue import MemoryQueue
from receiver.stores.memory.reports import MemoryReports
from receiver.stores.memory.store import MemoryLog, MemorySearch
from receiver.web.intake import Admission, Intake

NOON = datetime(2026, 8, 4, 12, tzinfo=UTC)
SECRET = "example-secret-1"
COSTLY = b'{"type":"crawl.page","data":[' + b"{}," * 200_000 + b"{}]}"
"""A body of 600 KB whose event would take more than 256 MiB."""
LONG = 120
"""Seconds after which a test that waits for something real has failed."""


def body_of(kind: str = "crawl.page", **values: Any) -> bytes:
    """Return the body of a delivery as the sender would write it."""
    return json.dumps({"success": True, "type": kind, **values}, separators=(",", ":")).encode()


def delivery(
    key: str = "k",
    *,
    body: bytes | None = None,
    kind: str = "crawl.page",
    job_id: str | None = "job",
    success: bool | None = True,
    received_at: datetime = NOON,
    headers: Headers = (("content-type", "application/json"),),
) -> Delivery:
    """Return a delivery whose envelope has been read."""
    return Delivery(
        key=DeliveryKey(key),
        type=kind,
        job_id=job_id,
        webhook_id=None if key.startswith("sha256:") else key,
        success=success,
        received_at=received_at,
        headers=headers,
        body=body_of(kind, id=job_id, webhookId=key) if body is None else body,
    )


def told(value: object) -> str:
    """Return a parameter as the name of its test has it: the same in every process."""
    shown = sorted(value, key=str) if isinstance(value, set | frozenset) else value
    return re.sub(r" at 0x[0-9a-f]+", "", str(shown))


async def turns(count: int = 100) -> None:
    """Let the event loop go round, so that everything that can happen now has happened."""
    for _ in range(count):
        await asyncio.sleep(0)


async def eventually(condition: Callable[[], object]) -> None:
    """Return once the condition holds; TimeoutError if it never does."""
    async with asyncio.timeout(LONG):
        while not condition():
            await turns(1)


async def soon(wait: Awaitable[Any]) -> Any:
    """Return what is awaited; TimeoutError instead of a hanging test."""
    async with asyncio.timeout(LONG):
        return await wait


async def pass_time(clock: VirtualClock, duration: timedelta) -> None:
    """Let time pass and everything happen that waited for it."""
    await turns()
    clock.advance(duration)
    await turns()


@contextmanager
def watching(*signals: Signal[Any]) -> Iterator[list[Any]]:
    """Collect what signals pass in a block, in one list and at once."""
    records: list[Any] = []

    def keep(record: object) -> None:
        records.append(record)

    for signal in signals:
        signal.observe(keep)
    try:
        yield records
    finally:
        for signal in signals:
            signal.disconnect(keep)


class Inline(Executor):
    """Runs each function at once, in the thread that submits it."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run it now."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as exc:
            future.set_exception(exc)
        return future


class Busy(Executor):
    """A pool whose threads are all taken: what is submitted waits until `run_all`."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Keep it for later."""
        future: Future[Any] = Future()
        self._waiting.append((future, lambda: fn(*args, **kwargs)))
        return future

    def run_all(self) -> None:
        """Run what has waited."""
        for future, call in self._waiting:
            future.set_result(call())
        self._waiting.clear()


def appended(log: DeliveryLog, delivery: Delivery) -> asyncio.Future[Receipt]:
    """Append a delivery, and return a future of its receipt."""
    future: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
    log.append(delivery, partial(resolve, future))
    return future


def tell(then: Then[Receipt], stored: asyncio.Future[Receipt]) -> None:
    """Call `then` with what became of a future."""
    then(asyncio.CancelledError() if stored.cancelled() else stored.exception() or stored.result())


def accepted(
    taker: Intake, headers: Sequence[tuple[bytes, bytes]], body: bytes, admission: Admission | None = None
) -> asyncio.Future[Receipt]:
    """Pass a request to intake, and return a future of what it tells."""
    future: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
    admission = admission or taker.admit(dict(headers), None)
    taker.accept(headers, dict(headers), body, admission, partial(resolve, future))
    return future


class OpenStore(
    MemoryStore, MemoryLog, MemoryQueue, MemoryControls, MemoryReports, MemoryMaintenance, MemorySearch
):
    """A store in memory that is each of its faces too: a test can call and replace their methods."""

    @asynccontextmanager
    async def log(self) -> AsyncIterator[Self]:
        """Return this store."""
        yield self

    @asynccontextmanager
    async def search(self) -> AsyncIterator[Self]:
        """Return this store, with an index of words."""
        async with super().search():
            yield self

    @asynccontextmanager
    async def maintenance(self, *, tell: Tell | None = None) -> AsyncIterator[Self]:
        """Return this store."""
        yield self

    queue = controls = reports = log


class SlowLog:
    """A DeliveryLog that commits to a MemoryStore at once and says so only when `release` is called."""

    def __init__(self) -> None:
        self.store = OpenStore()
        self.withheld: list[tuple[asyncio.Future[Any], Any]] = []

    def _withhold(self, committed: Any) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.withheld.append((future, committed))
        return future

    def append(self, delivery: Delivery, then: Then[Receipt]) -> None:
        """Commit."""
        self._withhold(self.store.state.append(delivery)).add_done_callback(partial(tell, then))

    def quarantine(self, request: Quarantined) -> asyncio.Future[None]:
        """Commit."""
        return self._withhold(self.store.quarantine(request).result())

    def probe(self, now: datetime, size: int = 0) -> asyncio.Future[None]:
        """Commit."""
        return self._withhold(self.store.probe(now, size).result())

    def release(self, error: BaseException | None = None) -> None:
        """Resolve every future, or let it fail."""
        for future, committed in self.withheld:
            if error is None:
                future.set_result(committed)
            elif isinstance(error, asyncio.CancelledError):
                future.cancel()
            else:
                future.set_exception(error)
                future.exception()  # whoever waited may have gone, as with a real log
        self.withheld.clear()


class BrokenLog:
    """A DeliveryLog that raises, or whose futures fail."""

    def __init__(self, error: Exception, *, at_once: bool = False) -> None:
        self._error = error
        self._at_once = at_once

    def _fail(self) -> asyncio.Future[Any]:
        if self._at_once:
            raise self._error
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        future.set_exception(self._error)
        return future

    def append(self, delivery: Delivery, then: Then[Receipt]) -> None:
        """Fail."""
        self._fail().add_done_callback(partial(tell, then))

    def quarantine(self, request: Quarantined) -> asyncio.Future[None]:
        """Fail."""
        return self._fail()

    def probe(self, now: datetime, size: int = 0) -> asyncio.Future[None]:
        """Fail."""
        return self._fail()


class Answer:
    """What an ASGI app sent: exactly one start and one body, or nothing."""

    def __init__(self, messages: Sequence[Mapping[str, Any]]) -> None:
        assert [message["type"] for message in messages] in (
            [],
            ["http.response.start", "http.response.body"],
        ), messages
        self.sent = bool(messages)
        self.status = int(messages[0]["status"]) if messages else 0
        self.headers = dict(messages[0]["headers"]) if messages else {}
        self.body = bytes(messages[1].get("body", b"")) if messages else b""

    @property
    def content(self) -> Any:
        """The JSON value of the body."""
        return json.loads(self.body)


async def ask(
    app: Callable[..., Awaitable[None]],
    method: str = "POST",
    path: str = "/webhooks",
    *,
    headers: Iterable[tuple[bytes, bytes]] = (),
    chunks: Sequence[bytes] = (b"",),
    ends: str = "complete",
    root_path: str = "",
    query: bytes = b"",
) -> Answer:
    """Put one request to an ASGI app by hand.

    `ends` says what comes after the chunks: the request is complete, the sender is gone, or nothing ever comes.
    """
    messages: list[dict[str, Any]] = [
        {"type": "http.request", "body": chunk, "more_body": ends != "complete" or number < len(chunks)}
        for number, chunk in enumerate(chunks, start=1)
    ]
    if ends == "disconnect":
        messages.append({"type": "http.disconnect"})
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if messages:
            return messages.pop(0)
        await asyncio.get_running_loop().create_future()
        raise AssertionError("nobody resolves this")

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query,
        "root_path": root_path,
        "headers": list(headers),
        "client": ("127.0.0.1", 50000),
        "server": ("127.0.0.1", 8000),
    }
    await app(scope, receive, send)
    return Answer(sent)


def event_of(record: logging.LogRecord) -> str:
    """Return the event word of a record; its message if it is not ours."""
    return str(vars(record).get("event", record.getMessage()))
