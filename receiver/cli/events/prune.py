"""`receiver events prune`: remove what has been kept long enough."""

from dataclasses import replace
from datetime import timedelta

import click

from receiver.cli.common.confirm import agreed, say, to_its_end
from receiver.cli.common.delivery_plans import plan_lines, size
from receiver.cli.common.exit_codes import FAILED, OK
from receiver.cli.common.filter_options import age, plan_options, store_option, text
from receiver.cli.common.output import note
from receiver.cli.common.progress import progress
from receiver.cli.common.store import maintain
from receiver.core.bulk import DeliveryPlan
from receiver.core.clock import SystemClock
from receiver.core.ports.maintenance import Maintenance
from receiver.core.retention import PruneRule, Step
from receiver.core.text import counted
from receiver.core.types import DeliveryState
from receiver.settings import load_settings

MAX_ITEMS = 100
MAX_BYTES = 800 * 1024
_PAUSE = timedelta(milliseconds=10)
"""Between steps that hold the write lock: who waits for it, with acks, looks now and then whether it is free."""


@click.command()
@click.option("--older-than", type=age, required=True, metavar="AGE", help="What came longer ago: 30d, 12h, 8w.")
@click.option("--bodies", is_flag=True, help="Only headers and bodies; later retries are still known.")
@click.option("--type", "kind", type=text, metavar="GLOB", help="Only types that match, as 'crawl.*'.")
@click.option(
    "--state",
    type=click.Choice([DeliveryState.DONE.value, DeliveryState.DEAD.value]),
    help="Which ones: done (the default), or dead, which could still be retried.",
)
@plan_options
@store_option
def prune(
    older_than: timedelta,
    bodies: bool,
    kind: str | None,
    state: str | None,
    yes: bool,
    dry_run: bool,
    store: str | None,
) -> int:
    """Remove deliveries that are done with, or with --bodies their headers and bodies only.

    With a delivery go its work items; if the service sent it again, it would be taken for a new one. What is new or
    still to be worked on is never removed. A plan is shown first. The file shrinks if it was made by a version that
    has this command; else the room is used for what comes.
    """
    settings = load_settings(store=store)
    rule = PruneRule(
        SystemClock().now() - older_than, bodies=bodies, type=kind, state=DeliveryState(state) if state else None
    )
    plan = maintain(settings, lambda maintenance: maintenance.prunable(rule))
    what = "delivery" if not bodies else "body"
    if not plan.count:
        note("nothing is old enough")
        return OK
    for line in plan_lines(replace(plan, without_body=0), "lose their bodies" if bodies else "remove"):
        say(line)
    if dry_run:
        return OK
    if not agreed(f"Remove {counted(plan.count, what)}?", yes=yes):
        return FAILED
    count, removed = maintain(settings, lambda maintenance: _carry_out(maintenance, rule, plan))
    say(f"removed {counted(count, what)}, {size(removed)}")
    return OK


async def _carry_out(maintenance: Maintenance, rule: PruneRule, plan: DeliveryPlan) -> tuple[int, int]:
    """Prune step by step. A step that has begun is finished and counted when we are asked to stop."""
    count = removed = 0
    after: int | None = 0

    async def step(place: int) -> Step:
        nonlocal count, removed
        done = await maintenance.prune(rule, after=place, limit=MAX_ITEMS, now=SystemClock().now())
        count, removed = count + done.count, removed + done.size
        return done

    try:
        with progress("removed", plan.count) as advance:
            while after is not None:
                done = await to_its_end(step(after))
                after = done.after
                if done.count:
                    await SystemClock().sleep(_PAUSE)
                if count < plan.count:
                    advance(done.count)
    except BaseException:
        note(f"stopped: {count:,} of {plan.count:,} were removed; the same command goes on with the rest")
        raise
    while await maintenance.reclaim(MAX_BYTES):
        await SystemClock().sleep(_PAUSE)
    return count, removed
