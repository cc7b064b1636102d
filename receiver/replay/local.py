"""Handlers run on stored deliveries here and now, one delivery after the other."""

import functools
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from receiver.core.claims import WorkItem
from receiver.core.deliveries import StoredDelivery
from receiver.core.rules import Result
from receiver.core.types import HandlerName, Trigger
from receiver.core.work import Attempt
from receiver.routing import Handler
from receiver.routing.policies import RunsIn
from receiver.worker.fanout import read_event, wanting
from receiver.worker.runner import Claimed, Ended, Runner


@dataclass(frozen=True, slots=True)
class LocalRun:
    """How one handler fared with one delivery. `value` is what it returned, for a batch the same for each.

    `error` is what it raised, and `traceback` that in full, from its own first line on.
    """

    stored: StoredDelivery
    handler: Handler
    attempt: Attempt
    result: Result
    value: object
    traceback: str | None
    error: BaseException | None = None


class LocalRunner:
    """Runs handlers in this process, in the order in which deliveries are given, each once.

    Nothing is tried again, held back or written to a store. Functions with `run_in="process"` run in a thread.
    A handler with `batch` is called when that many have come together, and at `finish` with the rest. Whatever
    handlers raise is a result, but for KeyboardInterrupt in an async one: that is Ctrl-C, and comes through.
    """

    def __init__(
        self,
        handlers: Iterable[Handler],
        runner: Runner,
        *,
        arrived: Callable[[datetime], None] | None = None,
        attempt: int = 1,
        trigger: Trigger = Trigger.REPLAY,
    ) -> None:
        """`arrived` is told, before each call, when the delivery came that it is for.

        `attempt` and `trigger` are what handlers are told of why they run.
        """
        self._value: object = None
        self._error: BaseException | None = None
        self._traceback: str | None = None
        self._attempt = attempt
        self._trigger = trigger
        self._interrupt: KeyboardInterrupt | None = None
        self._handlers = [self._watched(handler) for handler in handlers]
        self._gathering: dict[HandlerName, list[Claimed]] = {}
        self._arrived = arrived
        self._runner = runner

    @property
    def waiting(self) -> bool:
        """Whether some deliveries wait for others of their batch."""
        return bool(self._gathering)

    async def run(self, stored: StoredDelivery, only: frozenset[HandlerName] | None = None) -> Sequence[LocalRun]:
        """Call the handlers that want this delivery, or those of them in `only`; return the calls that ended."""
        event = read_event(stored)
        ran: list[LocalRun] = []
        for handler in wanting(self._handlers, event):
            if only is None or handler.name in only:
                item = WorkItem(0, handler.name, self._attempt, 0, 0, self._trigger, stored)
                ran += await self._take(Claimed(item, handler, event))
        return ran

    async def finish(self) -> Sequence[LocalRun]:
        """Call the handlers whose batches are incomplete."""
        batches, self._gathering = self._gathering, {}
        return [one for batch in batches.values() for one in await self._call(batch)]

    async def _take(self, claimed: Claimed) -> Sequence[LocalRun]:
        handler = claimed.handler
        if handler.batch is None:
            return await self._call([claimed])
        batch = self._gathering.setdefault(handler.name, [])
        batch.append(claimed)
        return await self._call(self._gathering.pop(handler.name)) if len(batch) == handler.batch.size else ()

    async def _call(self, claimed: Sequence[Claimed]) -> Sequence[LocalRun]:
        self._value = self._traceback = self._error = None
        if self._arrived is not None:
            self._arrived(claimed[-1].item.source.delivery.received_at)
        in_batch = claimed[0].handler.batch is not None
        ended: Sequence[Ended] = (
            await self._runner.run_batch(claimed) if in_batch else [await self._runner.run(claimed[0])]
        )
        if self._interrupt is not None:
            raise self._interrupt
        return [
            LocalRun(
                one.item.source,
                one.handler,
                end.attempt,
                end.result,
                self._value,
                end.attempt.traceback and (self._traceback or end.attempt.traceback),
                self._error,
            )
            for one, end in zip(claimed, ended, strict=True)
        ]

    def _watched(self, handler: Handler) -> Handler:
        """Return the same handler, with what it returns seen."""
        function = handler.function

        @functools.wraps(function)
        async def watched_async(*args: Any, **kwargs: Any) -> None:
            try:
                self._value = await function(*args, **kwargs)
            except BaseException as exc:
                self._interrupt = exc if isinstance(exc, KeyboardInterrupt) else None
                self._error, self._traceback = exc, _told(exc)
                raise

        @functools.wraps(function)
        def watched(*args: Any, **kwargs: Any) -> object:
            try:
                self._value = value = function(*args, **kwargs)
            except BaseException as exc:
                self._error, self._traceback = exc, _told(exc)
                raise
            return value

        if handler.runs_in is RunsIn.LOOP:
            return replace(handler, function=watched_async)
        return replace(handler, function=watched, runs_in=RunsIn.THREAD)


def _told(error: BaseException) -> str:
    """Return the traceback of an error without the line that is ours."""
    trace = error.__traceback__ and error.__traceback__.tb_next
    return "".join(traceback.format_exception(type(error), error, trace))
