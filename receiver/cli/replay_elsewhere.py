"""Replays that run elsewhere: as new work for the workers, or as deliveries to another receiver."""

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass

from receiver.cli.main import FAILED, INTERRUPTED, OK
from receiver.cli.output import counted, note
from receiver.cli.plans import say
from receiver.cli.progress import lines_and_progress
from receiver.cli.replay import Replaying
from receiver.cli.send import Tally, make_sender
from receiver.cli.stopping import stopping_at_interrupt
from receiver.clock import SystemClock
from receiver.keeping import Cursor
from receiver.records import NewWork
from receiver.replay.again import new_work, with_new_id
from receiver.sender import SendResult

_TOGETHER = 500
"""Work items of one transaction: acks wait for the write lock."""
_AT_ONE_TIME = 16


async def enqueue(replaying: Replaying) -> int:
    """Make new work items; return the exit code."""
    choice = replaying.choice
    place, made, stopped = choice.after, 0, False
    gathered: list[NewWork] = []
    async with replaying.store.controls() as controls:
        with lines_and_progress("enqueuing", replaying.plan.count) as lines:
            try:
                with stopping_at_interrupt("these work items") as stop:
                    async for chosen in choice.of(replaying.reports):
                        now = SystemClock().now()
                        if chosen.fits:
                            gathered += new_work(chosen, choice.handlers, replaying.router, now)
                        lines.advance(1)
                        if len(gathered) >= _TOGETHER or stop.is_set():
                            made += await controls.enqueue(gathered, now=now)
                            gathered.clear()
                            place = Cursor.at(chosen.stored, by_job=choice.by_job)
                        if stop.is_set():
                            stopped = True
                            break
                    made += await controls.enqueue(gathered, now=SystemClock().now())
            except BaseException:
                _tell(replaying, place, made)
                raise
    if stopped:
        _tell(replaying, place, made)
        return INTERRUPTED
    say(f"enqueued {counted(made, 'work item')}; workers run them as soon as they get to them")
    return OK


def _tell(replaying: Replaying, place: Cursor | None, made: int) -> None:
    note(f"stopped: {counted(made, 'work item')} were made")
    replaying.tell_how_to_go_on(place)


async def send(replaying: Replaying) -> int:
    """Send the deliveries to another receiver, as the service would; return the exit code.

    One that does not answer, or is not able to store, ends it: there is a place to go on from.
    """
    options = replaying.options
    sender = make_sender(replaying.settings, options.url, _AT_ONE_TIME if options.rate else 1)
    sending = _Sending(replaying)
    with lines_and_progress("sending", replaying.plan.count) as lines:
        tally = Tally(options.as_json, write=lines.write)
        try:
            with stopping_at_interrupt("what is on its way") as stop:

                def report(body: bytes, result: SendResult) -> None:
                    tally.report(body, result)
                    lines.advance(1)
                    if result.status is None or result.status >= 500:
                        sending.failed = True
                    else:
                        sending.answered(body)

                async with sender:
                    await sender.send_all(sending.bodies(stop), report, rate=options.rate)
                stopped = stop.is_set()
        except BaseException:
            replaying.tell_how_to_go_on(sending.place)
            raise
    if not options.as_json:
        say(tally.summary(sender.address))
    for meaning, number in tally.meanings.most_common():
        note(f"receiver: {number} not taken: {meaning}")
    if stopped or sending.failed:
        replaying.tell_how_to_go_on(sending.place)
    return INTERRUPTED if stopped else FAILED if tally.meanings else OK


@dataclass(slots=True)
class _UnderWay:
    """A delivery that was sent, the place just after it, and whether it was answered."""

    place: Cursor
    answered: bool = False


class _Sending:
    """Hands out the bodies to send, and knows up to where all have been answered, in whatever order."""

    def __init__(self, replaying: Replaying) -> None:
        self.place = replaying.choice.after
        self.failed = False
        self._replaying = replaying
        self._in_order: deque[_UnderWay] = deque()
        self._by_body: dict[int, _UnderWay] = {}

    async def bodies(self, stop: asyncio.Event) -> AsyncIterator[bytes]:
        """Yield the bodies of what was chosen, until somebody stops it or one fails."""
        choice, rng = self._replaying.choice, random.Random()  # noqa: S311 - ids that need not be secret
        async for chosen in choice.of(self._replaying.reports):
            if stop.is_set() or self.failed:
                return
            if chosen.fits:
                stored = chosen.stored
                body = with_new_id(stored, rng) if self._replaying.options.new_ids else stored.delivery.body
                one = _UnderWay(Cursor.at(stored, by_job=choice.by_job))
                self._in_order.append(one)
                self._by_body[id(body)] = one  # the sender keeps it until it is answered
                yield body

    def answered(self, body: bytes) -> None:
        """Take note of an answer."""
        self._by_body.pop(id(body)).answered = True
        while self._in_order and self._in_order[0].answered:
            self.place = self._in_order.popleft().place
