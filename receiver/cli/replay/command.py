"""`receiver replay`: stored deliveries once more, here and now, by the workers, or to another receiver."""

import asyncio
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import click

from receiver.cli.common.confirm import agreed, say
from receiver.cli.common.delivery_plans import plan_lines
from receiver.cli.common.event_loop import run
from receiver.cli.common.exit_codes import FAILED, INTERRUPTED, OK
from receiver.cli.common.filter_options import filter_options, json_option, plan_options, store_option, text
from receiver.cli.common.interrupt import ending_at_interrupt
from receiver.cli.common.output import flush, note, write_line
from receiver.cli.common.store import configured_store
from receiver.cli.replay.request import ReplayMode, ReplayOptions, ReplayRequest
from receiver.cli.replay.sources import opened_bundle
from receiver.cli.send import checked_rate
from receiver.core.bulk import Cursor, DeliveryPlan
from receiver.core.deliveries import DeliveryFilter, StoredDelivery
from receiver.core.logs import configure_logs
from receiver.core.ports.reports import Reports
from receiver.core.text import counted, escape_controls
from receiver.errors import ConfigurationError, WrongExpression
from receiver.events import EVENT_CLASSES, UnknownEvent
from receiver.replay.expressions import compile_expression
from receiver.replay.selection import Selection
from receiver.routing import Handler, Router
from receiver.routing.loader import load_router
from receiver.settings import Settings, export_env_file, load_settings

_FIRST = 3


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
    options = ReplayOptions(
        way=ReplayMode.ENQUEUE if enqueue else ReplayMode.SEND if others["url"] else ReplayMode.HERE, **others
    )
    _check(options, wanted, bundle, names, enqueue=enqueue, reload=reload)
    if after is not None and after.job_id is not None and order != "job":
        raise click.UsageError(f"--after {after} is a place in the order of jobs: add --order job")
    if reload and not options.dry_run:
        from receiver.cli.common.reloading import run_and_watch

        return run_and_watch(sys.argv[1:], yes=options.yes)
    settings = load_settings(store=store, handlers=router)
    configure_logs(level=settings.log_level, as_json=settings.json_logs)
    export_env_file()
    found = Router() if options.way is ReplayMode.SEND else load_router(settings.handlers, folder=Path.cwd())
    if options.way is not ReplayMode.SEND and not len(found):
        raise ConfigurationError(f"{settings.handlers} has no handlers: nothing would run")
    handlers = _chosen_handlers(found, names)
    if len(names) == 1 and wanted.failed:
        wanted = replace(wanted, handler=names[0])
    choice = Selection(wanted, handlers, where, order == "job", after)
    try:
        # Connections of uvloop's own would go past the refusal of the network.
        return run(_replay(settings, bundle, found, choice, options), fastest=not options.no_network)
    except (asyncio.CancelledError, KeyboardInterrupt):  # Ctrl-C for the second time
        flush()
        os._exit(INTERRUPTED)  # a plain function cannot be cancelled, and the interpreter would wait for its thread


def _check(
    options: ReplayOptions,
    wanted: DeliveryFilter,
    bundle: Path | None,
    names: Sequence[str],
    *,
    enqueue: bool,
    reload: bool,
) -> None:
    """Refuse combinations that mean nothing."""
    if enqueue and options.url:
        raise click.UsageError("--enqueue and --to are two ways: choose one")
    if options.way is not ReplayMode.HERE:
        here = ("record", "frozen_time", "no_network", "save", "compare")
        given = [f"--{name.replace('_', '-')}" for name in here if getattr(options, name)]
        if given := [*given, "--reload"] if reload else given:
            raise click.UsageError(f"{', '.join(given)}: only where handlers run here, without --enqueue and --to")
    if options.way is not ReplayMode.SEND and (options.rate or options.new_ids):
        raise click.UsageError("--rate and --new-ids go with --to URL")
    if options.save and options.compare and options.save.resolve() == options.compare.resolve():
        raise click.UsageError("--save would replace the file that --compare is to read: name another one")
    if options.way is ReplayMode.SEND and names:
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


async def _replay(
    settings: Settings, bundle: Path | None, router: Router, choice: Selection, options: ReplayOptions
) -> int:
    async with AsyncExitStack() as stack:
        store = configured_store(settings)
        if bundle is not None:
            store = await stack.enter_async_context(opened_bundle(bundle, max_body=settings.max_body))
        outer = await stack.enter_async_context(AsyncExitStack())
        reports = await stack.enter_async_context(store.reports())
        plan = await reports.plan(choice.wanted, after=choice.after, by_job=choice.by_job)
        if not plan.count or plan.last_at is None:
            note("nothing fits these filters")
            return OK
        # What arrives from now on is another replay's, also for one that goes on where this one is stopped.
        until = choice.wanted.until or plan.last_at + timedelta(microseconds=1)
        choice = replace(choice, wanted=replace(choice.wanted, until=until))
        if not options.planned:
            await _show(plan, reports, choice, options)
        if options.dry_run:
            return OK
        if not options.planned and not _agreed(options):
            return FAILED
        return await _carry_out(ReplayRequest(settings, store, reports, router, choice, plan, options, outer))


def _agreed(options: ReplayOptions) -> bool:
    with ending_at_interrupt():
        return agreed(options.way.value[1], yes=options.yes)


async def _carry_out(replaying: ReplayRequest) -> int:
    match replaying.options.way:
        case ReplayMode.HERE:
            from receiver.cli.replay.local import run_here

            return await run_here(replaying)
        case ReplayMode.ENQUEUE:
            from receiver.cli.replay.elsewhere import enqueue

            return await enqueue(replaying)
        case ReplayMode.SEND:
            from receiver.cli.replay.elsewhere import send

            return await send(replaying)


async def _show(plan: DeliveryPlan, reports: Reports, choice: Selection, options: ReplayOptions) -> None:
    """Write the plan: to standard output, unless that is for JSON. Handlers do not run for a closed pipe."""
    write = note if options.as_json else write_line if options.way is ReplayMode.HERE else say
    first: list[StoredDelivery] = []
    async for stored in reports.iter_deliveries(choice.wanted, after=choice.after, by_job=choice.by_job):
        first.append(stored)
        if len(first) == _FIRST:
            break
    counts = {} if options.way is ReplayMode.SEND else _by_handler(plan, choice.handlers)
    by = {"handler": counts} if counts else {}
    for line in plan_lines(plan, options.way.value[0], first=first, by=by):
        write(line)
    picky = [handler for handler in choice.handlers if handler.where is not None and counts.get(handler.name)]
    if choice.where is not None:
        write("  --where leaves out some of these, as it is asked of each")
    if choice.wanted.failed:
        write("  --failed leaves out the handlers that did not fail")
    elif picky:
        write(f"  {counted(len(picky), 'handler')} of these may want fewer: where= is asked of each event")
    if choice.after is not None:
        write(f"  what came up to {escape_controls(str(choice.after))} in this order is left out")
    flush()


def _by_handler(plan: DeliveryPlan, handlers: Sequence[Handler]) -> Mapping[str, int]:
    """Return how many of the planned deliveries are of types that each handler is for."""
    counts: dict[str, int] = {handler.name: 0 for handler in handlers}
    for name, number in plan.types.items():
        event = EVENT_CLASSES.get(name, UnknownEvent)(type=name)
        for handler in handlers:
            if handler.is_for(event):
                counts[handler.name] += number
    return counts
