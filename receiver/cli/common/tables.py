"""Listings: a table on a terminal, aligned lines in a pipe, one JSON object per line for programs."""

import sys
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import click

from receiver.cli.common.output import flush, write_bytes, write_line
from receiver.core.deliveries import DeliveryFilter
from receiver.core.jobs import JobFilter
from receiver.core.quarantine import QuarantineFilter
from receiver.core.text import escape_controls
from receiver.core.work import WorkFilter
from receiver.service.samples import encode

Row = TypeVar("Row")
Filter = TypeVar("Filter", DeliveryFilter, WorkFilter, JobFilter, QuarantineFilter)

SHOWN_TO_PEOPLE = 50
"""How many rows a listing for people has when no limit is given."""
MAX_ROWS = 200
_GAP = 2


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """One column: what it shows of a row, and the room it takes.

    `plain` is its width in aligned lines, where nothing is cut. In a table it has `width`, and up to `most` where
    there is room. Columns of rank 0 fit in 80 characters together and come first; the others follow in the order
    of rank where there is room for them. `keeps_end` cuts a long name at its beginning.
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
        """Return the cell as a table has it, on one line."""
        cell = escape_controls((self.in_table or self.cell)(row))
        return "…" + cell[1 - width :] if self.keeps_end and len(cell) > width else cell


@dataclass(frozen=True, slots=True)
class Listing(Generic[Row]):
    """How rows of one kind are listed. `fields` is a row's JSON, `style` its colour in a table."""

    noun: str
    columns: Sequence[Column[Row]]
    fields: Callable[[Row], dict[str, Any]]
    style: Callable[[Row], str]

    async def write_json(self, rows: AsyncIterator[Row]) -> None:
        """Write one JSON object per line, in flat memory."""
        async for row in rows:
            write_bytes(encode(self.fields(row)) + b"\n")

    async def write(self, read: Callable[[Filter], AsyncIterator[Row]], wanted: Filter) -> None:
        """Write the wanted rows for people, in flat memory, and say on standard error if there are more."""
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
            click.echo(f"the newest {limit} of more; --limit N shows N, --json shows all", err=True)
        elif not total:
            click.echo(f"no {self.noun} fits", err=True)

    def write_rows(self, rows: Sequence[Row], *, first: bool = True) -> None:
        """Write some rows for people: a table, or its continuation, on a terminal; else a line for each."""
        if sys.stdout.isatty():
            self._write_table(rows, first=first)
            return
        for row in rows:
            cells = (column.cell(row).ljust(column.plain) for column in self.columns)
            write_line(escape_controls(" ".join(cells).rstrip()))

    def _write_table(self, rows: Sequence[Row], *, first: bool) -> None:
        """Write a table, or its next rows. Widths do not depend on the rows, so that the parts fit together."""
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
    """Return the columns that a terminal of this width has room for, each with its own width."""
    widths: dict[str, int] = {}
    always = [column for column in columns if column.rank == 0]
    others = sorted((column for column in columns if column.rank), key=lambda column: column.rank)
    left = width + _GAP
    for column in always:
        widths[column.title] = column.width
        left -= column.width + _GAP
    left = _grown(always, widths, left)
    for column in others:
        if left >= column.width + _GAP:
            widths[column.title] = column.width
            left -= column.width + _GAP
    _grown(others, widths, left)
    return widths


def _grown(columns: Sequence[Column[Any]], widths: dict[str, int], left: int) -> int:
    """Widen columns as far as they go, the first first; return the room that is left."""
    for column in columns:
        if column.title in widths:
            more = max(0, min(left, column.most - column.width))
            widths[column.title] += more
            left -= more
    return left
