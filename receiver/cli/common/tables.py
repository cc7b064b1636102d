"""Listings: a table on a terminal, aligned lines in a pipe, one JSON object per line for programs."""

import sys
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Generic, TypeVar

from receiver.cli.common.output import clock, flush, note, write_json, write_line
from receiver.core.clock import iso
from receiver.core.deliveries import DeliveryFilter
from receiver.core.jobs import JobFilter
from receiver.core.quarantine import QuarantineFilter
from receiver.core.text import escape_controls
from receiver.core.work import WorkFilter

Row = TypeVar("Row")
Filter = TypeVar("Filter", DeliveryFilter, WorkFilter, JobFilter, QuarantineFilter)

SHOWN_TO_PEOPLE = 50
"""How many rows a listing for people has when no limit is given."""
MAX_ROWS = 200
_GAP = 2


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """One column: the cell of a row, and its widths.

    `plain` is its width in aligned lines, which cut nothing. A table gives it `width`, and up to `most` if there is
    room. The columns of rank 0 fit in 80 characters together. The others are shown only if there is room, in the
    order of their ranks. `keeps_end` cuts a long name at its beginning.
    """

    title: str
    cell: Callable[[Row], str]
    plain: int
    width: int
    most: int = 0
    rank: int = 0
    in_table: Callable[[Row], str] | None = None
    keeps_end: bool = False
    right: bool = False

    def fitted(self, row: Row, width: int) -> str:
        """Return the cell for a table, on one line."""
        cell = escape_controls((self.in_table or self.cell)(row))
        return "…" + cell[1 - width :] if self.keeps_end and len(cell) > width else cell


def moment_column(title: str, moment: Callable[[Row], datetime | None], rank: int = 0) -> Column[Row]:
    """Return a column of moments in UTC: in full in a pipe, without the year in a table."""

    def shown(row: Row, write: Callable[[datetime], str]) -> str:
        when = moment(row)
        return "-" if when is None else write(when)

    return Column(
        f"{title} (UTC)",
        lambda row: shown(row, lambda when: iso(when, "seconds")),
        20,
        14,
        rank=rank,
        in_table=lambda row: shown(row, clock),
    )


def only_newest(limit: int) -> str:
    """Return the remark for people about a list that was cut."""
    return f"only the newest {limit} are shown; --limit N shows N, --json shows all"


@dataclass(frozen=True, slots=True)
class Listing(Generic[Row]):
    """How to list rows of one kind. `fields` is a row's JSON, `style` its colour in a table."""

    noun: str
    columns: Sequence[Column[Row]]
    fields: Callable[[Row], dict[str, Any]]
    style: Callable[[Row], str]

    async def write(
        self, read: Callable[[Filter], AsyncIterator[Row]], wanted: Filter, *, as_json: bool = False
    ) -> None:
        """Write the wanted rows in flat memory: one JSON object per line, or for people."""
        if not as_json:
            await self._write_for_people(read, wanted)
            return
        async for row in read(wanted):
            write_json(self.fields(row))

    async def _write_for_people(self, read: Callable[[Filter], AsyncIterator[Row]], wanted: Filter) -> None:
        """Write the newest rows, and say on standard error if there are more."""
        limit = wanted.limit or SHOWN_TO_PEOPLE
        if wanted.limit is None:
            wanted = replace(wanted, limit=limit + 1)
        rows: list[Row] = []
        total = 0
        async for row in read(wanted):
            total += 1
            if total <= limit:
                rows.append(row)
            if len(rows) == MAX_ROWS:
                self.write_rows(rows, first=total == MAX_ROWS)
                rows = []
        if rows:
            self.write_rows(rows, first=total <= MAX_ROWS)
        flush()
        if total > limit:
            note(only_newest(limit))
        elif not total:
            note(f"no {self.noun} matched")

    def write_rows(self, rows: Sequence[Row], *, first: bool = True) -> None:
        """Write some rows for people: a table on a terminal, or its next rows; elsewhere a line for each."""
        if sys.stdout.isatty():
            self._write_table(rows, first=first)
            return
        for row in rows:
            cells = (column.cell(row).ljust(column.plain) for column in self.columns)
            write_line(escape_controls(" ".join(cells).rstrip()))

    def _write_table(self, rows: Sequence[Row], *, first: bool) -> None:
        """Write a table, or its next rows. Widths do not depend on the rows, so that all parts line up."""
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        console = Console()
        widths = _widths(self.columns, console.width)
        columns = [column for column in self.columns if column.title in widths]
        table = Table(box=None, show_header=first, pad_edge=False, header_style="bold")
        for column in columns:
            width = widths[column.title]
            table.add_column(column.title, width=width, no_wrap=True, justify="right" if column.right else "left")
        for row in rows:
            style = self.style(row)
            table.add_row(*(Text(one.fitted(row, widths[one.title]), style=style) for one in columns))
        console.print(table)


def _widths(columns: Sequence[Column[Any]], width: int) -> dict[str, int]:
    """Return the width of each column that a terminal of this width has room for."""
    widths: dict[str, int] = {}
    required = [column for column in columns if column.rank == 0]
    optional = sorted((column for column in columns if column.rank), key=lambda column: column.rank)
    left = width + _GAP
    for column in required:
        widths[column.title] = column.width
        left -= column.width + _GAP
    left = _widened(required, widths, left)
    for column in optional:
        if left >= column.width + _GAP:
            widths[column.title] = column.width
            left -= column.width + _GAP
    _widened(optional, widths, left)
    return widths


def _widened(columns: Sequence[Column[Any]], widths: dict[str, int], left: int) -> int:
    """Widen the columns in their order, each up to its `most`; return the room that is left."""
    for column in columns:
        if column.title in widths:
            more = max(0, min(left, column.most - column.width))
            widths[column.title] += more
            left -= more
    return left
