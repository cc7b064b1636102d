"""`receiver replay`: stored events again: handlers run here, or the workers get them, or another receiver."""

import asyncio
import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from fnmatch import fnmatchcase

import click

from receiver.cli.common.confirm import agreed
from receiver.cli.common.exit_codes import FAILED, INTERRUPTED, OK
from receiver.cli.common.filters import with_whole_job_id
from receiver.cli.common.handler_code import import_router
from receiver.cli.common.interrupt import ending_at_interrupt
from receiver.cli.common.names import hint
from receiver.cli.common.output import flush, note
from receiver.cli.common.store import configured_store
from receiver.cli.replay.flags import ReplayFlags, ReplayMode, replay_options
from receiver.cli.replay.plan import opened_bundle, show_plan
from receiver.cli.replay.request import ReplayRequest, check_combination
from receiver.core.ports.reports import Reports
from receiver.core.ports.store import Store
from receiver.errors import ConfigurationError
from receiver.replay.selection import Selection
from receiver.routing import Handler, Router
from receiver.runtime.event_loop import run
from receiver.runtime.logs import configure_logs
from receiver.settings import Settings, export_env_file, load_settings


@click.command()
@replay_options
def replay(flags: ReplayFlags) -> int:
    """Run handlers on stored events again.

    With BUNDLE, a file of `receiver events export`, the events come from there. Handlers run here now, in the order
    of arrival, with `ctx.trigger == "replay"`, those with run_in="process" in a thread. A failed handler is not
    retried, the store does not change, and the exit code is 1 if one failed, if BUNDLE is damaged, or if the store
    cannot read some bodies, which are left out. Two other modes: --enqueue leaves the events to the workers, --to
    URL sends them to another receiver. The command shows a plan first.
    """
    check_combination(flags)
    if flags.reload and not flags.dry_run:
        return _watch(flags)
    settings = load_settings(store=flags.store, handlers=flags.router)
    configure_logs(level=settings.log_level, as_json=settings.json_logs)
    export_env_file()
    router = _router(settings, flags)
    handlers = _chosen_handlers(router, flags.handler_globs)
    try:
        # --no-network cannot see the connections of uvloop.
        return run(_replay(settings, router, handlers, flags), fastest=not flags.no_network)
    except (asyncio.CancelledError, KeyboardInterrupt):  # the second Ctrl-C or SIGTERM
        flush()
        os._exit(INTERRUPTED)  # the interpreter would wait for a plain handler, which nothing can cancel


def _watch(flags: ReplayFlags) -> int:
    from receiver.cli.common.reloading import run_and_watch

    plan = replace(flags, dry_run=True).arguments()
    once = replace(flags, reload=False, yes=True, planned=True).arguments()
    return run_and_watch(plan, once, yes=flags.yes)


def _router(settings: Settings, flags: ReplayFlags) -> Router:
    if flags.mode is ReplayMode.SEND:
        return Router()
    router = import_router(settings)
    if not len(router):
        raise ConfigurationError(f"{settings.handlers} has no handlers: nothing would run")
    return router


def _chosen_handlers(router: Router, globs: Sequence[str]) -> Sequence[Handler]:
    """Return the handlers that match one of the globs; all of them if there is no glob."""
    for glob in globs:
        if not any(fnmatchcase(handler.name, glob) for handler in router):
            names = ", ".join(handler.name for handler in router)
            raise click.BadParameter(
                f"no handler matched {glob!r}; the handlers are {names}", param_hint="--handler"
            )
    return [handler for handler in router if not globs or any(fnmatchcase(handler.name, one) for one in globs)]


async def _replay(settings: Settings, router: Router, handlers: Sequence[Handler], flags: ReplayFlags) -> int:
    async with AsyncExitStack() as stack:
        if flags.bundle is None:
            return await _replay_from(configured_store(settings), settings, router, handlers, flags)
        opened = await stack.enter_async_context(opened_bundle(flags.bundle, max_body=settings.max_body))
        code = await _replay_from(opened.store, settings, router, handlers, flags)
        is_wrong = opened.is_damaged and not flags.reload  # the plan of --reload: it goes on with what is there
        return FAILED if code == OK and is_wrong else code


async def _replay_from(
    store: Store, settings: Settings, router: Router, handlers: Sequence[Handler], flags: ReplayFlags
) -> int:
    async with AsyncExitStack() as stack:
        outer = await stack.enter_async_context(AsyncExitStack())
        reports = await stack.enter_async_context(store.reports())
        selection = await _selection(reports, handlers, flags)
        plan = await reports.plan(selection.wanted, after=selection.after, by_job=selection.by_job)
        if not plan.count or plan.last_at is None:
            note(f"no event matched{await hint(reports, selection.wanted)}")
            return OK
        # Events that arrive from now on belong to another replay, also if this one is stopped and continued.
        until = selection.wanted.until or plan.last_at + timedelta(microseconds=1)
        selection = replace(selection, wanted=replace(selection.wanted, until=until))
        if not flags.planned:
            await show_plan(plan, reports, selection, flags)
        if flags.dry_run:
            return OK
        if not flags.planned and not _agreed(flags):
            return FAILED
        request = ReplayRequest(settings, store, reports, router, selection, plan, flags, outer)
        code = await _carry_out(request)
        left_out = request.unreadable.tell()
        return left_out if code == OK else code


async def _selection(reports: Reports, handlers: Sequence[Handler], flags: ReplayFlags) -> Selection:
    wanted = await with_whole_job_id(reports, flags.wanted)
    if flags.handler_globs and wanted.failed:
        wanted = replace(wanted, handler=tuple(flags.handler_globs))
    where = None if flags.where is None else flags.where.holds
    return Selection(wanted, handlers, where, flags.by_job, flags.after)


def _agreed(flags: ReplayFlags) -> bool:
    with ending_at_interrupt():
        return agreed(flags.mode.value[1], yes=flags.yes)


async def _carry_out(request: ReplayRequest) -> int:
    match request.flags.mode:
        case ReplayMode.HERE:
            from receiver.cli.replay.local import run_here

            return await run_here(request)
        case ReplayMode.ENQUEUE:
            from receiver.cli.replay.elsewhere import enqueue

            return await enqueue(request)
        case ReplayMode.SEND:
            from receiver.cli.replay.elsewhere import send

            return await send(request)
