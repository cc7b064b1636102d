"""`receiver replay`: stored events again: handlers run here, or the workers get them, or another receiver."""

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from fnmatch import fnmatchcase
from pathlib import Path

import click

from receiver.cli.common.confirm import agreed, plan_lines, say
from receiver.cli.common.exit_codes import FAILED, INTERRUPTED, OK
from receiver.cli.common.filters import hint, with_whole_job_id
from receiver.cli.common.interrupt import ending_at_interrupt
from receiver.cli.common.output import flush, note, progress, terminal_width, write_line
from receiver.cli.common.store import configured_store
from receiver.cli.handlers import import_router
from receiver.cli.replay.request import ReplayFlags, ReplayMode, ReplayRequest, check_combination, replay_options
from receiver.core.batches import batches
from receiver.core.bulk import DeliveryPlan, Imported
from receiver.core.choosing import FIRST
from receiver.core.deliveries import DeliveryFilter, StoredDelivery
from receiver.core.ports.reports import Reports
from receiver.core.ports.store import Store
from receiver.core.text import counted, escape_controls, literal
from receiver.core.types import DeliveryState
from receiver.core.work import WorkFilter
from receiver.core.work_states import OPEN
from receiver.errors import ConfigurationError, NoBundle
from receiver.events import EVENT_CLASSES, UnknownEvent
from receiver.replay.bundles.format import Bundle, Entry, read_bundle
from receiver.replay.selection import Selection
from receiver.routing import Handler, Router
from receiver.runtime.logs import configure_logs
from receiver.runtime.processes import run
from receiver.settings import Settings, export_env_file, load_settings
from receiver.stores import open_store


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
        is_wrong = opened.is_damaged and not flags.reload  # the plan of --reload: it runs what is there
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
        with ending_at_interrupt():
            if not flags.planned and not agreed(flags.mode.value[1], yes=flags.yes):
                return FAILED
        request = ReplayRequest(settings, store, reports, router, selection, plan, flags, outer)
        code = await _carry_out(request)
        left_out = request.unreadable.report()
        return left_out if code == OK else code


async def _selection(reports: Reports, handlers: Sequence[Handler], flags: ReplayFlags) -> Selection:
    wanted = await with_whole_job_id(reports, flags.wanted)
    if flags.handler_globs and wanted.failed:
        wanted = replace(wanted, handler=tuple(flags.handler_globs))
    where = None if flags.where is None else flags.where.holds
    return Selection(wanted, handlers, where, flags.by_job, flags.after)


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


async def show_plan(plan: DeliveryPlan, reports: Reports, selection: Selection, flags: ReplayFlags) -> None:
    """Write the plan to standard output; with --json to standard error.

    If handlers run here, a closed pipe ends the command.
    """
    write = note if flags.as_json else write_line if flags.mode is ReplayMode.HERE else say
    counts = {} if flags.mode is ReplayMode.SEND else _by_handler(plan, selection.handlers)
    by = {"handler": counts} if counts else {}
    first = await _first(reports, selection)
    remarks = [*_remarks(selection, counts)]
    if flags.mode is ReplayMode.ENQUEUE:
        remarks += await _run_besides(reports, selection, counts)
    width = terminal_width(sys.stderr if flags.as_json else sys.stdout)
    for line in (*plan_lines(plan, flags.mode.value[0], first=first, by=by, width=width), *remarks):
        write(line)
    flush()


async def _first(reports: Reports, selection: Selection) -> Sequence[StoredDelivery]:
    first: list[StoredDelivery] = []
    async for stored in reports.iter_deliveries(selection.wanted, after=selection.after, by_job=selection.by_job):
        first.append(stored)
        if len(first) == FIRST:
            break
    return first


def _remarks(selection: Selection, counts: Mapping[str, int]) -> Sequence[str]:
    """Return why fewer events may be replayed than are planned."""
    remarks = []
    narrowing = [
        handler for handler in selection.handlers if handler.where is not None and counts.get(handler.name)
    ]
    if selection.where is not None:
        remarks.append("  --where may leave out some of these: it is checked for each event")
    if selection.wanted.failed:
        remarks.append("  --failed leaves out the handlers that did not fail")
    elif narrowing:
        handlers = counted(len(narrowing), "handler")
        remarks.append(f"  {handlers} of these may get fewer: where= is checked for each event")
    if selection.after is not None:
        remarks.append(f"  left out: the events up to {escape_controls(str(selection.after))} in this order")
    return remarks


async def _run_besides(reports: Reports, selection: Selection, counts: Mapping[str, int]) -> Sequence[str]:
    """Return how much work of the handlers in the plan runs anyway, so that new work items would do it twice."""
    wanted = selection.wanted
    handlers = tuple(literal(name) for name, count in counts.items() if count)
    if not handlers or wanted.state in (DeliveryState.DEAD, DeliveryState.DONE):  # those have no such work
        return ()
    unfinished = WorkFilter(
        type=wanted.type, job_id=wanted.job_id, since=wanted.since, until=wanted.until, handler=handlers, among=OPEN
    )
    count = (await reports.work_plan(unfinished)).count
    if not count:
        return ()
    verb = "is" if count == 1 else "are"
    most = "up to " if _is_narrower(selection, unfinished) else ""
    return (
        f"  {most}{counted(count, 'work item')} for such events {verb} not done yet, and will run besides",
        "  `receiver work-items retry` runs waiting ones at once, and makes no second ones",
    )


def _is_narrower(selection: Selection, unfinished: WorkFilter) -> bool:
    """Return whether events are chosen by more than that filter of their work knows."""
    known = DeliveryFilter(
        type=unfinished.type, job_id=unfinished.job_id, since=unfinished.since, until=unfinished.until
    )
    return selection.wanted != known or selection.where is not None or selection.after is not None


def _by_handler(plan: DeliveryPlan, handlers: Sequence[Handler]) -> Mapping[str, int]:
    """Return how many of the planned events have a type that each handler is for, without those that have none."""
    counts: dict[str, int] = {handler.name: 0 for handler in handlers}
    for name, number in plan.types.items():
        event = EVENT_CLASSES.get(name, UnknownEvent)(type=name)
        for handler in handlers:
            if handler.is_for(event) and not handler.only_later:
                counts[handler.name] += number
    return {name: count for name, count in counts.items() if count} or counts


MAX_ITEMS = 500
MAX_BYTES = 4 * 1024 * 1024
"""Events, and bytes of their bodies, that one transaction stores."""


@dataclass(frozen=True, slots=True)
class OpenedBundle:
    """A store with the undamaged events of a bundle, and whether others are damaged."""

    store: Store
    is_damaged: bool


@asynccontextmanager
async def opened_bundle(path: Path, *, max_body: int) -> AsyncIterator[OpenedBundle]:
    """Give the undamaged events of a bundle, and report damaged lines.

    Raises NoBundle, ConfigurationError if the file cannot be opened, and ReceiverError if it cannot be read.
    """
    shown = escape_controls(str(path))
    with tempfile.TemporaryDirectory(prefix="receiver-replay-") as folder, ExitStack() as stack:
        try:
            file = stack.enter_context(path.open("rb"))
            bundle = read_bundle(file, max_body=max_body)
        except NoBundle as exc:
            raise NoBundle(f"{shown}: {exc}") from None
        except OSError as exc:
            raise ConfigurationError(f"cannot read {shown}: {exc.strerror}") from exc
        store = open_store(f"sqlite:///{folder}/bundle.db")
        async with store.log():
            pass  # this makes the database
        async with store.controls() as controls:
            with progress("reading", bundle.header.count) as advance:
                undamaged = _Undamaged(bundle, shown)
                for batch in batches(undamaged, MAX_ITEMS, MAX_BYTES, lambda one: len(one.delivery.body)):
                    await controls.import_deliveries(batch)
                    advance(len(batch))
        yield OpenedBundle(store, is_damaged=undamaged.damaged > 0)


class _Undamaged:
    """The undamaged events. Going through them reports and counts the damaged places."""

    def __init__(self, bundle: Bundle, shown: str) -> None:
        self.damaged = 0
        self._bundle = bundle
        self._shown = shown

    def __iter__(self) -> Iterator[Imported]:
        for entry in self._bundle.entries:
            if isinstance(entry, Entry):
                yield Imported(entry.delivery, entry.duplicates)
            else:
                self.damaged += 1
                note(f"{self._shown}, line {entry.line}: {escape_controls(entry.reason)}")
        if self.damaged:
            note(f"{counted(self.damaged, 'damaged place')}; the other events are replayed")
