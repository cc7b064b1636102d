"""The plan of a replay, shown before anybody agrees to it."""

import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from receiver.cli.common.confirm import plan_lines, say
from receiver.cli.common.output import flush, note, terminal_width, write_line
from receiver.cli.common.progress import progress
from receiver.cli.common.store import store_at
from receiver.cli.replay.flags import ReplayFlags, ReplayMode
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
from receiver.routing import Handler


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
        type=wanted.type,
        job_id=wanted.job_id,
        since=wanted.since,
        until=wanted.until,
        handler=handlers,
        among=OPEN,
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
    """Tell whether events are chosen by more than that filter of their work knows."""
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


# FOLDED: A bundle as a store: its events in a temporary database, so that every filter and order works.
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
        store = store_at(Path(folder) / "bundle.db")
        async with store.log():
            pass  # this makes the database
        async with store.controls() as controls:
            with progress("reading", bundle.header.count) as advance:
                undamaged = _Undamaged(bundle, shown)
                for batch in batches(undamaged, MAX_ITEMS, MAX_BYTES, _size_of):
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


def _size_of(one: Imported) -> int:
    return len(one.delivery.body)
