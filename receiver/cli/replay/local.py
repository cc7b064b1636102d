"""`receiver replay` with handlers in this process: it prints each result, and can be stopped and continued."""

import asyncio
import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager, redirect_stdout
from datetime import datetime
from pathlib import Path

from receiver.cli.common.confirm import say, to_its_end
from receiver.cli.common.exit_codes import FAILED, INTERRUPTED, OK
from receiver.cli.common.interrupt import stopping_at_interrupt
from receiver.cli.common.progress import ProgressLines, lines_and_progress
from receiver.cli.common.recording import ActionCount, recording
from receiver.cli.common.store import clock_of
from receiver.cli.replay.report import ReplayReport
from receiver.cli.replay.request import ReplayRequest
from receiver.cli.replay.saving import earlier_in, saving_to
from receiver.core.bulk import Cursor
from receiver.core.clock import Clock
from receiver.core.ports.controls import Controls
from receiver.core.text import counted
from receiver.core.types import AttemptOutcome, HandlerName, WorkState
from receiver.core.work import RecordedRun
from receiver.replay.frozen_time import FrozenTime
from receiver.replay.local import LocalRun, LocalRunner
from receiver.replay.network import no_network
from receiver.routing.context import AskOnce
from receiver.running import open_replay

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
    """Answer `ctx.once` for this run alone, whatever the handlers did before."""
    asked: set[tuple[HandlerName, str]] = set()

    async def ask(handler: HandlerName, key: str, now: datetime) -> bool:
        first = (handler, key) not in asked
        asked.add((handler, key))
        return first

    return ask
