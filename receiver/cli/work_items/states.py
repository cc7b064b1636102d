"""`receiver work-items states`: how a work item changes its state."""

import click

from receiver.cli.common.output import write_line
from receiver.core.work_states import MOVES, mermaid


@click.command()
@click.option("--mermaid", "as_mermaid", is_flag=True, help="Print a Mermaid diagram.")
def states(as_mermaid: bool) -> None:
    """Show every change of a work item's state, with its cause."""
    if as_mermaid:
        write_line(mermaid())
        return
    write_line(f"{'state':<9}{'cause':<22}{'next':<9}meaning")
    for (before, cause), after in MOVES.items():
        write_line(f"{before or '-':<9}{cause:<22}{after:<9}{cause.meaning}")
