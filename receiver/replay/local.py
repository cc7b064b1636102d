"""Handlers run in this process on stored deliveries, one delivery after the other."""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime

from receiver.core.claims import WorkItem
from receiver.core.clock import Clock
from receiver.core.deliveries import StoredDelivery
from receiver.core.rules import Result
from receiver.core.types import HandlerName, Trigger
from receiver.core.work import Attempt
from receiver.replay.frozen_time import FrozenTime
from receiver.routing import Handler, Router
from receiver.routing.context import AskOnce, Clients
from receiver.routing.policies import RunsIn
from receiver.routing.resources import needed_by
from receiver.runtime.tracebacks import traceback_of
from receiver.signals.traces.contracts import AttemptTraces
from receiver.worker.attempts import AttemptRunner, Claimed
from receiver.worker.calls.runner import open_runner
from receiver.worker.events import read_to_route, wanting


@dataclass(frozen=True, slots=True)
class LocalRun:
    """The result of one handler for one delivery.

    `value` is what the handler returned and `error` what it raised; both are the same for all deliveries of a
    batch. `traceback` is that of the error, complete, from the handler's own first line on.
    """

    stored: StoredDelivery
    handler: Handler
    attempt: Attempt
    result: Result
    value: object
    traceback: str | None
    error: BaseException | None = None


class LocalRunner:
    """Runs handlers in this process, once for each delivery, in the order in which deliveries are given.

    Nothing is tried again, held or written to a store. Calls of `ctx.later` are checked, and nothing comes of them.
    Functions with `run_in="process"` run in a thread. A handler with `batch` is called when its batch is full, and
    in `finish` with the rest. Everything that a handler raises is a result, except for KeyboardInterrupt in an
    async handler: that is Ctrl-C, and is raised here.
    """

    def __init__(
        self,
        handlers: Iterable[Handler],
        runner: AttemptRunner,
        *,
        before_call: Callable[[datetime], None] | None = None,
        attempt: int = 1,
        trigger: Trigger = Trigger.REPLAY,
    ) -> None:
        """`before_call` is called before each call of a handler, with the arrival of its last delivery.

        `attempt` and `trigger` are what handlers see in their contexts.
        """
        self._attempt = attempt
        self._trigger = trigger
        self._handlers = [handler.in_this_process() for handler in handlers]
        self._batches: dict[HandlerName, list[Claimed]] = {}
        self._before_call = before_call
        self._runner = runner

    @property
    def waiting(self) -> bool:
        """Return whether some deliveries wait for others of their batch."""
        return bool(self._batches)

    async def run(self, stored: StoredDelivery, only: frozenset[HandlerName] | None = None) -> Sequence[LocalRun]:
        """Call the handlers that want this delivery, or only those in `only`; return the results of ended calls."""
        routed = read_to_route(stored)
        runs: list[LocalRun] = []
        for handler in wanting(self._handlers, routed):
            if only is None or handler.name in only:
                item = WorkItem(0, handler.name, self._attempt, 0, 0, self._trigger, stored)
                runs += await self._add(Claimed(item, handler, routed.whole_event))
        return runs

    async def finish(self) -> Sequence[LocalRun]:
        """Call the handlers whose batches are incomplete."""
        batches, self._batches = self._batches, {}
        return [one for batch in batches.values() for one in await self._call(batch)]

    async def _add(self, claimed: Claimed) -> Sequence[LocalRun]:
        handler = claimed.handler
        if handler.batch is None:
            return await self._call([claimed])
        batch = self._batches.setdefault(handler.name, [])
        batch.append(claimed)
        return await self._call(self._batches.pop(handler.name)) if len(batch) == handler.batch.size else ()

    async def _call(self, claimed: Sequence[Claimed]) -> Sequence[LocalRun]:
        if self._before_call is not None:
            self._before_call(claimed[-1].item.source.delivery.received_at)
        runs = []
        for one, end in zip(claimed, await self._runner.run_batch(claimed), strict=True):
            if isinstance(end.error, KeyboardInterrupt) and one.handler.runs_in is RunsIn.LOOP:
                raise end.error
            traceback = None if end.error is None else traceback_of(end.error)
            source = one.item.source
            runs.append(LocalRun(source, one.handler, end.attempt, end.result, end.value, traceback, end.error))
        return runs


@asynccontextmanager
async def open_local_runner(
    router: Router,
    handlers: Sequence[Handler],
    *,
    ask_once: AskOnce,
    clock: Clock,
    clients: Clients | None = None,
    frozen: FrozenTime | None = None,
    traces: AttemptTraces | None = None,
) -> AsyncIterator[LocalRunner]:
    """Open what these handlers of the router need to run in this process; it is closed with the block.

    With `frozen` they see the arrival of each delivery as the current time. Raises HandlerError for a router that
    does not work as a whole, and for a resource that cannot be made.
    """
    router.check()
    resources = needed_by([handler.needs for handler in handlers], router.resources)
    now = None if frozen is None else frozen.now
    async with open_runner(
        clock,
        resources,
        threads=1,
        ask_once=ask_once,
        clients=clients,
        told_now=now,
        traces=traces,
        handlers=[*router],
    ) as runner:
        yield LocalRunner(handlers, runner, before_call=None if frozen is None else frozen.move_to)
