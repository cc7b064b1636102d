"""`receiver replay`: stored deliveries once more, here and now, by the workers, or to another receiver."""

import asyncio
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from enum import Enum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import click

from receiver.app import configured_store
from receiver.cli.delivery_plans import plan_lines
from receiver.cli.main import FAILED, INTERRUPTED, OK
from receiver.cli.options import filter_options, json_option, plan_options, store_option, text
from receiver.cli.output import counted, flush, iso, note
from receiver.cli.plans import agreed, say
from receiver.cli.replay_sources import opened_bundle
from receiver.cli.send import checked_rate
from receiver.clock import SystemClock
from receiver.errors import WrongExpression
from receiver.events import EVENT_CLASSES, UnknownEvent
from receiver.expressions import compile_expression
from receiver.keeping import Cursor, DeliveryPlan
from receiver.loader import load_router
from receiver.logs import configure_logs
from receiver.ports import Reports, Store
from receiver.records import DeliveryFilter, StoredDelivery
from receiver.replay.choice import Choice
from receiver.routing import Handler, Router
from receiver.settings import Settings, export_env_file, load_settings

_FIRST = 3


class Way(Enum):
    """What becomes of the deliveries: the verb of the plan, and the question."""

    HERE = ("replay here", "Run the handlers here and now?")
    ENQUEUE = ("enqueue", "Make new work items for the workers?")
    SEND = ("send", "Send them?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line asks for beside the choice of deliveries."""

    way: Way
    record: bool
    frozen_time: bool
    no_network: bool
    url: str | None
    rate: float | None
    new_ids: bool
    save: Path | None
    compare: Path | None
    as_json: bool
    yes: bool
    dry_run: bool
    planned: bool


@dataclass(frozen=True, slots=True)
class Replaying:
    """One replay that has been agreed to."""

    settings: Settings
    store: Store
    reports: Reports
    router: Router
    choice: Choice
    plan: DeliveryPlan
    options: Options

    def tell_how_to_go_on(self, place: Cursor | None) -> None:
        """Say on standard error how to continue after this place, with the same deliveries still to come."""
        arguments = [one for one in sys.argv[1:] if one != "--reload"]
        wanted = self.choice.wanted
        for flag, moment in (("--since", wanted.since), ("--until", wanted.until)):
            if moment is not None:
                arguments += [flag, iso(moment)]
        if place is not None:
            arguments += ["--after", str(place)]
        note(f"to go on where this stopped:\n  {shlex.join(['receiver', *arguments])}")


def _expression(written: str) -> Callable[[object], bool]:
    try:
        return compile_expression(written)
    except WrongExpression as exc:
        raise click.BadParameter(str(exc)) from None


def _cursor(written: str) -> Cursor:
    try:
        return Cursor.parse(written)
    except ValueError as exc:
        raise click.BadParameter(str(exc)) from None


_file = click.Path(path_type=Path, dir_okay=False)


@click.command()
@click.argument(
    "bundle", metavar="[BUNDLE]", required=False, type=click.Path(path_type=Path, exists=True, dir_okay=False)
)
@filter_options
@click.option(
    "--handler",
    "names",
    type=text,
    metavar="GLOB",
    multiple=True,
    help="Only these handlers, as '*.save'; may be given several times.",
)
@click.option("--failed", is_flag=True, help="Only what failed or is dead, for the handlers that failed.")
@click.option(
    "--where",
    type=_expression,
    metavar="EXPR",
    help="Only events of which this is true, as 'data.0.metadata.statusCode >= 400'.",
)
@click.option(
    "--order",
    type=click.Choice(["arrival", "job"]),
    default="arrival",
    show_default=True,
    help="The oldest first, or job by job.",
)
@click.option("--after", type=_cursor, metavar="PLACE", help="Go on where an earlier replay said that it stopped.")
@click.option("--record", is_flag=True, help="Keep what ran here as work items in the store.")
@click.option("--frozen-time", is_flag=True, help="Handlers see the time of arrival: ctx.now, datetime, time.")
@click.option("--no-network", is_flag=True, help="Refuse every outgoing connection.")
@click.option("--reload", is_flag=True, help="Run again whenever a Python file of this folder changes.")
@click.option("--enqueue", is_flag=True, help="Do not run here: make new work items for the workers.")
@click.option("--to", "url", metavar="URL", help="Do not run here: send the exact bytes, freshly signed.")
@click.option("--rate", type=checked_rate, metavar="R", help="With --to: deliveries per second.")
@click.option("--new-ids", is_flag=True, help="With --to: give each a new webhookId, so that none is a duplicate.")
@click.option("--save", type=_file, metavar="FILE", help="Keep what each handler returned or raised.")
@click.option("--compare", type=_file, metavar="FILE", help="Compare with what an earlier --save kept.")
@click.option("--handlers", "router", metavar="MODULE:ROUTER", help="The router with your handlers.")
@plan_options
@click.option("--planned", is_flag=True, hidden=True, help="Show no plan and do not ask.")
@json_option
@store_option
def replay(
    bundle: Path | None,
    wanted: DeliveryFilter,
    names: tuple[str, ...],
    where: Callable[[object], bool] | None,
    order: str,
    after: Cursor | None,
    reload: bool,
    enqueue: bool,
    router: str | None,
    store: str | None,
    **others: Any,
) -> int:
    """Handle stored deliveries once more, or those of a BUNDLE file that `receiver events export` wrote.

    Handlers run here and now, in the order of arrival, with `ctx.trigger == "replay"`. Nothing is tried again,
    and the store stays as it is; exit code 1 when one failed. Two other ways: --enqueue leaves it to the workers,
    --to URL sends the deliveries to another receiver. A plan is shown first.
    """
    options = Options(way=Way.ENQUEUE if enqueue else Way.SEND if others["url"] else Way.HERE, **others)
    _check(options, wanted, bundle, names, enqueue=enqueue)
    if reload:
        from receiver.cli.reloading import run_and_watch

        return run_and_watch(sys.argv[1:], yes=options.yes)
    settings = load_settings(store=store, handlers=router)
    configure_logs(level=settings.log_level, as_json=settings.json_logs)
    export_env_file()
    found = Router() if options.way is Way.SEND else load_router(settings.handlers, folder=Path.cwd())
    handlers = _chosen_handlers(found, names)
    if len(names) == 1 and wanted.failed:
        wanted = replace(wanted, handler=names[0])
    wanted = replace(wanted, until=wanted.until or SystemClock().now())
    choice = Choice(wanted, handlers, where, order == "job", after)
    try:
        return asyncio.run(_replay(settings, bundle, found, choice, options))
    except asyncio.CancelledError:  # Ctrl-C for the second time
        flush()
        os._exit(INTERRUPTED)  # a plain function cannot be cancelled, and the interpreter would wait for its thread


def _check(
    options: Options, wanted: DeliveryFilter, bundle: Path | None, names: Sequence[str], *, enqueue: bool
) -> None:
    """Refuse combinations that mean nothing."""
    if enqueue and options.url:
        raise click.UsageError("--enqueue and --to are two ways: choose one")
    if options.way is not Way.HERE:
        here = ("record", "frozen_time", "no_network", "save", "compare")
        if given := [f"--{name.replace('_', '-')}" for name in here if getattr(options, name)]:
            raise click.UsageError(f"{', '.join(given)}: only where handlers run here, without --enqueue and --to")
    if options.way is not Way.SEND and (options.rate or options.new_ids):
        raise click.UsageError("--rate and --new-ids go with --to URL")
    if options.way is Way.SEND and names:
        raise click.UsageError("--handler is about handlers here; with --to they run elsewhere")
    if bundle is not None:
        if enqueue or options.record:
            raise click.UsageError("a bundle is not in the store: `receiver events import` brings it in first")
        if wanted.failed or wanted.state:
            raise click.UsageError("--failed and --state ask for work in the store, and a bundle has none")


def _chosen_handlers(router: Router, names: Sequence[str]) -> Sequence[Handler]:
    """Return the handlers that match one of the globs, all of them without any."""
    for name in names:
        if not any(fnmatchcase(handler.name, name) for handler in router):
            there = ", ".join(handler.name for handler in router)
            raise click.BadParameter(f"no handler matches {name!r}; there are {there}", param_hint="--handler")
    return [handler for handler in router if not names or any(fnmatchcase(handler.name, one) for one in names)]


async def _replay(settings: Settings, bundle: Path | None, router: Router, choice: Choice, options: Options) -> int:
    async with AsyncExitStack() as stack:
        store = configured_store(settings)
        if bundle is not None:
            store = await stack.enter_async_context(opened_bundle(bundle, max_body=settings.max_body))
        reports = await stack.enter_async_context(store.reports())
        plan = await reports.plan(choice.wanted)
        if not plan.count:
            note("nothing fits these filters")
            return OK
        if not options.planned:
            await _show(plan, reports, choice, options)
        if options.dry_run:
            return OK
        if not options.planned and not agreed(options.way.value[1], yes=options.yes):
            return FAILED
        return await _carry_out(Replaying(settings, store, reports, router, choice, plan, options))


async def _carry_out(replaying: Replaying) -> int:
    match replaying.options.way:
        case Way.HERE:
            from receiver.cli.replay_here import run_here

            return await run_here(replaying)
        case Way.ENQUEUE:
            from receiver.cli.replay_elsewhere import enqueue

            return await enqueue(replaying)
        case Way.SEND:
            from receiver.cli.replay_elsewhere import send

            return await send(replaying)


async def _show(plan: DeliveryPlan, reports: Reports, choice: Choice, options: Options) -> None:
    """Write the plan to standard output."""
    first: list[StoredDelivery] = []
    async for stored in reports.stored(choice.wanted, after=choice.after, by_job=choice.by_job):
        first.append(stored)
        if len(first) == _FIRST:
            break
    by = {} if options.way is Way.SEND else {"handler": _by_handler(plan, choice.handlers)}
    for line in plan_lines(plan, options.way.value[0], first=first, by=by):
        say(line)
    picky = [handler for handler in choice.handlers if handler.where is not None]
    if choice.where is not None:
        say("  --where leaves out some of these, as it is asked of each")
    if choice.wanted.failed:
        say("  --failed leaves out the handlers that did not fail")
    elif picky and by:
        say(f"  {counted(len(picky), 'handler')} of these may want fewer: where= is asked of each event")
    if choice.after is not None:
        say(f"  what came up to {choice.after} in this order has been replayed before and is left out")


def _by_handler(plan: DeliveryPlan, handlers: Sequence[Handler]) -> Mapping[str, int]:
    """Return how many of the planned deliveries are of types that each handler is for."""
    counts: dict[str, int] = {handler.name: 0 for handler in handlers}
    for name, number in plan.types.items():
        event = EVENT_CLASSES.get(name, UnknownEvent)(type=name)
        for handler in handlers:
            if handler.is_for(event):
                counts[handler.name] += number
    return counts
