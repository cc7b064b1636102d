"""Rows on a terminal: a table whose columns fit, or a record for each row where they do not."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic

from receiver.cli.common.columns import NOTHING, Column, Row, cells, cut
from receiver.cli.common.layout import GAP, Layout, arranged
from receiver.cli.common.output import encoded, write_bytes, write_line
from receiver.core.text import escape_controls

_INDENT = " " * 4


class TerminalTable(Generic[Row]):
    """A table for a terminal. The first rows decide about the widths, so that all later rows line up with them."""

    def __init__(
        self,
        columns: Sequence[Column[Row]],
        style: Callable[[Row], str],
        first: Sequence[Row],
        *,
        wide: bool,
        more_to_come: bool,
    ) -> None:
        from rich.console import Console  # most commands write into a pipe or a file, or no table

        self._columns = columns
        self._style = style
        self._wide = wide
        self._console = Console()
        self._layout = self._arranged(first, more_to_come=more_to_come)
        self._first = True

    @property
    def left_out(self) -> Sequence[str]:
        """The titles of the columns that have no room."""
        return [one.title for one in self._layout.left_out] if self._layout else ()

    def write(self, rows: Sequence[Row]) -> None:
        """Write some rows, the first ones below the titles."""
        layout = self._layout
        if layout is None:
            self._write_records(rows)
        else:
            shown = [one for one in self._columns if one.title in layout.widths]
            titles = _joined([one.fitted(one.title, layout.widths[one.title]) for one in shown])
            lines = [(titles, "bold")] if self._first else []
            lines += [line for row in rows for line in self._lines(row, shown, layout)]
            self._print(lines)
        self._first = False

    def _arranged(self, rows: Sequence[Row], *, more_to_come: bool) -> Layout | None:
        widest: dict[str, int] = {}
        for one in self._columns:
            values = {self._cell(one, row) for row in rows} - {"", NOTHING}
            widest[one.title] = max(map(cells, values), default=0)
            if more_to_come:
                widest[one.title] = max(widest[one.title], one.width)
        if self._wide:
            return Layout({title: max(cells(title), width) for title, width in widest.items()}, (), ())
        return arranged(self._columns, widest, self._console.width)

    def _cell(self, column: Column[Row], row: Row) -> str:
        return column.in_full(row) if self._wide else column.for_table(row)

    def _lines(self, row: Row, shown: Sequence[Column[Row]], layout: Layout) -> Iterator[tuple[str, str]]:
        style = self._style(row)
        yield _joined([one.fitted(self._cell(one, row), layout.widths[one.title]) for one in shown]), style
        folded = [escape_controls(text) for one in layout.folded if one.below and (text := one.below(row))]
        if folded:
            below = _INDENT + "  ".join(folded)
            room = self._console.width
            yield (below if cells(below) <= room else cut(below, room)), style

    def _print(self, lines: Sequence[tuple[str, str]]) -> None:
        from rich.text import Text

        text = Text("\n").join(Text(line, style=style) for line, style in lines)
        with self._console.capture() as capture:  # the terminal's encoding may lack a character
            self._console.print(text, soft_wrap=True)
        write_bytes(encoded(capture.get().removesuffix("\n"), self._console.encoding))

    def _write_records(self, rows: Sequence[Row]) -> None:
        """Write each value on a line of its own, and a blank line between two rows."""
        title_width = max(len(one.title) for one in self._columns)
        for row in rows:
            if not self._first:
                write_line("")
            self._first = False
            for one in self._columns:
                if (text := one.in_full(row)) not in ("", NOTHING):
                    write_line(f"{one.title:<{title_width}}  {text}")


def write_plain(columns: Sequence[Column[Row]], rows: Sequence[Row], *, header: bool) -> None:
    """Write a line for each row, with whole cells in columns of the same width, for a pipe or a file."""
    if header:
        _write_plain_line(columns, [one.title for one in columns])
    for row in rows:
        _write_plain_line(columns, [one.in_full(row) for one in columns])


def _write_plain_line(columns: Sequence[Column[Any]], line: Sequence[str]) -> None:
    padded = (
        cell + " " * (max(one.plain, len(one.title)) - cells(cell)) for one, cell in zip(columns, line, strict=True)
    )
    write_line(" ".join(padded).rstrip())


def _joined(line: Sequence[str]) -> str:
    return (" " * GAP).join(line).rstrip()
