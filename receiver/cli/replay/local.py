"""`receiver replay` with handlers in this process: it prints each result, and can be stopped and continued."""

import asyncio
import io
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager, redirect_stdout, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO

from receiver.cli.common.confirm import say, to_its_end
from receiver.cli.common.exit_codes import FAILED, INTERRUPTED, OK
from receiver.cli.common.interrupt import stopping_at_interrupt
from receiver.cli.common.output import ProgressLines, duration, lines_and_progress, note, terminal_width
from receiver.cli.common.store import ActionCount, clock_of, recording
from receiver.cli.common.tables import wrapped
from receiver.cli.replay.request import ReplayRequest
from receiver.core.bulk import Cursor
from receiver.core.clock import Clock
from receiver.core.ports.store import Controls
from receiver.core.text import counted, escape_controls, short_id, shortened
from receiver.core.types import AttemptOutcome, HandlerName, WorkState
from receiver.core.work import RecordedRun
from receiver.errors import ConfigurationError, ReceiverError
from receiver.replay.frozen_time import FrozenTime
from receiver.replay.local import LocalRun, LocalRunner
from receiver.replay.network import no_network
from receiver.replay.outcomes import Change, Earlier, RunResult, header, read_results, seek_end
from receiver.routing.context import AskOnce
from receiver.running import open_replay
from receiver.runtime.tracebacks import user_frames
from receiver.stores.sqlite.system_files import require_no_companion


class SaveFile:
    """Writes lines of results, each to the file at once."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self._file = file
        self._name = name

    def write(self, line: bytes) -> None:
        """Write a line; raises ReceiverError if it cannot be written, as on a full disk."""
        try:
            self._file.write(line)
            self._file.flush()
        except OSError as exc:
            raise ReceiverError(f"cannot write {self._name}: {exc.strerror}") from exc


@contextmanager
def saving_to(path: Path, *, continues: bool) -> Iterator[SaveFile]:
    """Give a file for results. It replaces an earlier one, and says so, or with `continues` appends to it.

    Raises ConfigurationError for a file with other contents or of a database, and does not change it.
    """
    name = escape_controls(str(path))
    require_no_companion(path)
    has_some = path.is_file() and path.stat().st_size > 0
    try:
        file = path.open("r+b" if has_some else "wb")
    except OSError as exc:
        raise ConfigurationError(f"cannot write {name}: {exc.strerror}") from None
    saved = SaveFile(file, name)
    try:
        if has_some:
            seek_end(file, name)
        if has_some and not continues:
            note(f"{name}: these results replace those of an earlier replay")
            file.seek(0)
            file.truncate()
        if not (has_some and continues):
            saved.write(header())
        yield saved
    finally:
        with suppress(OSError):  # a line that could not be written was an error already
            file.close()


@contextmanager
def earlier_in(path: Path) -> Iterator[Earlier]:
    """Give the results that an earlier replay saved; raises ConfigurationError for another file."""
    name = escape_controls(str(path))
    try:
        with path.open("rb") as file:
            earlier = Earlier(read_results(file, name))
    except OSError as exc:
        raise ConfigurationError(f"cannot read {name}: {exc.strerror}") from None
    with earlier:
        yield earlier


_SHOWN_VALUE = 200
_BELOW = " " * 4
"""What stands before the further lines of a result."""


class ReplayReport:
    """Counts results, prints them, and writes them to a file."""

    def __init__(self, *, as_json: bool, save: SaveFile | None, earlier: Earlier | None) -> None:
        self.failed = False
        """Whether a handler failed; with an earlier run, whether one failed that did not fail there."""
        self._results: Counter[tuple[HandlerName, str]] = Counter()
        self._changes: Counter[Change] = Counter()
        self._as_json = as_json
        self._save = save
        self._earlier = earlier
        self._width = terminal_width()

    def add(self, ran: LocalRun, lines: ProgressLines) -> None:
        """Count one result and write its line."""
        outcome = RunResult.of(ran)
        self._results[ran.handler.name, outcome.outcome] += 1
        if self._save is not None:
            self._save.write(f"{outcome.line()}\n".encode())
        if self._earlier is None:
            self.failed |= outcome.failed
            self._print(lines, outcome.outcome, outcome, ran)
            return
        change, before = self._earlier.compare(outcome)
        self._changes[change] += 1
        self.failed |= outcome.failed and change in (Change.NEWLY_FAILING, Change.ADDED)
        self._print(lines, f"{change.value:<13}", outcome, ran, before, change)

    def summary(self, *, is_complete: bool) -> Sequence[str]:
        """Return the counts by handler and outcome, and the changes.

        Results that only the earlier run has are counted as missing only if this run is complete.
        """
        lines = [counted(self._results.total(), "result")]
        lines += [f"    {number:>11,}  {word:<10} {name}" for (name, word), number in sorted(self._results.items())]
        if self._earlier is not None:
            if is_complete:
                self._changes[Change.MISSING] = self._earlier.missing()
            lines += ["compared with the earlier run"]
            shown = [one for one in Change if is_complete or one is not Change.MISSING]
            lines += [f"    {self._changes[change]:>11,}  {change.value}" for change in shown]
        return lines

    def _print(
        self,
        lines: ProgressLines,
        word: str,
        outcome: RunResult,
        ran: LocalRun,
        before: str | None = None,
        change: Change | None = None,
    ) -> None:
        if self._as_json:
            more = {} if change is None else {"change": change.value, "before": before}
            lines.write(outcome.line(**more))
        elif change is not Change.SAME:
            _write(lines, word, outcome, ran, self._width)
            if change is not None:
                now = _cut(outcome.text)
                lines.write(f"    before   {_cut(before or 'nothing')}\n    now      {now}")


def _write(lines: ProgressLines, word: str, outcome: RunResult, ran: LocalRun, width: int | None) -> None:
    error = "" if outcome.error is None else f"  {outcome.error}"
    ran_for = duration(timedelta(seconds=outcome.seconds))
    cells = f"{word:<10} {outcome.type:<22} {short_id(outcome.id):<15} {outcome.handler}  {ran_for}{error}"
    below = [part for line in _where(ran) for part in wrapped(_BELOW, escape_controls(line), width)]
    lines.write("\n".join([*wrapped("", escape_controls(cells), width, below=_BELOW), *below]))


def _where(ran: LocalRun) -> Sequence[str]:
    """Return lines that show where a handler failed: its traceback, or for a time-out what the worker logs."""
    if ran.error is not None and ran.attempt.outcome is AttemptOutcome.TIMED_OUT:
        return user_frames(ran.error)  # the rest of the traceback is how we end a handler
    return [] if ran.traceback is None else ran.traceback.rstrip().split("\n")


def _cut(value: str) -> str:
    return escape_controls(shortened(value, _SHOWN_VALUE))


MAX_ITEMS = 100
"""Results that one transaction records. It is small, because acks wait for the write lock."""


async def run_here(request: ReplayRequest) -> int:
    """Run the handlers; return the exit code."""
    flags = request.flags
    async with AsyncExitStack() as stack:
        earlier = None if flags.compare is None else stack.enter_context(earlier_in(flags.compare))
        continues = request.selection.after is not None
        save = None if flags.save is None else stack.enter_context(saving_to(flags.save, continues=continues))
        controls = await request.controls() if flags.record else None
        clock = await stack.enter_async_context(clock_of(request.store))
        recorded = None
        if controls is not None:
            count = request.plan.count
            about = f"runs of handlers for {counted(count, 'event')}"
            recorded = await stack.enter_async_context(
                recording(controls, request.store, "record", about, planned=count)
            )
        runner = await _runner(request, clock, stack)
        report = ReplayReport(as_json=flags.as_json, save=save, earlier=earlier)
        finished = await _Run(request, runner, report, controls, clock, recorded).carry_out()
        summary = report.summary(is_complete=finished and not continues)
    if not flags.as_json:
        for line in summary:
            say(line)
    if not finished:
        return INTERRUPTED
    return FAILED if report.failed else OK


async def _runner(request: ReplayRequest, clock: Clock, stack: AsyncExitStack) -> LocalRunner:
    """Make the runner of the handlers, with the clock and the network that the flags ask for."""
    flags, selection = request.flags, request.selection
    ask_once = _once_in_this_run()
    if flags.record:
        queue = await stack.enter_async_context(request.store.queue())
        # Not the frozen time: the moment decides how long the store keeps the key.
        ask_once = lambda handler, key, _: queue.once(handler, key, now=clock.now())  # noqa: E731
    if flags.no_network:
        stack.enter_context(no_network())
    frozen = FrozenTime() if flags.frozen_time else None
    opening = open_replay(
        request.settings, request.router, selection.handlers, ask_once=ask_once, clock=clock, frozen=frozen
    )
    runner = await stack.enter_async_context(opening)
    if frozen is not None:
        stack.enter_context(frozen.shown_to(Path.cwd()))
    return runner


class _Run:
    """Runs the handlers on the chosen events. All events up to `place` are finished, and recorded with --record."""

    def __init__(
        self,
        request: ReplayRequest,
        runner: LocalRunner,
        report: ReplayReport,
        controls: Controls | None,
        clock: Clock,
        recorded: ActionCount | None,
    ) -> None:
        self.place = self._reached = request.selection.after
        self._request = request
        self._runner = runner
        self._report = report
        self._controls = controls
        self._clock = clock
        self._recorded = recorded
        self._seen = 0
        self._to_record: list[RecordedRun] = []

    async def carry_out(self) -> bool:
        """Run the handlers until the stop; return whether all have run. After a stop, print how to continue."""
        try:
            with (
                lines_and_progress("replaying", self._request.plan.count) as lines,
                _prints(to_stderr=self._request.flags.as_json),
                stopping_at_interrupt("this event") as stop,
            ):
                try:
                    finished = await self._go_through(stop, lines)
                finally:  # record what ran also after an error, so that it does not run again
                    await to_its_end(self._record())
        except BaseException:
            self._request.note_continuation(self.place)
            raise
        if not finished:
            self._request.note_continuation(self.place)
        return finished

    async def _go_through(self, stop: asyncio.Event, lines: ProgressLines) -> bool:
        selection = self._request.selection
        last, finished = selection.after, True
        async for chosen in self._request.chosen():
            if stop.is_set():
                finished = False
                break
            if chosen.fits:
                self._take(await self._runner.run(chosen.stored, chosen.only), lines)
            last = Cursor.at(chosen.stored, by_job=selection.by_job)
            lines.advance(1)
            self._seen += 1
            if not self._runner.waiting:
                self._reached = last
            if len(self._to_record) >= MAX_ITEMS:
                await to_its_end(self._record())
        self._take(await self._runner.finish(), lines)
        self._reached = last
        return finished

    def _take(self, results: Sequence[LocalRun], lines: ProgressLines) -> None:
        for ran in results:
            self._report.add(ran, lines)
            if self._controls is not None:
                succeeded = ran.attempt.outcome is AttemptOutcome.SUCCEEDED
                state = WorkState.DONE if succeeded else WorkState.DEAD
                self._to_record.append(RecordedRun(ran.stored.seq, ran.handler.name, ran.attempt, state))

    async def _record(self) -> None:
        if self._controls is not None and self._to_record:
            number = None if self._recorded is None else self._recorded.number
            await self._controls.record(self._to_record, now=self._clock.now(), action=number, seen=self._seen)
            self._to_record.clear()
            self._seen = 0
        self.place = self._reached


@contextmanager
def _prints(*, to_stderr: bool) -> Iterator[None]:
    """Send the prints of handlers to standard error, apart from JSON, or keep them in order with our lines."""
    if to_stderr:
        with redirect_stdout(sys.stderr):
            yield
    else:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(write_through=True)
        yield


def _once_in_this_run() -> AskOnce:
    """Answer `ctx.once` for this run alone; earlier runs do not count."""
    asked: set[tuple[HandlerName, str]] = set()

    async def ask(handler: HandlerName, key: str, now: datetime) -> bool:
        first = (handler, key) not in asked
        asked.add((handler, key))
        return first

    return ask
