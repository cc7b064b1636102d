"""Alerts on every store: two processes that watch the same one tell a thing once."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from receiver.core.attention import AttentionLimits, ConcernKind
from receiver.core.clock import VirtualClock
from receiver.core.ports.queue import OnceKeys
from receiver.core.ports.reports import Reports
from receiver.signals.alerts.posting import AlertPoster
from receiver.signals.alerts.watching import EVERY, AlertWatch
from tests.doubles import NOON
from tests.stores.opened import DEAD, Opened


async def test_two_processes_tell_a_thing_once(opened: Opened) -> None:
    """And that it is well again, also when the first has ended meanwhile."""
    posted: list[bytes] = []

    def answer(request: httpx.Request) -> httpx.Response:
        posted.append(request.content)
        return httpx.Response(200)

    @asynccontextmanager
    async def reports() -> AsyncIterator[Reports]:
        yield opened.reports

    clock = VirtualClock(NOON)

    def watch(keys: OnceKeys) -> AlertWatch:
        poster = AlertPoster("https://x.example", secret=None, clock=clock, transport=httpx.MockTransport(answer))
        kinds = frozenset({ConcernKind.DEAD})
        return AlertWatch(reports, keys, clock, poster, kinds=kinds, limits=AttentionLimits())

    async def check(*watches: AlertWatch) -> None:
        for _ in range(10):
            clock.advance(EVERY)
            for one in watches:
                await one.check()

    first, second = watch(opened.queue), watch(opened.other)
    work_id = await opened.in_state(DEAD)
    await check(first, second)
    [told] = posted
    assert b"1 dead in one" in told

    await opened.controls.retry([work_id], now=clock.now())
    await check(second)
    assert b"nothing is dead in one any more" in posted[1]
    assert len(posted) == 2
