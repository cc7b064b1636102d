"""`receiver work-items states`: how a work item changes its state."""

import shutil
import sys
import textwrap

import click

from receiver.cli.common.output import write_line
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
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    write_line(f"{'state':<9}{'cause':<22}{'next':<9}meaning")
    for (before, cause), after in MOVES.items():
        for line in _lines(f"{before or '-':<9}{cause:<22}{after:<9}", cause.meaning, width):
            write_line(line)


def _lines(row: str, meaning: str, width: int | None) -> list[str]:
    """Return a row with its meaning, on lines of this width; None is a pipe, which has one line for each row."""
    if width is None:
        return [row + meaning]
    if width < len(row) + _NARROW:
        return [row.rstrip(), *textwrap.wrap(meaning, width, initial_indent="  ", subsequent_indent="  ")]
    return textwrap.wrap(meaning, width, initial_indent=row, subsequent_indent=" " * len(row))
