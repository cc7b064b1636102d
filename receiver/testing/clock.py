"""The clock of a test: it stands still until it is moved, together with everything that waits for it."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from receiver.core.clock import Timer, VirtualClock

_NO_TIME = timedelta(0)


class _Frozen(Protocol):
    """The object that `freeze_time` returns."""

    def __call__(self) -> datetime: ...

    def move_to(self, target_datetime: datetime) -> None: ...


class SteppedClock:
    """A clock that stands still until `advance` moves it, step by step, to each moment at which something is due.

    While freezegun has frozen the time (`freeze_time(..., real_asyncio=True)`), both have the same time: `advance`
    moves it. After `frozen.tick()` or `frozen.move_to()` the next `settle` does everything that became due, each at
    its own moment. If time is frozen or released in the middle of a wait, the rest of the wait stays the same.
    """

    def __init__(self, *, patience: timedelta = timedelta(seconds=30)) -> None:
        """`patience` is how long, in real time, `all_ended` waits for tasks that do not sleep on this clock."""
        self._patience_seconds = patience.total_seconds()
        self._passed = VirtualClock()
        self._offset = _NO_TIME
        self._frozen: _Frozen | None = None
        self._members: list[Callable[[], Awaitable[None]]] = []
        self._asleep: set[asyncio.Task[Any] | None] = set()
        self._lulled = asyncio.Event()

    def now(self) -> datetime:
        """Return the time of the clock."""
        frozen = _frozen_time()
        if frozen is None:
            return self._reached()
        moment = frozen().replace(tzinfo=UTC)
        if frozen is not self._frozen:
            self._offset += moment - self._reached()
        self._frozen = frozen
        return moment

    def steady(self) -> datetime:
        """Return a moment that only `advance` and `settle` move, never freezegun."""
        return self._passed.now()

    def call_later(self, duration: timedelta, callback: Callable[[], None]) -> Timer:
        """Call back when the clock has been moved this far."""
        return self._passed.call_later(self.now() - self._reached() + duration, callback)

    async def sleep(self, duration: timedelta) -> None:
        """Return once the clock has been moved this far."""
        if duration <= _NO_TIME:
            return await asyncio.sleep(0)
        woken = asyncio.Event()
        task = asyncio.current_task()

        def wake() -> None:
            self._asleep.discard(task)
            woken.set()

        timer = self.call_later(duration, wake)
        self._asleep.add(task)
        self._lulled.set()
        try:
            await woken.wait()
        finally:
            timer.cancel()
            self._asleep.discard(task)

    async def advance(self, duration: timedelta = _NO_TIME, **units: float) -> None:
        """Move the clock forward, as in `advance(minutes=6)`; `units` are those of a timedelta.

        Everything that becomes due happens at its own moment, with all its effects.
        """
        await self._walk_to(self.now() + duration + timedelta(**units))

    async def settle(self) -> None:
        """Return when everything has happened that can happen at the present time of the clock."""
        await self._walk_to(self.now())

    @contextmanager
    def moving_with(self, quiet: Callable[[], Awaitable[None]]) -> Iterator[None]:
        """Await `quiet` after every step within the block. It returns when nothing runs any more.

        The last one added is awaited first: senders are added after receivers.
        """
        self._members.append(quiet)
        try:
            yield
        finally:
            self._members.remove(quiet)

    async def all_ended(self, tasks: Callable[[], set[asyncio.Task[Any]]]) -> None:
        """Return when every unfinished task of `tasks` sleeps on this clock, or when none is left.

        Raises TimeoutError if nothing changes for too long, in real time.
        """
        while awake := tasks() - self._asleep:
            self._lulled.clear()
            lull = asyncio.create_task(self._lulled.wait())
            done, _ = await asyncio.wait(
                {*awake, lull}, timeout=self._patience_seconds, return_when=asyncio.FIRST_COMPLETED
            )
            lull.cancel()
            if not done:
                raise TimeoutError(
                    f"{len(awake)} handlers or deliveries still run after {self._patience_seconds:g} s of real "
                    "time: code in a test has to wait on the clock of the test, `await clock.sleep(...)`"
                )

    async def _walk_to(self, end: datetime) -> None:
        self._show(self._reached())  # freezegun may have jumped over what is due
        await self._all_quiet()
        while (due := self._passed.next_due()) is not None and due + self._offset <= end:
            self._show(due + self._offset)
            self._passed.advance(due - self._passed.now())
            await self._all_quiet()
        self._show(end)
        self._passed.advance(end - self._reached())

    async def _all_quiet(self) -> None:
        await turns()  # a task that a time-out cancels still seems to sleep
        for quiet in reversed(self._members):
            await quiet()

    def _reached(self) -> datetime:
        """Return the time up to which everything has happened."""
        return self._passed.now() + self._offset

    def _show(self, moment: datetime) -> None:
        frozen = _frozen_time()
        if frozen is not None and frozen is self._frozen:
            frozen.move_to(moment)


async def turns(count: int = 10) -> None:
    """Let the event loop run this many times, so that the effects of an event follow."""
    for _ in range(count):
        await asyncio.sleep(0)


def _frozen_time() -> _Frozen | None:
    """Return the last freezer of the time, if time is frozen; freezegun need not be installed."""
    freezegun = sys.modules.get("freezegun.api")
    factories = [] if freezegun is None else freezegun.freeze_factories
    return factories[-1] if factories else None
