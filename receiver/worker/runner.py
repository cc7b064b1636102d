"""One attempt of one work item, or of a batch of them: call the handler, watch its time, say how it ended."""

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from types import MappingProxyType
from typing import Any

from receiver.core.claims import WorkItem
from receiver.core.clock import Clock
from receiver.core.deliveries import StoredDelivery
from receiver.core.rules import Died, Failed, Refused, Result, Succeeded
from receiver.core.types import AttemptOutcome, HandlerName, WorkState
from receiver.core.work import Attempt
from receiver.events import Event
from receiver.routing import Handler
from receiver.routing.context import AskOnce, BatchContext, Clients, Context, DeliveryInfo, HandlerLog, Services
from receiver.routing.policies import RunsIn
from receiver.worker.deadline import Deadline
from receiver.worker.failures import Raised, TimedOut, require_done, result_of
from receiver.worker.fanout import read_event
from receiver.worker.process_messages import FunctionCall
from receiver.worker.process_pool import Processes

log = logging.getLogger(__name__)

_NOTHING: Mapping[Any, object] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Claimed:
    """A claimed work item with what is needed to run it. `event` is None until the body has been read."""

    item: WorkItem
    handler: Handler
    event: Event | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """How an attempt ended, for the store and for the decision."""

    attempt: Attempt
    result: Result


@dataclass(frozen=True, slots=True)
class _End:
    """How a call ended: of one event or of many."""

    outcome: AttemptOutcome
    result: Result
    raised: Raised | None = None


_SUCCESS = _End(AttemptOutcome.SUCCEEDED, Succeeded())


class Runner:
    """Runs attempts: async handlers in the event loop, plain ones in threads or in processes."""

    def __init__(
        self,
        clock: Clock,
        threads: Executor,
        *,
        processes: Processes | None = None,
        resources: Mapping[Any, object] = _NOTHING,
        ask_once: AskOnce | None = None,
        clients: Clients | None = None,
        told_now: Callable[[], datetime] | None = None,
    ) -> None:
        """`resources` are those that handlers want, by type; the others are what contexts offer.

        `told_now` is the time that contexts tell, if that is not the clock's.
        """
        self._clock = clock
        self._threads = threads
        self._processes = processes
        self._resources = resources
        self._ask_once = ask_once
        self._clients = clients
        self._now = told_now or clock.now
        self._services: Services | None = None
        self._functions: dict[HandlerName, Callable[..., Any]] = {}

    async def run(self, claimed: Claimed) -> Ended:
        """Run one attempt. Whatever the handler does ends up in the result.

        Raises CancelledError when the worker cancels it, and only then.
        """
        handler = claimed.handler
        if handler.batch is not None:
            return (await self.run_batch((claimed,)))[0]
        started_at = self._clock.now()
        deadline = Deadline(self._clock, handler.timeout)
        try:
            event = claimed.event or read_event(claimed.item.source)
            if _wants(claimed, event):
                await self._call(handler, event, (claimed,), deadline)
            end = _SUCCESS
        except BaseException as exc:
            # SystemExit too: one handler's sys.exit() must not end the worker and all the others.
            end = _end_of(exc, handler)
        return self._ended(claimed, end, started_at, self._clock.now(), deadline)

    async def run_batch(self, batch: Sequence[Claimed]) -> Sequence[Ended]:
        """Run one attempt of several items of one handler with `batch`, in one call; return their ends in order.

        All that the handler was given have the same end. If it failed with more than one, each is to be tried
        again by itself: whatever was raised, it may be true of one event only.
        """
        handler = batch[0].handler
        started_at = self._clock.now()
        deadline = Deadline(self._clock, handler.timeout)
        ends: list[_End | None] = []
        given: list[tuple[Claimed, Event]] = []
        for claimed in batch:
            try:
                event = claimed.event or read_event(claimed.item.source)
                wanted = _wants(claimed, event)
            except (Exception, SystemExit) as exc:
                ends.append(_end_of(exc, handler))
            else:
                ends.append(None if wanted else _SUCCESS)
                if wanted:
                    given.append((claimed, event))
        end = await self._end_of_batch(handler, given, deadline) if given else _SUCCESS
        ended_at = self._clock.now()
        return [
            self._ended(claimed, own or end, started_at, ended_at, deadline)
            for claimed, own in zip(batch, ends, strict=True)
        ]

    def refuse(self, claimed: Claimed) -> Ended:
        """Return the end of an attempt that is not made, because too many workers died in the ones before."""
        now = self._clock.now()
        item = claimed.item
        error = f"not run again: {item.deaths} workers died or lost their leases while it ran"
        attempt = Attempt(item.attempt, item.trigger, now, now, AttemptOutcome.FAILED, error)
        return Ended(attempt, Refused())

    def failed(self, claimed: Claimed, error: str) -> Ended:
        """Return the end of an attempt that ended in a way nobody foresaw."""
        now = self._clock.now()
        attempt = Attempt(claimed.item.attempt, claimed.item.trigger, now, now, AttemptOutcome.FAILED, error)
        return Ended(attempt, Failed())

    def _ended(
        self, claimed: Claimed, end: _End, started_at: datetime, ended_at: datetime, deadline: Deadline
    ) -> Ended:
        raised = end.raised
        attempt = Attempt(
            number=claimed.item.attempt,
            trigger=claimed.item.trigger,
            started_at=started_at,
            ended_at=ended_at,
            outcome=end.outcome,
            error=None if raised is None else raised.error,
            traceback=None if raised is None else raised.traceback,
            overdue=deadline.late and claimed.handler.runs_in is RunsIn.THREAD,
        )
        return Ended(attempt, end.result)

    async def _end_of_batch(
        self, handler: Handler, given: Sequence[tuple[Claimed, Event]], deadline: Deadline
    ) -> _End:
        try:
            await self._call(handler, [event for _, event in given], [one for one, _ in given], deadline)
        except BaseException as exc:
            end = _end_of(exc, handler)
            if len(given) > 1 and isinstance(end.result, Refused | Died):
                return _End(end.outcome, Failed(), end.raised)
            return end
        return _SUCCESS

    async def _call(self, handler: Handler, argument: Any, claimed: Sequence[Claimed], deadline: Deadline) -> None:
        """Call a handler with an event, or with a list of them."""
        if handler.runs_in is RunsIn.PROCESS:
            await self._in_process(handler, claimed, deadline)
            return
        function = self._function(handler) if handler.needs else handler.function
        if handler.takes_context:
            context = self._context(handler, claimed, deadline)
            call = (
                partial(function, argument, context)
                if handler.context_name is None
                else partial(function, argument, **{handler.context_name: context})
            )
        else:
            call = partial(function, argument)
        if handler.runs_in is RunsIn.LOOP:
            await _within(deadline, call(), "and was cancelled")
        else:
            await self._in_thread(call, claimed, deadline)

    async def _in_thread(self, call: Callable[[], object], claimed: Sequence[Claimed], deadline: Deadline) -> None:
        def run() -> BaseException | None:
            # Returned and not raised: a future takes neither StopIteration nor GeneratorExit.
            deadline.begin()
            try:
                require_done(call())
            except BaseException as exc:
                return exc
            return None

        def tell() -> None:
            fields = {**_fields_of(claimed), "timeout_s": deadline.timeout.total_seconds()}
            log.warning("attempt_overdue", extra=fields)

        deadline.watch(tell, begun=False)
        try:
            context = contextvars.copy_context()
            error = await asyncio.get_running_loop().run_in_executor(self._threads, context.run, run)
        finally:
            deadline.cancel()
        if error is not None:
            raise error

    async def _in_process(self, handler: Handler, claimed: Sequence[Claimed], deadline: Deadline) -> None:
        if self._processes is None:
            raise RuntimeError("this worker has no processes for handlers")
        call = FunctionCall(
            handler.function.__module__,
            handler.function.__qualname__,
            handler.batch is not None,
            tuple([one.item.source for one in claimed]),
        )
        running = self._processes.run(call, deadline.begin)
        await _within(deadline, running, "and its process was killed", begun=False)

    def _function(self, handler: Handler) -> Callable[..., Any]:
        """Return the handler's function with its resources filled in."""
        if handler.name not in self._functions:
            given = {name: self._resources[wanted] for name, wanted in handler.needs}
            self._functions[handler.name] = partial(handler.function, **given)
        return self._functions[handler.name]

    def _context(self, handler: Handler, claimed: Sequence[Claimed], deadline: Deadline) -> Context | BatchContext:
        if self._services is None:
            self._services = Services(asyncio.get_running_loop(), self._now, self._ask_once, self._clients)
        now, logger = self._now(), HandlerLog(logging.getLogger(handler.name), _fields_of(claimed))
        if handler.batch is not None:
            return BatchContext(
                handler=handler.name,
                now=now,
                log=logger,
                attempt=max([one.item.attempt for one in claimed]),
                deliveries=tuple([_info(one.item.source) for one in claimed]),
                triggers=tuple([one.item.trigger for one in claimed]),
                _services=self._services,
                _beat=deadline.beat,
            )
        item = claimed[0].item
        return Context(
            handler=handler.name,
            now=now,
            log=logger,
            attempt=item.attempt,
            trigger=item.trigger,
            delivery=_info(item.source),
            job=item.source.delivery.job_id,
            _services=self._services,
            _beat=deadline.beat,
        )


def _wants(claimed: Claimed, event: Event) -> bool:
    """Tell whether the handler wants the event still: its `where` may have raised, or other code been deployed."""
    just_matched = claimed.event is not None and claimed.handler.where is None
    return just_matched or claimed.handler.wants(event)


async def _within(deadline: Deadline, running: Awaitable[object], ending: str, *, begun: bool = True) -> None:
    """Await a call until its deadline, and cancel it then."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(None) as limit:
            deadline.watch(lambda: limit.reschedule(loop.time()), begun=begun)
            try:
                await running
            finally:
                deadline.cancel()
    except TimeoutError as exc:
        if limit.expired():
            raise TimedOut(f"took longer than {deadline.timeout.total_seconds():g} s {ending}") from exc
        raise


def _end_of(error: BaseException, handler: Handler) -> _End:
    """Return what an error means; raises CancelledError again when it is the worker that cancels."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise error
    raised = Raised.of(error)
    outcome = AttemptOutcome.TIMED_OUT if isinstance(error, TimedOut) else AttemptOutcome.FAILED
    return _End(outcome, result_of(raised, handler), raised)


def tell_attempt(claimed: Claimed, ended: Ended, state: WorkState, due_at: datetime) -> None:
    """Log how an attempt ended and what comes next."""
    if state is WorkState.DONE and not log.isEnabledFor(logging.INFO):
        return  # most often where much is done
    attempt = ended.attempt
    fields = {**_fields(claimed), "seconds": _seconds(attempt)}
    match state:
        case WorkState.DONE:
            log.info("attempt_succeeded", extra=fields)
        case WorkState.WAITING:
            log.warning("attempt_failed", extra={**fields, "error": attempt.error, "due_at": due_at.isoformat()})
        case _:
            log.error("work_dead", extra={**fields, "error": attempt.error, "traceback": attempt.traceback})


def _info(stored: StoredDelivery) -> DeliveryInfo:
    delivery = stored.delivery
    return DeliveryInfo(
        key=delivery.key,
        received_at=delivery.received_at,
        headers=delivery.headers,
        duplicates=stored.duplicates,
        size=len(delivery.body),
    )


def _fields_of(claimed: Sequence[Claimed]) -> dict[str, object]:
    if len(claimed) > 1:
        return {"handler": claimed[0].item.handler, "events": len(claimed)}
    return _fields(claimed[0])


def _fields(claimed: Claimed) -> dict[str, object]:
    delivery = claimed.item.source.delivery
    return {
        "handler": claimed.item.handler,
        "key": delivery.key,
        "type": delivery.type,
        "job_id": delivery.job_id,
        "attempt": claimed.item.attempt,
    }


def _seconds(attempt: Attempt) -> float:
    return (attempt.ended_at - (attempt.started_at or attempt.ended_at)).total_seconds()
