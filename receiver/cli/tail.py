"""`receiver tail`: events as they arrive, until Ctrl-C."""

import asyncio
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import click

from receiver.cli.common.exit_codes import OK
from receiver.cli.common.filters import WholeNumber, arrival_filter_options, store_option, with_whole_job_id
from receiver.cli.common.output import flush, note
from receiver.cli.common.stdout import StdoutClosed
from receiver.cli.common.tables import ListForm, RowWriter, form_options
from receiver.cli.events.list import EVENTS
from receiver.core.clock import Clock, SystemClock
from receiver.core.deliveries import DeliveryFilter, DeliverySummary
from receiver.core.ports.reports import Reports
from receiver.core.ports.store import Store
from receiver.core.text import escape_controls
from receiver.core.types import OPEN_DELIVERIES, DeliveryState
from receiver.core.views import EventRow, with_subjects
from receiver.errors import AmbiguousJob, StoreError, StoreRefused, UnknownDelivery, UnknownJob
from receiver.settings import load_reading_settings
from receiver.stores import open_store

MAX_FOLLOWED = 5_000
"""The newest deliveries that are followed at one time: reading all of them takes a tenth of a second."""
SCAN_LIMIT = 500
"""Deliveries of one read."""
_PAUSE = timedelta(milliseconds=500)
"""Between two attempts to open a store that is absent."""

Show = Callable[[Sequence[EventRow]], None]


class Followed:
    """Picks the deliveries in the wanted state, and follows the others until they are done or dead.

    Without a wanted state it picks every delivery and follows none. For NEW it follows none either, because no
    delivery returns to that state.
    """

    def __init__(self, wanted: DeliveryFilter, *, limit: int = MAX_FOLLOWED) -> None:
        self.in_any_state = replace(wanted, state=None)
        self._state = wanted.state
        self._follows = wanted.state not in (None, DeliveryState.NEW)
        self._limit = limit
        self._seqs: set[int] = set()

    async def begin(self, reports: Reports, *, through: int) -> None:
        """Start again: follow the unfinished deliveries up to this seq."""
        open_seqs = await reports.open_seqs(limit=self._limit) if self._follows else ()
        self._seqs = {seq for seq in open_seqs if seq <= through}

    def forget(self, shown: Iterable[DeliverySummary]) -> None:
        """Stop following these deliveries."""
        self._seqs.difference_update(one.seq for one in shown)

    def picked(self, deliveries: Sequence[DeliverySummary]) -> list[DeliverySummary]:
        """Return those that are in the wanted state, and follow those that may reach it."""
        if self._follows:
            open_ones = (one for one in deliveries if one.state in OPEN_DELIVERIES)
            self._seqs.update(one.seq for one in open_ones if one.state is not self._state)
            if len(self._seqs) > self._limit:
                self._seqs = set(sorted(self._seqs)[-self._limit :])
        return [one for one in deliveries if self._state in (None, one.state)]

    async def reached(self, reports: Reports) -> list[DeliverySummary]:
        """Return the followed deliveries that have reached the wanted state, the oldest first."""
        seqs, self._seqs = sorted(self._seqs), set()
        found: list[DeliverySummary] = []
        for begin in range(0, len(seqs), SCAN_LIMIT):
            found += self.picked(await reports.by_seqs(self.in_any_state, seqs[begin : begin + SCAN_LIMIT]))
        return found


@contextmanager
def ending_without_reader() -> Iterator[None]:
    """Cancel the running task within the block when the reader of standard output closes its pipe, as `head` does.

    A command that only waits would not notice. Only Linux reports it: a closed other end of a pipe is an error
    condition of the descriptor (poll(2), POLLERR), which an event loop passes to readers.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    if sys.platform != "linux" or task is None or not _is_pipe(sys.stdout):
        yield
        return
    descriptor, gone = sys.stdout.fileno(), False

    def end() -> None:
        nonlocal gone
        gone = True
        loop.remove_reader(descriptor)
        task.cancel()

    loop.add_reader(descriptor, end)
    try:
        yield
    except asyncio.CancelledError:
        if not gone:
            raise
        task.uncancel()
        raise StdoutClosed from None
    finally:
        loop.remove_reader(descriptor)


def _is_pipe(stream: Any) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError, AttributeError):  # closed, or replaced by a test
        return False


@click.command()
@arrival_filter_options
@click.option(
    "--lines", type=WholeNumber(min=0), default=10, show_default=True, metavar="N", help="Begin with the last N."
)
@click.option("--limit", "most", type=WholeNumber(min=1), metavar="N", help="End after N events.")
@form_options(lambda: EVENTS.columns)
@store_option
def tail(wanted: DeliveryFilter, lines: int, most: int | None, form: ListForm, store: str | None) -> int:
    """Show events as they arrive, until Ctrl-C.

    It begins with the last ten events; --lines 0 leaves them out. Each event is shown once, with its state at that
    time. With --state it is shown when it reaches that state; earlier events that are not done or dead are followed
    too, at most 5,000 at a time. A state that lasts less than a tenth of a second may be missed. If there is no
    store yet, the command waits for one. With --limit it ends after that many events, including the first ten.
    """
    follower = Follower(
        open_store(load_reading_settings(store=store).store), SystemClock(), shown(form), limit=most
    )
    with suppress(KeyboardInterrupt):
        asyncio.run(_follow(follower, wanted, lines))
    return OK


async def _follow(follower: "Follower", wanted: DeliveryFilter, lines: int) -> None:
    with ending_without_reader():
        await follower.run(wanted, lines=lines)


class Follower:
    """Follows a store, also if it is absent for a while. It remembers what it has shown by the seq."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        show: Show,
        *,
        note: Callable[[str], None] = note,
        max_followed: int = MAX_FOLLOWED,
        limit: int | None = None,
    ) -> None:
        self._store = store
        self._left = limit
        self._max_followed = max_followed
        self._clock = clock
        self._show = show
        self._note = note
        self._reason = ""
        self._absent = False
        self._last: DeliverySummary | None = None
        self.through: int | None = None
        """The seq up to which all deliveries were read; None before the first read."""

    async def run(self, wanted: DeliveryFilter, *, lines: int) -> None:
        """Show the last few deliveries and then each new one, without end or until `limit` were shown.

        Raises StoreRefused if the store cannot be used at the start; after that it waits until it can be used.
        """
        followed: Followed | None = None
        while not self._has_shown_all:
            try:
                if not self._store.exists():
                    self._absent = True
                    raise StoreError("there is no database yet; `receiver serve` creates it")
                async with self._store.reports() as reports:
                    if followed is None:
                        wanted = await self._with_whole_job_id(reports, wanted)
                        followed = Followed(wanted, limit=self._max_followed)
                    self.through = await self._start(reports, wanted, followed, lines)
                    await self._follow(reports, followed, self.through)
            except StoreError as exc:
                self._wait(str(exc))
            except StoreRefused as exc:
                if self.through is None:
                    raise
                self._wait(str(exc))
            if not self._has_shown_all:
                await self._clock.sleep(_PAUSE)

    @property
    def _has_shown_all(self) -> bool:
        return self._left == 0

    async def _with_whole_job_id(self, reports: Reports, wanted: DeliveryFilter) -> DeliveryFilter:
        """Return the filter with the whole id of its job, or as it is if no event of the job has arrived yet."""
        try:
            return await with_whole_job_id(reports, wanted)
        except AmbiguousJob:
            raise
        except UnknownJob as exc:
            self._note(f"{escape_controls(str(exc))} yet; waiting for events of a job with exactly this id")
            return wanted

    async def _follow(self, reports: Reports, followed: Followed, through: int) -> None:
        if self._reason:
            self._note("following")
            self._reason = ""
        while not self._has_shown_all:
            page = await reports.since(followed.in_any_state, after=through, limit=SCAN_LIMIT)
            self._remember(page.deliveries)
            await self._show_some(reports, followed.picked(page.deliveries))
            caught_up = page.through < through + SCAN_LIMIT
            self.through = through = page.through
            if caught_up:
                await self._show_some(reports, await followed.reached(reports))
                if not self._has_shown_all:
                    await reports.changed()

    async def _start(self, reports: Reports, wanted: DeliveryFilter, followed: Followed, lines: int) -> int:
        """Show the last few deliveries if this store is new to us; return the seq after which to follow."""
        absent, self._absent = self._absent, False
        if self.through is not None and self._last is not None and await _has(reports, self._last):
            return self.through
        newest = [] if absent else [one.seq async for one in reports.deliveries(DeliveryFilter(limit=1))]
        through = max(newest, default=0)
        await followed.begin(reports, through=through)
        if through:
            found = reports.deliveries(replace(wanted, limit=lines))
            last = [one async for one in found if one.seq <= through][::-1]
            followed.forget(last)
            self._remember(last)
            await self._show_some(reports, last)
        return through

    def _remember(self, deliveries: Sequence[DeliverySummary]) -> None:
        self._last = deliveries[-1] if deliveries else self._last

    async def _show_some(self, reports: Reports, deliveries: Sequence[DeliverySummary]) -> None:
        """Show these deliveries, at most as many as are left to show."""
        some = deliveries[: self._left]
        if some:
            self._show(await with_subjects(reports, some))
        if self._left is not None:
            self._left -= len(some)

    def _wait(self, reason: str) -> None:
        """Say once why it waits."""
        if reason != self._reason:
            self._reason = reason
            self._note(f"waiting: {escape_controls(reason)}")


def shown(form: ListForm) -> Show:
    """Return what writes events as `events list` does, the column titles once, without a delay."""
    writer = RowWriter(EVENTS, form, followed=True)

    def show(events: Sequence[EventRow]) -> None:
        writer.write(events)
        flush()

    return show


async def _has(reports: Reports, delivery: DeliverySummary) -> bool:
    """Return whether this store is the one that was followed before: it has the delivery at the same seq."""
    try:
        return (await reports.detail(delivery.key)).summary.seq == delivery.seq
    except UnknownDelivery:
        return False
