"""Listings: a table on a terminal, aligned lines in a pipe, one JSON object per line for programs."""

import functools
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import click
from click.shell_completion import CompletionItem

from receiver.cli.common.columns import Column, Row, wrapped
from receiver.cli.common.filter_options import json_option, text
from receiver.cli.common.layout import GAP
from receiver.cli.common.names import completed
from receiver.cli.common.output import flush, note, terminal_width, write_json
from receiver.cli.common.terminal_tables import TerminalTable, write_plain
from receiver.core.deliveries import DeliveryFilter
from receiver.core.jobs import JobFilter
from receiver.core.quarantine import QuarantineFilter
from receiver.core.text import did_you_mean, escape_controls, resembling
from receiver.core.work import WorkFilter

Filter = TypeVar("Filter", DeliveryFilter, WorkFilter, JobFilter, QuarantineFilter)
Command = Callable[..., Any]
Columns = Callable[[], Sequence[Column[Any]]]

SHOWN_TO_PEOPLE = 50
"""How many rows a listing on a terminal has when no limit is given. The help of `--limit` says so."""
MAX_ROWS = 200
"""Rows that are written together."""


@dataclass(frozen=True, slots=True)
class ListForm:
    """How a listing is written: as JSON, with whole cells (`wide`), or with these columns only."""

    as_json: bool = False
    wide: bool = False
    columns: tuple[str, ...] = ()

    def most(self, limit: int | None) -> int | None:
        """Return how many rows to show at most, None for all: a terminal shows some, if no limit is given."""
        return limit or (None if self.as_json or not sys.stdout.isatty() else SHOWN_TO_PEOPLE)


def form_options(columns: Columns) -> Callable[[Command], Command]:
    """Add `--json`, `--wide` and `--columns`, which every listing has, as one argument `form`.

    The help names the first of these columns, and a shell completes their titles.
    """
    return functools.partial(_with_form, columns)


class _ColumnsOption(click.Option):
    """Knows the columns of its listing, which are made after the command: so its help is made when it is shown."""

    def __init__(self, *args: Any, columns: Columns, **kwargs: Any) -> None:
        super().__init__(*args, shell_complete=self._complete, **kwargs)
        self._columns = columns

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        self.help = f"Only these columns, such as {','.join(column.title for column in self._columns()[:2])}."
        return super().get_help_record(ctx)

    def _complete(self, _: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
        before, comma, begun = incomplete.rpartition(",")
        return completed([column.title for column in self._columns()], begun, before + comma)


def _with_form(of_listing: Columns, command: Command) -> Command:
    @functools.wraps(command)
    def formed(*args: Any, as_json: bool, wide: bool, columns: str | None, **kwargs: Any) -> Any:
        if as_json and (wide or columns):
            raise click.UsageError("--json has all fields: leave out --wide and --columns")
        names = tuple(name.strip() for name in (columns or "").split(",") if name.strip())
        return command(*args, form=ListForm(as_json, wide, names), **kwargs)

    decorated: Command = formed
    for option in (
        click.option(
            "--columns",
            cls=_ColumnsOption,
            columns=of_listing,
            type=text,
            metavar="NAMES",
            help="Only these columns.",
        ),
        click.option("--wide", is_flag=True, help="All columns in full, also if they are wider than the terminal."),
        json_option,
    ):
        decorated = option(decorated)
    return decorated


def only_newest(limit: int) -> str:
    """Return the remark for people about a list that was cut."""
    return f"only the newest {limit} are shown; --limit N shows N, and a pipe gets all"


@dataclass(frozen=True, slots=True)
class Listing(Generic[Row]):
    """How to list rows of one kind. `fields` is a row's JSON, `style` its colour in a table."""

    noun: str
    columns: Sequence[Column[Row]]
    fields: Callable[[Row], dict[str, Any]]
    style: Callable[[Row], str]

    async def write(
        self,
        read: Callable[[Filter], AsyncIterator[Row]],
        wanted: Filter,
        form: ListForm,
        hint: Callable[[Filter], Awaitable[str]] | None = None,
    ) -> int:
        """Write the wanted rows in flat memory, on a terminal only the newest; return how many there were.

        If there is none, `hint` may say more.
        """
        writer = RowWriter(self, form)
        most = form.most(wanted.limit)
        if wanted.limit is None and most is not None:
            wanted = replace(wanted, limit=most + 1)
        rows: list[Row] = []
        total = 0
        async for row in read(wanted):
            total += 1
            if most is None or total <= most:
                rows.append(row)
            if len(rows) == MAX_ROWS:
                writer.write(rows)
                rows = []
        writer.write(rows)
        writer.end()
        if most is not None and total > most:
            note(only_newest(most))
        elif not total and not form.as_json:
            note(f"no {self.noun} matched{await hint(wanted) if hint else ''}")
        return total

    def chosen(self, names: Sequence[str]) -> Sequence[Column[Row]]:
        """Return the columns with these titles in this order, all of them if there are no names.

        Raises UsageError for an unknown name, with similar ones.
        """
        if not names:
            return self.columns
        known = {one.title: one for one in self.columns}
        for name in names:
            if name not in known:
                hint = did_you_mean(resembling(name, known))
                raise click.UsageError(
                    f"unknown column {escape_controls(name)!r}{hint or '.'} The columns are {', '.join(known)}"
                )
        return [replace(known[name], rank=0) for name in dict.fromkeys(names)]


class RowWriter(Generic[Row]):
    """Writes the rows of one listing, some at a time, so that all of them line up.

    With `followed` more rows come later, and the widths leave room for them.
    """

    def __init__(self, listing: Listing[Row], form: ListForm, *, followed: bool = False) -> None:
        self._listing = listing
        self._form = form
        self._followed = followed
        self._columns = listing.chosen(form.columns)
        self._table: TerminalTable[Row] | None = None
        self._first = True

    def write(self, rows: Sequence[Row]) -> None:
        """Write some rows, the first ones with a header above them."""
        if not rows:
            return
        if self._form.as_json:
            for row in rows:
                write_json(self._listing.fields(row))
        elif sys.stdout.isatty():
            self._write_table(rows)
        else:
            write_plain(self._columns, rows, header=self._first)
        self._first = False

    def end(self) -> None:
        """Write what is in the buffer, and tell which columns had no room."""
        flush()
        if self._table is not None and self._table.left_out:
            remark = f"columns without room: {', '.join(self._table.left_out)}; --wide shows all, --columns chooses"
            note("\n".join(wrapped("", remark, terminal_width(sys.stderr), below=" " * GAP)))

    def _write_table(self, rows: Sequence[Row]) -> None:
        if self._table is None:
            more_to_come = self._followed or len(rows) == MAX_ROWS
            self._table = TerminalTable(
                self._columns, self._listing.style, rows, wide=self._form.wide, more_to_come=more_to_come
            )
        self._table.write(rows)
