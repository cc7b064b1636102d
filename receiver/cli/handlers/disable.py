"""`receiver handlers disable`: skip the work of handlers."""

from collections.abc import Iterator, Sequence

import click

from receiver.cli.common.confirm import agreed, say
from receiver.cli.common.exit_codes import FAILED, OK
from receiver.cli.common.filter_options import plan_options
from receiver.cli.handlers.rows import HandlerRow, chosen_rows, deployment_options, names_argument
from receiver.cli.handlers.switching import switch
from receiver.core.text import counted, escape_controls
from receiver.core.types import HandlerSwitch
from receiver.settings import load_settings


@click.command()
@names_argument
@plan_options
@deployment_options
def disable(names: Sequence[str], yes: bool, dry_run: bool, **flags: str | None) -> int:
    """Skip the waiting and new work of handlers.

    A NAME may be a glob. The command shows a plan first. Skipped work runs only after `receiver work-items retry`.
    """
    settings = load_settings(**flags)
    chosen = chosen_rows(settings, names, import_code=True)
    for line in _plan(chosen):
        say(line)
    if dry_run:
        return OK
    if not agreed(f"Disable {counted(len(chosen), 'handler')}?", yes=yes):
        return FAILED
    switch(settings, chosen, HandlerSwitch.DISABLED)
    return OK


def _plan(chosen: Sequence[HandlerRow]) -> Iterator[str]:
    total = sum(row.waiting for row in chosen)
    yield f"{counted(len(chosen), 'handler')} to disable, {counted(total, 'waiting item')} to skip"
    for row in chosen:
        yield f"    {row.waiting:>11,}  {escape_controls(row.name)}"
        if row.registered is False and row.waiting:
            yield "                 not in the code, so no worker skips these: bury them"
