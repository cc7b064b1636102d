"""`receiver tail`: events as they arrive, until Ctrl-C."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import click

from receiver.cli.common.exit_codes import OK
from receiver.cli.common.filter_options import arrival_filter_options, store_option
from receiver.cli.common.job_ids import with_whole_job_id
from receiver.cli.common.numbers import WholeNumber
from receiver.cli.common.output import flush, note
from receiver.cli.common.stdout_reader import ending_without_reader
from receiver.cli.common.tables import ListForm, RowWriter, form_options
from receiver.cli.events.table import EVENTS
from receiver.cli.tail.states import MAX_FOLLOWED, Followed
from receiver.core.clock import Clock, SystemClock
from receiver.core.deliveries import DeliveryFilter, DeliverySummary
from receiver.core.ports.reports import Reports
from receiver.core.ports.store import Store
from receiver.core.text import escape_controls
from receiver.core.views import EventRow, with_subjects
from receiver.errors import AmbiguousJob, StoreError, StoreRefused, UnknownDelivery, UnknownJob
from receiver.settings import load_reading_settings
from receiver.stores import open_store

SCAN_LIMIT = 500
"""Deliveries of one read."""
_PAUSE = timedelta(milliseconds=500)
"""Between two attempts to open a store that is absent."""

Show = Callable[[Sequence[EventRow]], None]


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
    store yet, the command waits for one. With --limit it ends after so many events, with the first ten among them.
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
    """Tell whether this store has the delivery at the same seq, and so is the one that was followed before."""
    try:
        return (await reports.detail(delivery.key)).summary.seq == delivery.seq
    except UnknownDelivery:
        return False
