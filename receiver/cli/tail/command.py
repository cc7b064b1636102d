"""`receiver tail`: events as they arrive, until Ctrl-C."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import click

from receiver.cli.common.exit_codes import OK
from receiver.cli.common.filter_options import arrival_filter_options, json_option, store_option
from receiver.cli.common.job_ids import with_whole_job_id
from receiver.cli.common.output import flush, note, write_json
from receiver.cli.events.table import EVENTS
from receiver.cli.tail.states import MAX_FOLLOWED, Followed
from receiver.core.clock import Clock, SystemClock
from receiver.core.deliveries import DeliveryFilter, DeliverySummary
from receiver.core.ports.reports import Reports
from receiver.core.ports.store import Store
from receiver.core.text import escape_controls
from receiver.errors import AmbiguousJob, StoreError, StoreRefused, UnknownDelivery, UnknownJob
from receiver.settings import load_settings
from receiver.stores import open_store

SCAN_LIMIT = 500
"""Deliveries of one read."""
_PAUSE = timedelta(milliseconds=500)
"""Between two attempts to open a store that is absent."""

Show = Callable[[Sequence[DeliverySummary]], None]


@click.command()
@arrival_filter_options
@click.option(
    "--lines", type=click.IntRange(min=0), default=10, show_default=True, metavar="N", help="Begin with the last N."
)
@json_option
@store_option
def tail(wanted: DeliveryFilter, lines: int, as_json: bool, store: str | None) -> int:
    """Show events as they arrive, until Ctrl-C.

    Each event is shown once, with its state at that moment. With --state it is shown when it reaches that state;
    earlier events that are not done or dead are followed too, at most 5,000 at a time. A state that lasts less than
    a tenth of a second may be missed. If there is no store yet, the command waits for one.
    """
    follower = Follower(
        open_store(load_settings(store=store).store), SystemClock(), show_json if as_json else ShownToPeople()
    )
    with suppress(KeyboardInterrupt):
        asyncio.run(follower.run(wanted, lines=lines))
    return OK


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
    ) -> None:
        self._store = store
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
        """Show the last few deliveries and then each new one, without end.

        Raises StoreRefused if the store cannot be used at the start; after that it waits until it can be used.
        """
        followed: Followed | None = None
        while True:
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
            await self._clock.sleep(_PAUSE)

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
        while True:
            page = await reports.since(followed.in_any_state, after=through, limit=SCAN_LIMIT)
            self._remember(page.deliveries)
            self._show_some(followed.picked(page.deliveries))
            caught_up = page.through < through + SCAN_LIMIT
            self.through = through = page.through
            if caught_up:
                self._show_some(await followed.reached(reports))
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
            self._show_some(last)
        return through

    def _remember(self, deliveries: Sequence[DeliverySummary]) -> None:
        self._last = deliveries[-1] if deliveries else self._last

    def _show_some(self, deliveries: Sequence[DeliverySummary]) -> None:
        if deliveries:
            self._show(deliveries)

    def _wait(self, reason: str) -> None:
        """Say once why it waits."""
        if reason != self._reason:
            self._reason = reason
            self._note(f"waiting: {escape_controls(reason)}")


class ShownToPeople:
    """Writes deliveries as a listing does, the column titles once."""

    def __init__(self) -> None:
        self._first = True

    def __call__(self, deliveries: Sequence[DeliverySummary]) -> None:
        """Write some deliveries without a delay."""
        EVENTS.write_rows(deliveries, first=self._first)
        self._first = False
        flush()


def show_json(deliveries: Sequence[DeliverySummary]) -> None:
    """Write one JSON object per line without a delay."""
    for one in deliveries:
        write_json(EVENTS.fields(one))
    flush()


async def _has(reports: Reports, delivery: DeliverySummary) -> bool:
    """Tell whether this store has the delivery at the same seq, and so is the one that was followed before."""
    try:
        return (await reports.detail(delivery.key)).summary.seq == delivery.seq
    except UnknownDelivery:
        return False
