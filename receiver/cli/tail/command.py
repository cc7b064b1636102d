"""`receiver tail`: deliveries as they arrive, until Ctrl-C."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import click

from receiver.cli.common.exit_codes import OK
from receiver.cli.common.filter_options import arrival_filter_options, json_option, store_option
from receiver.cli.common.output import flush, note, write_bytes
from receiver.cli.events.group import LISTING, summary_fields
from receiver.cli.tail.states import Coming
from receiver.core.clock import Clock, SystemClock
from receiver.core.deliveries import DeliveryFilter, DeliverySummary
from receiver.core.ports.reports import Reports
from receiver.core.ports.store import Store
from receiver.core.text import escape_controls
from receiver.errors import StoreError, StoreRefused, UnknownDelivery
from receiver.service.samples import encode
from receiver.settings import load_settings
from receiver.stores import open_store

SCAN_LIMIT = 500
"""Deliveries looked at in one read."""
_PAUSE = timedelta(milliseconds=500)
"""Between two looks for a store that is not there."""

Show = Callable[[Sequence[DeliverySummary]], None]


@click.command()
@arrival_filter_options
@click.option("--lines", type=click.IntRange(min=0), default=10, metavar="N", help="Begin with the last N (10).")
@json_option
@store_option
def tail(wanted: DeliveryFilter, lines: int, as_json: bool, store: str | None) -> int:
    """Follow deliveries as they arrive, from whatever process; Ctrl-C ends it.

    Each is shown once, with the state it had then. With --state it is shown when it has come to that state, for
    which it is followed until it is done or dead; so is what had arrived before, at most 5,000 at a time. A state
    that it passes in less than a tenth of a second may not be seen. Without a store it waits for one, and shows
    that from its beginning.
    """
    follower = Follower(
        open_store(load_settings(store=store).store), SystemClock(), show_json if as_json else ShownToPeople()
    )
    with suppress(KeyboardInterrupt):
        asyncio.run(follower.run(wanted, lines=lines))
    return OK


class Follower:
    """Follows a store that may come and go. Which deliveries it has shown it knows by their places."""

    def __init__(self, store: Store, clock: Clock, show: Show, *, tell: Callable[[str], None] = note) -> None:
        self._store = store
        self._clock = clock
        self._show = show
        self._tell = tell
        self._told = ""
        self._absent = False
        self._last: DeliverySummary | None = None
        self._through: int | None = None

    async def run(self, wanted: DeliveryFilter, *, lines: int) -> None:
        """Show the last few deliveries and then each that arrives, without end.

        Raises StoreRefused when the store cannot be used from the start; later that is waited out like the rest.
        """
        coming = Coming(wanted)
        while True:
            try:
                if not self._store.exists():
                    self._absent = True
                    raise StoreError("there is no database yet; `receiver serve` creates it")
                async with self._store.reports() as reports:
                    self._through = await self._start(reports, wanted, coming, lines)
                    await self._follow(reports, coming, self._through)
            except StoreError as exc:
                self._wait(str(exc))
            except StoreRefused as exc:
                if self._through is None:
                    raise
                self._wait(str(exc))
            await self._clock.sleep(_PAUSE)

    async def _follow(self, reports: Reports, coming: Coming, through: int) -> None:
        if self._told:
            self._tell("following")
            self._told = ""
        while True:
            arrived = await reports.since(coming.in_any_state, after=through, limit=SCAN_LIMIT)
            self._seen(arrived.deliveries)
            self._shown(coming.picked(arrived.deliveries))
            caught_up = arrived.through < through + SCAN_LIMIT
            self._through = through = arrived.through
            if caught_up:
                self._shown(await coming.come(reports))
                await reports.changed()

    async def _start(self, reports: Reports, wanted: DeliveryFilter, coming: Coming, lines: int) -> int:
        """Return the seq behind which to follow, after what there is to show before."""
        absent, self._absent = self._absent, False
        if self._through is not None and self._last is not None and await _has(reports, self._last):
            return self._through
        newest = [] if absent else [one.seq async for one in reports.deliveries(DeliveryFilter(limit=1))]
        through = max(newest, default=0)
        await coming.begin(reports, through=through)
        if through:
            found = reports.deliveries(replace(wanted, limit=lines))
            last = [one async for one in found if one.seq <= through][::-1]
            coming.forget(last)
            self._seen(last)
            self._shown(last)
        return through

    def _seen(self, deliveries: Sequence[DeliverySummary]) -> None:
        self._last = deliveries[-1] if deliveries else self._last

    def _shown(self, deliveries: Sequence[DeliverySummary]) -> None:
        if deliveries:
            self._show(deliveries)

    def _wait(self, reason: str) -> None:
        """Say once what is waited for."""
        if reason != self._told:
            self._told = reason
            self._tell(f"waiting: {escape_controls(reason)}")


class ShownToPeople:
    """Writes deliveries as a listing has them, the titles once."""

    def __init__(self) -> None:
        self._first = True

    def __call__(self, deliveries: Sequence[DeliverySummary]) -> None:
        """Write some, at once."""
        LISTING.write_rows(deliveries, first=self._first)
        self._first = False
        flush()


def show_json(deliveries: Sequence[DeliverySummary]) -> None:
    """Write one JSON object per line, at once."""
    for one in deliveries:
        write_bytes(encode(summary_fields(one)) + b"\n")
    flush()


async def _has(reports: Reports, delivery: DeliverySummary) -> bool:
    """Tell whether this is the store in which the delivery was seen, in the same place."""
    try:
        return (await reports.detail(delivery.key)).summary.seq == delivery.seq
    except UnknownDelivery:
        return False
