"""`receiver replay --enqueue` and `--to`: the events to the workers, or to another receiver."""

import asyncio
import random
from collections import defaultdict, deque
from collections.abc import AsyncIterator
from dataclasses import dataclass

from receiver.cli.common.confirm import say, to_its_end
from receiver.cli.common.exit_codes import FAILED, INTERRUPTED, OK
from receiver.cli.common.interrupt import stopping_at_interrupt
from receiver.cli.common.output import ProgressLines, lines_and_progress, note
from receiver.cli.common.store import ActionCount, clock_of, recording
from receiver.cli.replay.request import ReplayRequest
from receiver.cli.send import SendSummary, make_sender
from receiver.core.bulk import Cursor
from receiver.core.choosing import STOPPED
from receiver.core.clock import Clock
from receiver.core.ports.store import Controls
from receiver.core.text import counted
from receiver.core.work import NewWork
from receiver.errors import ReceiverError
from receiver.replay.requeue import new_work, with_new_id
from receiver.service.sender import SendResult

MAX_ITEMS = 100
"""Work items of one transaction. It is small, because acks wait for the write lock."""


class _Interrupted(ReceiverError):
    """The command was stopped."""


async def enqueue(request: ReplayRequest) -> int:
    """Make new work items; return the exit code. Whatever stops it, standard error says how to continue."""
    controls, count = await request.controls(), request.plan.count
    about = f"handlers of {counted(count, 'event')}"
    clock = await request.outer.enter_async_context(clock_of(request.store))
    try:
        async with recording(controls, request.store, "run again", about, planned=count) as recorded:
            enqueuing = _Enqueuing(request, controls, clock, recorded)
            try:
                with (
                    lines_and_progress("enqueuing", count) as lines,
                    stopping_at_interrupt("these work items") as stop,
                ):
                    if not await enqueuing.go_through(stop, lines):
                        raise _Interrupted(STOPPED)
            except BaseException:
                note(f"stopped: {counted(enqueuing.made, 'work item')} were made")
                request.note_continuation(enqueuing.place)
                raise
    except _Interrupted:
        return INTERRUPTED
    write = note if request.flags.as_json else say
    write(f"enqueued {counted(enqueuing.made, 'work item')}; workers run them as soon as they can")
    return OK


class _Enqueuing:
    """Makes the work items of the chosen events, and knows up to which place all have been made."""

    def __init__(self, request: ReplayRequest, controls: Controls, clock: Clock, recorded: ActionCount) -> None:
        self.made = 0
        self.place: Cursor | None = request.selection.after
        self._reached = self.place
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

    async def _make(self) -> None:
        number, now = self._recorded.number, self._clock.now()
        self.made += await self._controls.enqueue(self._gathered, now=now, action=number, seen=self._seen)
        self._gathered.clear()
        self._seen = 0
        self.place = self._reached


MAX_CONCURRENT = 16


async def send(request: ReplayRequest) -> int:
    """Send the deliveries as the service does; return the exit code.

    It stops when the other receiver does not answer or cannot store, and prints how to continue from there.
    """
    flags = request.flags
    sender = make_sender(request.settings, flags.url, MAX_CONCURRENT if flags.rate else 1)
    sending = _Sending(request)
    try:
        with (
            lines_and_progress("sending", request.plan.count) as lines,
            stopping_at_interrupt("the open requests") as stop,
        ):
            summary = SendSummary(flags.as_json, write=lines.write)

            def report(body: bytes, result: SendResult) -> None:
                summary.report(body, result)
                lines.advance(1)
                if result.status is None or result.status >= 500:
                    sending.failed = True
                else:
                    sending.mark_answered(body)

            async with sender:
                await sender.send_all(sending.bodies(stop), report, rate=flags.rate)
    except BaseException:
        request.note_continuation(sending.place)
        raise
    if not flags.as_json:
        say(summary.summary(sender.address))
    summary.note_failures()
    if sending.failed or sending.stopped:
        request.note_continuation(sending.place)
    if sending.stopped and not sending.failed:
        return INTERRUPTED
    return FAILED if summary.failures else OK


@dataclass(slots=True)
class _OpenRequest:
    """A delivery that was sent, the place just after it, and whether it was answered."""

    place: Cursor
    is_answered: bool = False


class _Sending:
    """Gives the bodies to send, and knows up to which place all have been answered, in any order."""

    def __init__(self, request: ReplayRequest) -> None:
        self.place = request.selection.after
        self.failed = False
        self.stopped = False
        self._request = request
        self._in_order: deque[_OpenRequest] = deque()
        self._by_body: defaultdict[int, list[_OpenRequest]] = defaultdict(list)

    async def bodies(self, stop: asyncio.Event) -> AsyncIterator[bytes]:
        """Yield the bodies of the chosen events, until the stop or the first failure."""
        selection, rng = self._request.selection, random.Random()  # noqa: S311 - ids that need not be secret
        async for chosen in self._request.chosen():
            if stop.is_set() or self.failed:
                self.stopped = True
                return
            if chosen.fits:
                stored = chosen.stored
                body = with_new_id(stored, rng) if self._request.flags.new_ids else stored.delivery.body
                one = _OpenRequest(Cursor.at(stored, by_job=selection.by_job))
                self._in_order.append(one)
                self._by_body[id(body)].append(one)  # the sender keeps the body until it is answered
                yield body

    def mark_answered(self, body: bytes) -> None:
        """Record an answer."""
        same_body = self._by_body[id(body)]
        same_body.pop().is_answered = True
        if not same_body:
            del self._by_body[id(body)]
        while self._in_order and self._in_order[0].is_answered:
            self.place = self._in_order.popleft().place
