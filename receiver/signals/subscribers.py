"""Signals that never wait for their subscribers: each subscriber has a queue and a thread of its own."""

import asyncio
import inspect
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

import blinker

from receiver.runtime.log_lines import event_log

log = event_log(__name__)

Record = TypeVar("Record")
Subscriber = TypeVar("Subscriber", bound=Callable[..., Any])

MAX_WAITING = 10_000
"""The most records that wait for one subscriber: some megabytes, and some seconds of the fastest worker."""
_QUIET_SECONDS = 60.0
MAX_KINDS = 100
_END = object()


class Signal(blinker.Signal, Generic[Record]):
    """A blinker signal that passes one record. Its subscribers can neither delay nor disturb its sender.

    Making a record costs time, so ask `if signal.receivers` first, as with any blinker signal.
    """

    def __init__(self, doc: str) -> None:
        super().__init__(doc)
        self._outlets: tuple[_Outlet, ...] = ()

    @property
    def subscribers(self) -> Sequence[Callable[..., Any]]:
        """The connected subscribers and observers, in the order of connection."""
        return [outlet.subscriber for outlet in self._outlets]

    @property
    def waiting(self) -> int:
        """How many records wait for the slowest subscriber."""
        return max((outlet.waiting for outlet in self._outlets), default=0)

    def connect(self, receiver: Subscriber, sender: Any = blinker.ANY, weak: bool = False) -> Subscriber:
        """Call `receiver` with every record from now on, in the order of emission. It is a decorator too.

        `receiver` is a plain or an async function of one argument. It runs in a thread of its own, one record after
        the other, also if it is connected to several signals. It is referenced until `disconnect`, so closures and
        bound methods stay connected; blinker's own signals would forget them.
        """
        if weak or sender is not blinker.ANY:
            raise ValueError("a subscriber is held until it is disconnected, and gets the records of every sender")
        _require_one_argument(receiver)
        self._attach(receiver, _AsyncRelay if _is_async(receiver) else _Relay)
        return receiver

    def observe(self, observer: Callable[[Record], object]) -> None:
        """Call `observer` with every record inside `emit`. Nothing is queued, so nothing is dropped.

        This is for our own metrics: an observer that takes longer than about a microsecond delays handlers and
        answers.
        """
        self._attach(observer, _Inline)

    def disconnect(self, receiver: Callable[..., Any], sender: Any = blinker.ANY) -> None:
        """Emit no more records to this subscriber. Those in its queue still reach it."""
        with _lock:
            outlet = _outlets.get(receiver)
            if outlet is None or outlet not in self._outlets:
                return
            self._outlets = tuple(one for one in self._outlets if one is not outlet)
            super().disconnect(outlet)
            outlet.signals -= 1
            if not outlet.signals:
                del _outlets[receiver]
                outlet.close()

    def emit(self, record: Record) -> None:
        """Hand a record to every subscriber's queue. Never waits, never raises."""
        # blinker's own `send` takes seven times as long.
        if not self.is_muted:
            for outlet in self._outlets:
                outlet(record)

    def _attach(self, receiver: Callable[..., Any], kind: "type[_Outlet]") -> None:
        with _lock:
            outlet = _outlets.get(receiver)
            if outlet is None:
                outlet = _outlets[receiver] = kind(receiver)
            if outlet not in self._outlets:
                super().connect(outlet, weak=False)
                self._outlets = (*self._outlets, outlet)
                outlet.signals += 1


def flush(within: timedelta = timedelta(seconds=1)) -> bool:
    """Wait until all records so far are handled, but no longer than `within`; return whether they are."""
    deadline = time.monotonic() + within.total_seconds()
    marks = [(relay.name, relay.mark()) for relay in tuple(_working)]
    late = [name for name, mark in marks if not mark.wait(max(0.0, deadline - time.monotonic()))]
    if late:
        log.warning("subscribers_unfinished", extra={"subscribers": late})
    return not late


def dropped() -> Mapping[str, int]:
    """Return how many records were dropped per subscriber because it was too slow, since the process began."""
    return dict(_dropped)


class Quiet:
    """Allows one message of each kind per minute."""

    def __init__(self) -> None:
        self._kinds: dict[str, tuple[float, int]] = {}

    def __len__(self) -> int:
        """Return how many kinds it remembers."""
        return len(self._kinds)

    def count(self, kind: str, now: float) -> int:
        """Return how many messages of a kind to report now, those kept back included; 0 to keep this one back."""
        if kind not in self._kinds and len(self._kinds) >= MAX_KINDS:
            self._kinds.clear()
        again_at, kept_back = self._kinds.get(kind, (now, 0))
        if now < again_at:
            self._kinds[kind] = again_at, kept_back + 1
            return 0
        self._kinds[kind] = now + _QUIET_SECONDS, 0
        return kept_back + 1


class _Outlet:
    """The object that signals call for one subscriber."""

    def __init__(self, subscriber: Callable[..., Any]) -> None:
        self.name = _name_of(subscriber)
        self.signals = 0
        self.subscriber = subscriber
        self._failures = Quiet()

    def __call__(self, record: object) -> None:
        """Accept a record without waiting and without raising."""
        raise NotImplementedError

    @property
    def waiting(self) -> int:
        """How many records wait for the subscriber."""
        return 0

    def close(self) -> None:
        """Expect no more records."""

    def _log_failure(self, record: object, error: BaseException) -> None:
        count = self._failures.count(type(error).__qualname__, time.monotonic())
        if count:
            fields = {"subscriber": self.name, "record": type(record).__name__, "count": count}
            log.error("subscriber_failed", extra=fields, exc_info=error)


class _Inline(_Outlet):
    """Calls the subscriber where the record is emitted."""

    def __call__(self, record: object) -> None:
        try:
            self.subscriber(record)
        except Exception as error:
            self._log_failure(record, error)


class _Relay(_Outlet):
    """Queues records for a thread that calls the subscriber. If the queue is full, a record is dropped."""

    # The thread starts with the first record, not with the connection: a server may fork between the two, and a
    # forked process has no threads.

    def __init__(self, subscriber: Callable[..., Any]) -> None:
        super().__init__(subscriber)
        self._queue: SimpleQueue[object] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closing = False
        self._ended = threading.Event()
        self._unreported = 0
        self._quiet_until = 0.0

    def __call__(self, record: object) -> None:
        if self._queue.qsize() < MAX_WAITING:
            self._put(record)
        else:
            _dropped[self.name] += 1
            self._unreported += 1
            self._log_dropped()

    @property
    def waiting(self) -> int:
        return self._queue.qsize()

    def mark(self) -> threading.Event:
        """Return an event that is set when all records before it have been handled."""
        if self._closing:
            return self._ended
        mark = threading.Event()
        self._put(mark)
        return mark

    def close(self) -> None:
        if self._thread is not None:
            self._closing = True
            self._put(_END)

    def restart_after_fork(self) -> None:
        """Forget the thread and its queue, in a forked process that does not have them."""
        self._queue = SimpleQueue()
        self._thread = None

    def _put(self, item: object) -> None:
        self._queue.put(item)
        if self._thread is None:
            self._start()

    def _start(self) -> None:
        with _lock:
            if self._thread is not None:
                return
            thread = threading.Thread(target=self._work, name=f"subscriber {self.name}", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # this process cannot start threads now; the next record tries again
                self._log_failure(None, error)
            else:
                self._thread = thread
                _working.add(self)

    def _work(self) -> None:
        try:
            self._deliver_all()
        except BaseException as error:  # a subscriber ended the thread itself; the next record starts another
            self._log_failure(None, error)
            self._thread = None
        finally:
            _working.discard(self)
            self._ended.set()

    def _deliver_all(self) -> None:
        while (item := self._queue.get()) is not _END:
            if isinstance(item, threading.Event):
                self._pass_mark(item)
            else:
                self._deliver(item)

    def _deliver(self, record: object) -> None:
        self._log_dropped()
        try:
            result = self.subscriber(record)
            if inspect.iscoroutine(result):
                result.close()
                raise TypeError(f"{self.name} returned a coroutine; write it as `async def`")
        except BaseException as error:  # also SystemExit, which would end only this thread
            self._log_failure(record, error)

    def _pass_mark(self, mark: threading.Event) -> None:
        self._log_dropped(at_once=True)
        mark.set()

    def _log_dropped(self, *, at_once: bool = False) -> None:
        if self._unreported and (at_once or time.monotonic() >= self._quiet_until):
            self._quiet_until = time.monotonic() + _QUIET_SECONDS
            count, self._unreported = self._unreported, 0
            log.warning("subscriber_too_slow", extra={"subscriber": self.name, "dropped": count})


class _AsyncRelay(_Relay):
    """A relay whose thread runs an event loop, also between records, for the tasks that the subscriber starts."""

    def __init__(self, subscriber: Callable[..., Any]) -> None:
        super().__init__(subscriber)
        self._asleep = False

    def restart_after_fork(self) -> None:
        super().restart_after_fork()
        self._asleep = False

    def _put(self, item: object) -> None:
        super()._put(item)
        if self._asleep:
            self._asleep = False
            with suppress(RuntimeError):  # the loop is closed already
                self._loop.call_soon_threadsafe(self._news.set)

    def _deliver_all(self) -> None:
        asyncio.run(self._deliver_all_async())

    async def _deliver_all_async(self) -> None:
        self._loop, self._news = asyncio.get_running_loop(), asyncio.Event()
        while (item := await self._next()) is not _END:
            if isinstance(item, threading.Event):
                self._pass_mark(item)
            else:
                await self._deliver_async(item)

    async def _deliver_async(self, record: object) -> None:
        self._log_dropped()
        try:
            await self.subscriber(record)
            await asyncio.sleep(
                0
            )  # one turn of the loop; if the subscriber has cancelled its own task, that ends here
        except BaseException as error:
            self._log_failure(record, error)

    async def _next(self) -> object:
        while True:
            with suppress(Empty):
                return self._queue.get_nowait()
            self._news.clear()
            self._asleep = True
            if self._queue.empty():  # asked after setting `_asleep`: a record put before that woke no thread
                await self._news.wait()
            self._asleep = False


_lock = threading.RLock()
_outlets: dict[Callable[..., Any], _Outlet] = {}
_working: set[_Relay] = set()
_dropped: Counter[str] = Counter()


def _after_fork() -> None:
    global _lock
    _lock = threading.RLock()
    for relay in _working:
        relay.restart_after_fork()
    _working.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _is_async(function: object) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - an object may be called, and that may be async
    )


def _require_one_argument(subscriber: Callable[..., Any]) -> None:
    try:
        signature = inspect.signature(subscriber)
    except ValueError:  # some builtins have no signature
        return
    try:
        signature.bind(object())
    except TypeError:
        raise TypeError(f"{_name_of(subscriber)} must take one argument, the record") from None


def _name_of(subscriber: Callable[..., Any]) -> str:
    named = subscriber if hasattr(subscriber, "__qualname__") else type(subscriber)
    return f"{named.__module__}.{named.__qualname__}"
