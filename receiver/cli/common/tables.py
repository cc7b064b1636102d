"""Listings: a table on a terminal, aligned lines in a pipe, one JSON object a line for programs."""

import functools
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Generic, TypeVar

import click
from click.shell_completion import CompletionItem

from receiver.cli.common.filters import Command, completed, json_option, text, together
from receiver.cli.common.output import (
    encoded,
    flush,
    note,
    short_moment,
    terminal_width,
    write_bytes,
    write_json,
    write_line,
)
from receiver.core.clock import local_time
from receiver.core.deliveries import DeliveryFilter, QuarantineFilter
from receiver.core.jobs import JobFilter
from receiver.core.text import did_you_mean, escape_controls, resembling, short_job_id
from receiver.core.work import WorkFilter

Row = TypeVar("Row")

NOTHING = "-"
"""The cell of a value that is absent."""


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """One column. Its title is one word, so that `--columns` can name it.

    `plain` is its width in the lines of a pipe, which cut nothing. A table has all columns of rank 0, at least
    `width` wide or as wide as their cells. If there is room they get up to `most`, then come the others in the
    order of their ranks, and what is left lets the cells be as long as they are. What `below` returns is written
    below its row if the column has no room. `head` is the share of a cut cell that is its beginning; the rest is
    its end.
    """

    title: str
    cell: Callable[[Row], str]
    plain: int
    width: int
    most: int = 0
    rank: int = 0
    in_table: Callable[[Row], str] | None = None
    below: Callable[[Row], str | None] | None = None
    head: float = 1.0
    right: bool = False

    def in_full(self, row: Row) -> str:
        """Return the cell on one line, uncut."""
        return escape_controls(self.cell(row))

    def for_table(self, row: Row) -> str:
        """Return the cell on one line, as short as a table has it."""
        return escape_controls((self.in_table or self.cell)(row))

    def fitted(self, cell: str, width: int) -> str:
        """Return a cell with exactly this width in a terminal, cut or filled up."""
        missing = width - cells(cell)
        if missing < 0:
            return cut(cell, width, self.head)
        return " " * missing + cell if self.right else cell + " " * missing


def moment_column(title: str, moment: Callable[[Row], datetime | None], rank: int = 0) -> Column[Row]:
    """Return a column of moments in local time, which `--since` takes: in a table without the year."""

    def shown(row: Row, write: Callable[[datetime], str]) -> str:
        when = moment(row)
        return NOTHING if when is None else write(when)

    return Column(
        title, lambda row: shown(row, local_time), 25, 14, rank=rank, in_table=lambda row: shown(row, short_moment)
    )


def job_column(job_id: Callable[[Row], str | None], rank: int = 0) -> Column[Row]:
    """Return the column of job ids: whole in a pipe, and as long in a table as `--job` needs."""
    return Column(
        "job_id",
        lambda row: job_id(row) or NOTHING,
        36,
        13,
        most=15,
        rank=rank,
        in_table=lambda row: short_job_id(job_id(row) or NOTHING),
    )


def cells(text: str) -> int:
    """Return how wide a terminal shows a text: a Chinese character or an emoji takes two cells."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # a twentieth of a second, which most listings need not take

    return cell_len(text)


def cut(text: str, width: int, head: float = 1.0) -> str:
    """Return the beginning and the end of a longer text with a mark between them, exactly `width` cells wide."""
    from rich.cells import set_cell_size

    begin = set_cell_size(text, round((width - 1) * head))
    end = set_cell_size(text[::-1], width - 1 - cells(begin))[::-1]
    return f"{begin}…{end}"


def wrapped(start: str, text: str, width: int | None, *, below: str = "") -> list[str]:
    """Return a line as lines of at most `width` cells, one line if that is None.

    The first one begins with `start`, and the others with `below`, by default as many blanks. Only a word that is
    longer than a line is broken.
    """
    line = start + text
    if width is None or cells(line) <= width:
        return [line]
    from rich.console import Console
    from rich.text import Text

    below = below or " " * cells(start)
    room = max(1, width - max(cells(start), cells(below)))
    parts = Text(text).wrap(Console(), room, overflow="fold")
    return [(below if number else start) + part.plain.rstrip() for number, part in enumerate(parts)]


GAP = 2
"""Blanks between two columns."""
NARROW = 60
"""A narrower terminal shows a record for each row, and no table."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The widths of the columns that have room, by title, and the columns that have none."""

    widths: Mapping[str, int]
    folded: Sequence[Column[Any]]
    """Their values are written below their rows."""
    left_out: Sequence[Column[Any]]


def arranged(columns: Sequence[Column[Any]], widest: Mapping[str, int], room: int) -> Layout | None:
    """Return the layout for this room, None if the columns of rank 0 do not fit.

    `widest` has the width of the widest cell of each column, 0 for one without a value. No column gets more than
    its cells and title need.
    """
    full = {one.title: max(cells(one.title), widest[one.title]) for one in columns}
    least = {one.title: min(full[one.title], max(one.width, cells(one.title))) for one in columns}
    most = {one.title: min(full[one.title], max(one.most, least[one.title])) for one in columns}
    widths = {one.title: least[one.title] for one in columns if one.rank == 0}
    left = room + GAP - sum(width + GAP for width in widths.values())
    if room < NARROW or left < 0:
        return None
    left = _widened(widths, most, left)
    for one in sorted(columns, key=lambda one: (widest[one.title] == 0, one.rank)):
        if one.rank and left >= least[one.title] + GAP:
            widths[one.title] = least[one.title]
            left -= least[one.title] + GAP
    _widened(widths, full, left)
    without = [one for one in columns if one.title not in widths and widest[one.title]]
    return Layout(widths, [one for one in without if one.below], [one for one in without if not one.below])


def _widened(widths: dict[str, int], aims: Mapping[str, int], left: int) -> int:
    """Widen the columns in their order, each up to its aim; return the room that is left."""
    for title, width in widths.items():
        more = max(0, min(left, aims[title] - width))
        widths[title] += more
        left -= more
    return left


Filter = TypeVar("Filter", DeliveryFilter, WorkFilter, JobFilter, QuarantineFilter)
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

    return together(
        json_option,
        click.option("--wide", is_flag=True, help="All columns in full, also if they are wider than the terminal."),
        click.option(
            "--columns",
            cls=_ColumnsOption,
            columns=of_listing,
            type=text,
            metavar="NAMES",
            help="Only these columns.",
        ),
    )(formed)


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

    def write_all(self, rows: Sequence[Row], form: ListForm) -> None:
        """Write rows that are in memory."""
        writer = RowWriter(self, form)
        writer.write(rows)
        writer.end()

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
    """Writes the rows of one listing, some at a time.

    On a terminal the first rows decide how wide the columns are, so that all later rows line up with them. With
    `followed`, more rows come later, and the widths leave room for them.
    """

    def __init__(self, listing: Listing[Row], form: ListForm, *, followed: bool = False) -> None:
        self._listing = listing
        self._form = form
        self._followed = followed
        self._columns = listing.chosen(form.columns)
        self._layout: Layout | None = None
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
            self._write_plain(rows)
        self._first = False

    def end(self) -> None:
        """Write what is in the buffer, and note which columns had no room."""
        flush()
        if self._layout is not None and self._layout.left_out:
            titles = ", ".join(one.title for one in self._layout.left_out)
            remark = f"columns without room: {titles}; --wide shows all, --columns chooses"
            note("\n".join(wrapped("", remark, terminal_width(sys.stderr), below=" " * GAP)))

    def _write_plain(self, rows: Sequence[Row]) -> None:
        """Write a line for each row, with whole cells in columns of the same width."""
        lines = [[one.title for one in self._columns]] if self._first else []
        lines += [[one.in_full(row) for one in self._columns] for row in rows]
        widths = [max(one.plain, len(one.title)) for one in self._columns]
        for line in lines:
            padded = (cell + " " * (width - cells(cell)) for cell, width in zip(line, widths, strict=True))
            write_line(" ".join(padded).rstrip())

    def _write_table(self, rows: Sequence[Row]) -> None:
        from rich.console import Console  # most commands write into a pipe or a file, or no table
        from rich.text import Text

        console = Console()
        room = console.width
        if self._first:
            self._layout = self._arranged(rows, room)
        if (layout := self._layout) is None:
            self._write_records(rows)
            return
        shown = [one for one in self._columns if one.title in layout.widths]
        titles = _joined([one.fitted(one.title, layout.widths[one.title]) for one in shown])
        lines = [Text(titles, style="bold")] if self._first else []
        for row in rows:
            style = self._listing.style(row)
            cells_of_row = [one.fitted(self._cell(one, row), layout.widths[one.title]) for one in shown]
            lines.append(Text(_joined(cells_of_row), style=style))
            if folded := [escape_controls(text) for one in layout.folded if one.below and (text := one.below(row))]:
                below = " " * 4 + (" " * GAP).join(folded)
                lines.append(Text(below if cells(below) <= room else cut(below, room), style=style))
        with console.capture() as capture:  # the terminal's encoding may lack a character
            console.print(Text("\n").join(lines), soft_wrap=True)
        write_bytes(encoded(capture.get().removesuffix("\n"), console.encoding))

    def _arranged(self, rows: Sequence[Row], room: int) -> Layout | None:
        widest: dict[str, int] = {}
        for one in self._columns:
            values = {self._cell(one, row) for row in rows} - {"", NOTHING}
            widest[one.title] = max(map(cells, values), default=0)
            if self._followed or len(rows) == MAX_ROWS:  # more rows come
                widest[one.title] = max(widest[one.title], one.width)
        if self._form.wide:
            return Layout({title: max(cells(title), width) for title, width in widest.items()}, (), ())
        return arranged(self._columns, widest, room)

    def _cell(self, column: Column[Row], row: Row) -> str:
        return column.in_full(row) if self._form.wide else column.for_table(row)

    def _write_records(self, rows: Sequence[Row]) -> None:
        """Write each value on a line of its own, and a blank line between two rows."""
        title_width = max(len(one.title) for one in self._columns)
        for number, row in enumerate(rows):
            if number or not self._first:
                write_line("")
            for one in self._columns:
                if (text := one.in_full(row)) not in ("", NOTHING):
                    write_line(f"{one.title:<{title_width}}  {text}")


def _joined(line: Sequence[str]) -> str:
    return (" " * GAP).join(line).rstrip()
