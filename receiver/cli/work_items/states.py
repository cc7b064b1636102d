"""`receiver work-items states`: how a work item changes its state."""

import textwrap
from collections.abc import Sequence

import click

from receiver.cli.common.layout import GAP
from receiver.cli.common.output import terminal_width, write_line
from receiver.core.work_states import MOVES, mermaid

_NARROW = 20
"""A narrower column of meanings goes below its row."""


@click.command()
@click.option("--mermaid", "as_mermaid", is_flag=True, help="Print a Mermaid diagram.")
def states(as_mermaid: bool) -> None:
    """Show every change of a work item's state, with its cause."""
    if as_mermaid:
        write_line(mermaid())
        return
    width = terminal_width()
    head = ("state", "cause", "next")
    moves = [((before or "-", cause, after), cause.meaning) for (before, cause), after in MOVES.items()]
    widths = [max(map(len, column)) for column in zip(head, *(cells for cells, _ in moves), strict=True)]
    write_line(_joined(head, widths) + "meaning")
    for cells, meaning in moves:
        for line in _lines(_joined(cells, widths), meaning, width):
            write_line(line)


def _joined(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Return the cells of a row as columns with a gap after each of them."""
    return "".join(f"{cell:<{width}}" + " " * GAP for cell, width in zip(cells, widths, strict=True))


def _lines(row: str, meaning: str, width: int | None) -> list[str]:
    """Return a row with its meaning, on lines of this width; None is a pipe, which has one line for each row."""
    if width is None:
        return [row + meaning]
    if width < len(row) + _NARROW:
        below = textwrap.wrap(meaning, width, initial_indent="  ", subsequent_indent="  ")
        return [*textwrap.wrap(row.rstrip(), width, subsequent_indent="  "), *below]
    return textwrap.wrap(meaning, width, initial_indent=row, subsequent_indent=" " * len(row))
