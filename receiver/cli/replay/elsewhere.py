"""Replays that run elsewhere: as new work for the workers, or as deliveries to another receiver."""

import asyncio
import random
from collections import defaultdict, deque
from collections.abc import AsyncIterator
from dataclasses import dataclass

from receiver.cli.common.confirm import say, to_its_end
from receiver.cli.common.exit_codes import FAILED, INTERRUPTED, OK
from receiver.cli.common.interrupt import stopping_at_interrupt
from receiver.cli.common.output import note
from receiver.cli.common.progress import ProgressLines, lines_and_progress
from receiver.cli.replay.request import ReplayRequest
from receiver.cli.send import SendSummary, make_sender
from receiver.core.bulk import Cursor
from receiver.core.clock import SystemClock
from receiver.core.ports.controls import Controls
from receiver.core.text import counted
from receiver.core.work import NewWork
from receiver.replay.requeue import new_work, with_new_id
from receiver.service.sender import SendResult

MAX_ITEMS = 100
"""Work items of one transaction: acks wait for the write lock."""
MAX_CONCURRENT = 16


async def enqueue(replaying: ReplayRequest) -> int:
    """Make new work items; return the exit code."""
    enqueuing = _Enqueuing(replaying, await replaying.controls())
    try:
        with (
            lines_and_progress("enqueuing", replaying.plan.count) as lines,
            stopping_at_interrupt("these work items") as stop,
        ):
            finished = await enqueuing.go_through(stop, lines)
    except BaseException:
        enqueuing.tell_how_to_go_on()
        raise
    if not finished:
        enqueuing.tell_how_to_go_on()
        return INTERRUPTED
    write = note if replaying.options.as_json else say
    write(f"enqueued {counted(enqueuing.made, 'work item')}; workers run them as soon as they get to them")
    return OK


class _Enqueuing:
    """Makes the work items of what was chosen, and knows up to where all have been made."""

    def __init__(self, replaying: ReplayRequest, controls: Controls) -> None:
        self.made = 0
        self._place = self._reached = replaying.choice.after
        self._replaying = replaying
        self._controls = controls
        self._gathered: list[NewWork] = []

    async def go_through(self, stop: asyncio.Event, lines: ProgressLines) -> bool:
        """Make them until somebody stops it; return False for that."""
        choice, router = self._replaying.choice, self._replaying.router
        finished = True
        async for chosen in choice.of(self._replaying.reports):
            if stop.is_set():
                finished = False
                break
            if chosen.fits:
                self._gathered += new_work(chosen, choice.handlers, router, SystemClock().now())
            self._reached = Cursor.at(chosen.stored, by_job=choice.by_job)
            lines.advance(1)
            if len(self._gathered) >= MAX_ITEMS:
                await to_its_end(self._make())
        await to_its_end(self._make())
        return finished

    def tell_how_to_go_on(self) -> None:
        """Say how much was made, and how to continue."""
        note(f"stopped: {counted(self.made, 'work item')} were made")
        self._replaying.tell_how_to_go_on(self._place)

    async def _make(self) -> None:
        self.made += await self._controls.enqueue(self._gathered, now=SystemClock().now())
        self._gathered.clear()
        self._place = self._reached


async def send(replaying: ReplayRequest) -> int:
    """Send the deliveries to another receiver, as the service would; return the exit code.

    One that does not answer, or is not able to store, ends it: there is a place to go on from.
    """
    options = replaying.options
    sender = make_sender(replaying.settings, options.url, MAX_CONCURRENT if options.rate else 1)
    sending = _Sending(replaying)
    try:
        with (
            lines_and_progress("sending", replaying.plan.count) as lines,
            stopping_at_interrupt("what is on its way") as stop,
        ):
            tally = SendSummary(options.as_json, write=lines.write)

            def report(body: bytes, result: SendResult) -> None:
                tally.report(body, result)
                lines.advance(1)
                if result.status is None or result.status >= 500:
                    sending.failed = True
                else:
                    sending.answered(body)

            async with sender:
                await sender.send_all(sending.bodies(stop), report, rate=options.rate)
    except BaseException:
        replaying.tell_how_to_go_on(sending.place)
        raise
    if not options.as_json:
        say(tally.summary(sender.address))
    for meaning, number in tally.meanings.most_common():
        note(f"receiver: {number} not taken: {meaning}")
    if sending.failed or sending.left_off:
        replaying.tell_how_to_go_on(sending.place)
    if sending.left_off and not sending.failed:
        return INTERRUPTED
    return FAILED if tally.meanings else OK


@dataclass(slots=True)
class _UnderWay:
    """A delivery that was sent, the place just after it, and whether it was answered."""

    place: Cursor
    answered: bool = False


class _Sending:
    """Hands out the bodies to send, and knows up to where all have been answered, in whatever order."""

    def __init__(self, replaying: ReplayRequest) -> None:
        self.place = replaying.choice.after
        self.failed = False
        self.left_off = False
        self._replaying = replaying
        self._in_order: deque[_UnderWay] = deque()
        self._by_body: defaultdict[int, list[_UnderWay]] = defaultdict(list)

    async def bodies(self, stop: asyncio.Event) -> AsyncIterator[bytes]:
        """Yield the bodies of what was chosen, until somebody stops it or one fails."""
        choice, rng = self._replaying.choice, random.Random()  # noqa: S311 - ids that need not be secret
        async for chosen in choice.of(self._replaying.reports):
            if stop.is_set() or self.failed:
                break
            if chosen.fits:
                stored = chosen.stored
                body = with_new_id(stored, rng) if self._replaying.options.new_ids else stored.delivery.body
                one = _UnderWay(Cursor.at(stored, by_job=choice.by_job))
                self._in_order.append(one)
                self._by_body[id(body)].append(one)  # the sender keeps it until it is answered
                yield body
        else:
            return
        self.left_off = True

    def answered(self, body: bytes) -> None:
        """Take note of an answer."""
        under_way = self._by_body[id(body)]
        under_way.pop().answered = True
        if not under_way:
            del self._by_body[id(body)]
        while self._in_order and self._in_order[0].answered:
            self.place = self._in_order.popleft().place
