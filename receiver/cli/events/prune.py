"""`receiver events prune`: delete old events, or only their bodies."""

from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache, partial

import click

from receiver.cli.common.confirm import agreed, plan_lines, say, to_its_end
from receiver.cli.common.exit_codes import FAILED, OK
from receiver.cli.common.filters import duration, plan_options, store_option, text
from receiver.cli.common.output import note, progress
from receiver.cli.common.store import configured_store, maintain, open_controls, recording
from receiver.core.activity import PruneRule, Step
from receiver.core.bulk import DeliveryPlan
from receiver.core.clock import Clock, iso
from receiver.core.ports.store import Maintenance
from receiver.core.text import counted
from receiver.core.types import DeliveryState
from receiver.core.units import shown_size
from receiver.errors import StoreError
from receiver.settings import Settings, load_settings

MAX_ITEMS = 100
MAX_BYTES = 800 * 1024
_PAUSE = timedelta(milliseconds=10)
"""Between steps that hold the write lock, so that waiting acks get it."""


@click.command()
@click.option(
    "--older-than",
    type=duration,
    required=True,
    metavar="AGE",
    help="Only events that arrived longer ago: 30d, 12h, 8w.",
)
@click.option("--bodies", is_flag=True, help="Delete only headers and bodies; a late retry is still a duplicate.")
@click.option("--type", "kind", type=text, metavar="GLOB", help="Only types that match, as 'crawl.*'.")
@click.option(
    "--state",
    type=click.Choice([DeliveryState.DONE.value, DeliveryState.DEAD.value]),
    help="Events to delete: done (the default), or dead, which could still be retried.",
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
    """Delete finished events, or only their bodies.

    The work items of an event are deleted with it; if the service sends the event again, it counts as new. Events
    that are new or have unfinished work are never deleted. The command shows a plan first. The database file
    shrinks, except if an early version made it: then later events use the free space.
    """
    settings = load_settings(store=store)
    chosen = DeliveryState(state) if state else None

    async def planned(maintenance: Maintenance, clock: Clock) -> tuple[PruneRule, DeliveryPlan]:
        rule = PruneRule(clock.now() - older_than, bodies=bodies, type=kind, state=chosen)
        return rule, await maintenance.prunable(rule)

    tell = cache(note)  # the plan and the pruning may have the same to tell
    rule, plan = maintain(settings, planned, tell=tell)
    what = "body" if bodies else "event"
    if not plan.count:
        note("no event matched")
        return OK
    for line in plan_lines(replace(plan, without_body=0), "strip of their bodies" if bodies else "delete"):
        say(line)
    if dry_run:
        return OK
    if not agreed(f"Delete {counted(plan.count, what)}?", yes=yes):
        return FAILED
    pruned = maintain(settings, partial(_prune, settings=settings, rule=rule, plan=plan), tell=tell)
    say(f"deleted {counted(pruned.count, what)}, {shown_size(pruned.size)}")
    return OK


@dataclass(slots=True)
class _Pruned:
    """What was deleted so far."""

    count: int = 0
    size: int = 0


async def _prune(
    maintenance: Maintenance, clock: Clock, *, settings: Settings, rule: PruneRule, plan: DeliveryPlan
) -> _Pruned:
    """Prune, and record it afterwards: a full disk has room for the record only then."""
    pruned = _Pruned()
    try:
        await _carry_out(maintenance, clock, rule, plan, pruned)
    finally:
        if pruned.count:
            await _record(settings, rule, plan, pruned.count)
    return pruned


async def _record(settings: Settings, rule: PruneRule, plan: DeliveryPlan, count: int) -> None:
    what = f"{'bodies of events' if rule.bodies else 'events'} that arrived before {iso(rule.before)}"
    kinds = [f"{name} {value}" for name, value in (("type", rule.type), ("state", rule.state)) if value]
    about, store = ", ".join([what, *kinds]), configured_store(settings)
    try:
        async with (
            open_controls(settings) as controls,
            recording(controls, store, "prune", about, planned=plan.count) as recorded,
        ):
            await recorded.add(seen=count, changed=count)
    except StoreError as exc:
        note(f"the list of actions does not have this one: {exc}")


async def _carry_out(
    maintenance: Maintenance, clock: Clock, rule: PruneRule, plan: DeliveryPlan, pruned: _Pruned
) -> None:
    """Prune step by step. A stop lets the current step finish, and counts it."""
    after: int | None = 0

    async def step(place: int) -> Step:
        done = await maintenance.prune(rule, after=place, limit=MAX_ITEMS, now=clock.now())
        pruned.count += done.count
        pruned.size += done.size
        return done

    try:
        with progress("deleted", plan.count) as advance:
            while after is not None:
                done = await to_its_end(step(after))
                after = done.after
                if done.count:
                    await clock.sleep(_PAUSE)
                if pruned.count < plan.count:
                    advance(done.count)
    except BaseException:
        note(f"stopped: {pruned.count:,} of {plan.count:,} were deleted; the same command continues with the rest")
        raise
    while await maintenance.reclaim(MAX_BYTES):
        await clock.sleep(_PAUSE)
