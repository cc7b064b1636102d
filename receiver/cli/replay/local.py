"""Handlers run here and now: each result is told and kept, and a replay that is stopped can be continued."""

import asyncio
import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager, redirect_stdout
from datetime import datetime
from pathlib import Path

from receiver.app import open_replay
from receiver.cli.common.confirm import say, to_its_end
from receiver.cli.common.exit_codes import FAILED, INTERRUPTED, OK
from receiver.cli.common.interrupt import stopping_at_interrupt
from receiver.cli.common.progress import ProgressLines, lines_and_progress
from receiver.cli.replay.report import ReplayReport
from receiver.cli.replay.request import ReplayRequest
from receiver.cli.replay.saving import earlier_in, saving_to
from receiver.core.bulk import Cursor
from receiver.core.clock import SystemClock
from receiver.core.ports.controls import Controls
from receiver.core.types import AttemptOutcome, HandlerName, WorkState
from receiver.core.work import RecordedRun
from receiver.replay.frozen_time import FrozenTime
from receiver.replay.local import LocalRun, LocalRunner
from receiver.replay.network import no_network
from receiver.routing.context import AskOnce

MAX_ITEMS = 100
"""Results that one transaction records: acks wait for the write lock."""


async def run_here(replaying: ReplayRequest) -> int:
    """Run the handlers; return the exit code."""
    options = replaying.options
    async with AsyncExitStack() as stack:
        earlier = None if options.compare is None else stack.enter_context(earlier_in(options.compare))
        going_on = replaying.choice.after is not None
        save = None if options.save is None else stack.enter_context(saving_to(options.save, going_on=going_on))
        controls = await replaying.controls() if options.record else None
        here = await _opened(replaying, stack)
        report = ReplayReport(as_json=options.as_json, save=save, earlier=earlier)
        finished = await _Run(replaying, here, report, controls).carry_out()
        summary = report.summary(all_of_it=finished and not going_on)
    if not options.as_json:
        for line in summary:
            say(line)
    if not finished:
        return INTERRUPTED
    return FAILED if report.failed else OK


async def _opened(replaying: ReplayRequest, stack: AsyncExitStack) -> LocalRunner:
    """Make what runs the handlers, in the surroundings that were asked for."""
    options, choice = replaying.options, replaying.choice
    ask_once = _asked_here()
    if options.record:
        queue = await stack.enter_async_context(replaying.store.queue())
        # Not the time that handlers are shown: it tells how long this is to be remembered.
        ask_once = lambda handler, key, _: queue.once(handler, key, now=SystemClock().now())  # noqa: E731
    if options.no_network:
        stack.enter_context(no_network())
    frozen = FrozenTime() if options.frozen_time else None
    here = await stack.enter_async_context(
        open_replay(replaying.settings, replaying.router, choice.handlers, ask_once=ask_once, frozen=frozen)
    )
    if frozen is not None:
        stack.enter_context(frozen.shown_to(Path.cwd()))
    return here


class _Run:
    """Goes through what was chosen. `place` is up to where everything has been done and, if asked for, recorded."""

    def __init__(
        self, replaying: ReplayRequest, here: LocalRunner, report: ReplayReport, controls: Controls | None
    ) -> None:
        self.place = self._reached = replaying.choice.after
        self._replaying = replaying
        self._here = here
        self._report = report
        self._controls = controls
        self._to_record: list[RecordedRun] = []

    async def carry_out(self) -> bool:
        """Run the handlers until somebody stops it; return False for that, after saying how to go on."""
        try:
            with (
                lines_and_progress("replaying", self._replaying.plan.count) as lines,
                _prints(apart=self._replaying.options.as_json),
                stopping_at_interrupt("this delivery") as stop,
            ):
                try:
                    finished = await self._go_through(stop, lines)
                finally:  # however it ended: what ran is recorded, so that it does not run again
                    await to_its_end(self._record())
        except BaseException:
            self._replaying.tell_how_to_go_on(self.place)
            raise
        if not finished:
            self._replaying.tell_how_to_go_on(self.place)
        return finished

    async def _go_through(self, stop: asyncio.Event, lines: ProgressLines) -> bool:
        choice = self._replaying.choice
        last, finished = choice.after, True
        async for chosen in choice.of(self._replaying.reports):
            if stop.is_set():
                finished = False
                break
            if chosen.fits:
                self._take(await self._here.run(chosen.stored, chosen.only), lines)
            last = Cursor.at(chosen.stored, by_job=choice.by_job)
            lines.advance(1)
            if not self._here.waiting:
                self._reached = last
            if len(self._to_record) >= MAX_ITEMS:
                await to_its_end(self._record())
        self._take(await self._here.finish(), lines)
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
            await self._controls.record(self._to_record, now=SystemClock().now())
            self._to_record.clear()
        self.place = self._reached


@contextmanager
def _prints(*, apart: bool) -> Iterator[None]:
    """Let what handlers print keep its place among our lines, or go to standard error, apart from JSON."""
    if apart:
        with redirect_stdout(sys.stderr):
            yield
    else:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(write_through=True)
        yield


def _asked_here() -> AskOnce:
    """Answer `ctx.once` for this run alone: what handlers did before it is not asked for."""
    asked: set[tuple[HandlerName, str]] = set()

    async def ask(handler: HandlerName, key: str, now: datetime) -> bool:
        first = (handler, key) not in asked
        asked.add((handler, key))
        return first

    return ask
