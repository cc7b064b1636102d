"""`receiver work-items retry`: run work items again."""

from collections.abc import Sequence

import click

from receiver.cli.common.filter_options import plan_options, store_option, work_filter_options
from receiver.cli.common.row_ids import WORK_ID
from receiver.cli.common.store import configured_store, now_of
from receiver.cli.work_items.mass_action import act
from receiver.core.actions import RETRY
from receiver.core.ports.controls import Controls
from receiver.core.work import WorkFilter
from receiver.settings import load_settings


@click.command()
@click.argument("work_ids", metavar="[ID]...", nargs=-1, type=WORK_ID)
@work_filter_options(RETRY.takes)
@plan_options
@store_option
def retry(work_ids: Sequence[int], wanted: WorkFilter, yes: bool, dry_run: bool, store: str | None) -> int:
    """Run work items again, now and with all their attempts.

    Choose them by their IDs or by filters. Filters choose dead and skipped items; --state chooses others, such as
    items that wait for a later attempt or are held. The command shows a plan first.
    """
    settings = load_settings(store=store)

    async def change(controls: Controls, ids: Sequence[int], action: int) -> int:
        return await controls.retry(ids, now=await now_of(configured_store(settings)), action=action)

    return act(RETRY, change, settings, work_ids, wanted, yes=yes, dry_run=dry_run)
