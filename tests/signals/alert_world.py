"""A store, a chat and the processes that watch, for tests of alerts."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import httpx

from receiver.core.attention import AttentionLimits, ConcernKind
from receiver.core.clock import VirtualClock
from receiver.core.deliveries import Quarantined
from receiver.core.types import AttemptOutcome, HandlerName, Trigger, WorkState
from receiver.core.work import Attempt, RecordedRun, WorkFilter
from receiver.errors import StoreError
from receiver.signals.alerts.posting import AlertPoster
from receiver.signals.alerts.watching import EVERY, AlertWatch
from tests.doubles import NOON, OpenStore, appended, delivery

SECOND, MINUTE, HOUR, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
URL = "https://chat.example.com/services/T0/secret-part"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


class Chat:
    """The other side: it keeps what is posted, and answers with `status`."""

    def __init__(self) -> None:
        self.posts: list[httpx.Request] = []
        self.status = 200
        self.transport = httpx.MockTransport(self._answer)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.posts.append(request)
        return httpx.Response(self.status, headers={"location": "https://inner.example.com/"})

    def taken(self) -> list[str]:
        """Return the texts since the last call."""
        posts, self.posts = self.posts, []
        return [json.loads(one.content)["text"] for one in posts]


class FullStore(OpenStore):
    """A store that can be read; what is written fails while its disk is full."""

    full = True

    async def once(self, *given: Any, **named: Any) -> bool:
        if self.full:
            raise StoreError("the disk is full")
        return await super().once(*given, **named)


class World:
    """A store, a clock, a chat, and processes that watch."""

    def __init__(self) -> None:
        self.store, self.clock, self.chat = OpenStore(), VirtualClock(NOON), Chat()
        self.stored = 0
        self.reads = 0
        self.watches = [self.watch()]

    def watch(self, **options: Any) -> AlertWatch:
        poster = AlertPoster(URL, secret=SECRET, clock=self.clock, transport=self.chat.transport)
        given: dict[str, Any] = {
            "kinds": frozenset({ConcernKind.DEAD}),
            "limits": AttentionLimits(),
            "machine": "m1",
        } | options

        @asynccontextmanager
        async def reports() -> AsyncIterator[Any]:
            self.reads += 1
            yield self.store

        return AlertWatch(reports, self.store, self.clock, poster, **given)

    async def die(self, handler: str, error: str, count: int = 1) -> None:
        """Let work items of a handler die; `{}` in the error is a number."""
        for number in range(count):
            self.stored += 1
            await appended(self.store, delivery(f"w-{self.stored}", received_at=self.clock.now()))
            now = self.clock.now()
            attempt = Attempt(1, Trigger.DELIVERY, now, now, AttemptOutcome.FAILED, error.format(number))
            run = RecordedRun(self.stored, HandlerName(handler), attempt, WorkState.DEAD)
            await self.store.record([run], now=now)

    async def revive(self, handler: str) -> None:
        """Let the dead work items of a handler run again."""
        wanted = WorkFilter(state=WorkState.DEAD, handler=handler)
        await self.store.retry([one.id async for one in self.store.work_items(wanted)], now=self.clock.now())

    async def quarantine(self, reason: str, count: int = 1) -> None:
        """Put requests in quarantine."""
        for _ in range(count):
            await self.store.quarantine(Quarantined(self.clock.now(), reason, "detail", None, (), b"{}"))

    async def after(self, duration: timedelta) -> list[str]:
        """Let time pass, with the checks of every process; return what was posted."""
        end = self.clock.now() + duration
        while self.clock.now() < end:
            self.clock.advance(EVERY)
            for one in self.watches:
                await one.check()
        return self.chat.taken()
