"""`receiver replay --enqueue`: new work items for the workers."""

import asyncio

from receiver.cli.common.confirm import say, to_its_end
from receiver.cli.common.exit_codes import INTERRUPTED, OK
from receiver.cli.common.interrupt import stopping_at_interrupt
from receiver.cli.common.output import note
from receiver.cli.common.progress import ProgressLines, lines_and_progress
from receiver.cli.common.recording import ActionCount, recording
from receiver.cli.common.store import clock_of
from receiver.cli.replay.request import ReplayRequest
from receiver.core.bulk import Cursor
from receiver.core.clock import Clock
from receiver.core.ports.controls import Controls
from receiver.core.recording import STOPPED
from receiver.core.text import counted
from receiver.core.work import NewWork
from receiver.errors import ReceiverError
from receiver.replay.requeue import new_work

MAX_ITEMS = 100
"""Work items of one transaction. It is small, because acks wait for the write lock."""


class _Interrupted(ReceiverError):
    """Somebody has stopped the command."""


async def enqueue(request: ReplayRequest) -> int:
    """Make new work items; return the exit code."""
    controls, count = await request.controls(), request.plan.count
    about = f"handlers of {counted(count, 'event')}"
    clock = await request.outer.enter_async_context(clock_of(request.store))
    try:
        async with recording(controls, request.store, "run again", about, planned=count) as recorded:
            made = await _enqueue(_Enqueuing(request, controls, clock, recorded), count)
    except _Interrupted:
        return INTERRUPTED
    write = note if request.flags.as_json else say
    write(f"enqueued {counted(made, 'work item')}; workers run them as soon as they can")
    return OK


async def _enqueue(enqueuing: "_Enqueuing", count: int) -> int:
    """Make the work items, and return how many. Whatever stops it, standard error says how to continue."""
    try:
        with lines_and_progress("enqueuing", count) as lines, stopping_at_interrupt("these work items") as stop:
            if not await enqueuing.go_through(stop, lines):
                raise _Interrupted(STOPPED)
    except BaseException:
        enqueuing.note_continuation()
        raise
    return enqueuing.made


class _Enqueuing:
    """Makes the work items of the chosen events, and knows up to which place all have been made."""

    def __init__(self, request: ReplayRequest, controls: Controls, clock: Clock, recorded: ActionCount) -> None:
        self.made = 0
        self._place: Cursor | None = request.selection.after
        self._reached = self._place
        self._request = request
        self._controls = controls
        self._clock = clock
        self._recorded = recorded
        self._seen = 0
        self._gathered: list[NewWork] = []

    async def go_through(self, stop: asyncio.Event, lines: ProgressLines) -> bool:
        """Make the work items until the stop; return whether all were made."""
        selection, router = self._request.selection, self._request.router
        finished = True
        async for chosen in self._request.chosen():
            if stop.is_set():
                finished = False
                break
            if chosen.fits:
                self._gathered += new_work(chosen, selection.handlers, router, self._clock.now())
            self._reached = Cursor.at(chosen.stored, by_job=selection.by_job)
            self._seen += 1
            lines.advance(1)
            if len(self._gathered) >= MAX_ITEMS:
                await to_its_end(self._make())
        await to_its_end(self._make())
        return finished

    def note_continuation(self) -> None:
        """Say how many were made, and how to continue."""
        note(f"stopped: {counted(self.made, 'work item')} were made")
        self._request.note_continuation(self._place)

    async def _make(self) -> None:
        number, now = self._recorded.number, self._clock.now()
        self.made += await self._controls.enqueue(self._gathered, now=now, action=number, seen=self._seen)
        self._gathered.clear()
        self._seen = 0
        self._place = self._reached
