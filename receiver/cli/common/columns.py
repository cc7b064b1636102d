"""The columns of a listing: the cell of a row, and how a column gives way where there is little room."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

from receiver.cli.common.output import short_moment
from receiver.core.clock import local_time
from receiver.core.text import escape_controls, short_job_id

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
        title,
        lambda row: shown(row, local_time),
        25,
        14,
        rank=rank,
        in_table=lambda row: shown(row, short_moment),
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
    begin = _first_cells(text, round((width - 1) * head))
    end = _first_cells(text[::-1], width - 1 - cells(begin))[::-1] if head < 1 else ""
    return f"{begin}…{end}" + " " * (width - 1 - cells(begin) - cells(end))


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


def _first_cells(text: str, width: int) -> str:
    """Return as much of the beginning as fits."""
    part = text[:width]
    while cells(part) > width:
        part = part[:-1]
    return part
