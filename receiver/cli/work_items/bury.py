"""`receiver work-items bury`: discard work items."""

from collections.abc import Sequence

import click

from receiver.cli.common.filter_options import plan_options, store_option, text, work_filter_options
from receiver.cli.common.row_ids import WORK_ID
from receiver.cli.common.store import configured_store, now_of
from receiver.cli.work_items.mass_action import act
from receiver.core.actions import BURY
from receiver.core.ports.controls import Controls
from receiver.core.work import WorkFilter
from receiver.settings import load_settings


def _reason(value: str) -> str:
    """Accept a text that is not blank."""
    if not value.strip():
        raise click.BadParameter("give a reason")
    return text(value.strip())


@click.command()
@click.argument("work_ids", metavar="[ID]...", nargs=-1, type=WORK_ID)
@work_filter_options(BURY.takes)
@click.option("--reason", required=True, type=_reason, metavar="TEXT", help="Why; kept as the error of each item.")
@plan_options
@store_option
def bury(
    work_ids: Sequence[int], wanted: WorkFilter, reason: str, yes: bool, dry_run: bool, store: str | None
) -> int:
    """Discard work items: they become dead.

    They run again only after `work-items retry`. Choose them by their IDs or by filters: items that wait, that are
    queued in their lane, that are held, and dead ones that hold their lane, which then goes on. The command shows a
    plan first.
    """
    settings = load_settings(store=store)

    async def change(controls: Controls, ids: Sequence[int], action: int) -> int:
        return await controls.bury(ids, reason, now=await now_of(configured_store(settings)), action=action)

    return act(BURY, change, settings, work_ids, wanted, yes=yes, dry_run=dry_run)
