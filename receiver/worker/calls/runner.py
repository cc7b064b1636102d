"""One attempt, at a work item or at a batch of them: call the handler, watch its time, return how it ended."""

import asyncio
import contextvars
import gc
import logging
import types
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Generator,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from types import FrameType, MappingProxyType
from typing import Any

from typing_extensions import override

from receiver.core.clock import Clock
from receiver.core.deliveries import StoredDelivery
from receiver.core.ports.queue import OnceKeys
from receiver.core.rules import Died, Failed, Refused, Result, Succeeded
from receiver.core.signing import TRACE_MARK
from receiver.core.types import AttemptOutcome, HandlerName, Trigger
from receiver.core.work import Attempt
from receiver.events import Event
from receiver.routing import Handler
from receiver.routing.context import (
    AskLater,
    AskOnce,
    BatchContext,
    Clients,
    Context,
    DeliveryInfo,
    HandlerLog,
    Services,
)
from receiver.routing.policies import RunsIn
from receiver.routing.resources import Resource, open_resources
from receiver.runtime.log_lines import attempt_fields, event_log
from receiver.signals.traces.contracts import AttemptTraces
from receiver.signals.traces.switch import running_trace
from receiver.worker.attempts import (
    NO_CALLS,
    AttemptRunner,
    Claimed,
    Deadline,
    Ended,
    LateHandlers,
    LaterCall,
    LaterCalls,
    Raised,
    TimedOut,
    log_fields,
    require_done,
    result_of,
    within,
)
from receiver.worker.calls.pools import FunctionCall, HandlerThreads, Processes, ThreadResults, Threads
from receiver.worker.events import MemoryBudget, claim_on_memory, read_event

log = event_log(__name__)

_CANCELLED = "and was cancelled"
NO_RESOURCES: Mapping[Any, object] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class _CallEnd:
    """How a call ended."""

    outcome: AttemptOutcome
    result: Result
    value: object = None
    error: BaseException | None = None
    raised: Raised | None = None
    later: Mapping[int, Sequence[LaterCall]] = field(default_factory=dict)


_DONE = _UNWANTED = _CallEnd(AttemptOutcome.SUCCEEDED, Succeeded())


MAX_FAILED_BYTES = 32 * 2**20


class FailedBodies:
    """Counts the bodies of failed calls, and collects garbage after many bytes.

    A handler may keep its error in a cycle, and the error keeps the event. Python collects cycles after so many
    objects, whatever their size, and seldom returns to those that were in use the last time, such as the events of
    calls that have just ended. This collects all.
    """

    def __init__(self) -> None:
        self._bytes = 0

    def add(self, bodies: Iterable[bytes]) -> None:
        """Add the bodies of one call."""
        self._bytes += sum(map(len, bodies))
        if self._bytes >= MAX_FAILED_BYTES:
            self._bytes = 0
            gc.collect()


class Runner:
    """Runs attempts: async handlers in the event loop, plain ones in threads or in processes."""

    # An error holds its traceback, and that holds the frames of this module. A frame that kept the error in a
    # local variable would keep the body of the delivery in memory until the garbage collector runs.

    def __init__(
        self,
        clock: Clock,
        threads: Threads,
        *,
        processes: Processes | None = None,
        resources: Mapping[Any, object] = NO_RESOURCES,
        ask_once: AskOnce | None = None,
        clients: Clients | None = None,
        told_now: Callable[[], datetime] | None = None,
        memory: MemoryBudget | None = None,
        handlers: Collection[Handler] = (),
    ) -> None:
        """`resources` are given to handlers by type; `ask_once` and `clients` are for their contexts.

        `told_now` is the time that handlers see, if not the clock's. All events that run or are routed in this
        process share `memory`. `handlers` are those that `ctx.later` finds.
        """
        self._handlers = handlers
        self._memory = memory or MemoryBudget()
        self._failed = FailedBodies()
        self._clock = clock
        self._threads = ThreadResults(threads)
        self._processes = processes
        self._resources = resources
        self._contexts = ContextFactory(told_now or clock.now, ask_once, clients)
        self._late = LateHandlers(clock)
        self._functions: dict[HandlerName, Callable[..., Any]] = {}

    async def run(self, claimed: Claimed) -> Ended:
        """Run one attempt at one work item, as `run_batch` does."""
        return (await self.run_batch((claimed,)))[0]

    def run_batch(self, batch: Sequence[Claimed]) -> Coroutine[Any, Any, Sequence[Ended]]:
        """Run one attempt at work items of one handler, in one call; return their ends in order.

        A handler without `batch` takes one item. Whatever the handler does is a result: this raises nothing but
        CancelledError, when the worker cancels it. All items that the handler was given have the same end. After a
        failed call with several items each is tried again alone: the error may be about one of them.
        """
        memory = 0
        for one in batch:
            if one.event is None:
                memory += claim_on_memory(one.item.source.delivery.body)
        return self._run_costly(batch, memory) if memory else self._run_batch(batch, costly=False)

    async def _run_costly(self, batch: Sequence[Claimed], memory: int) -> Sequence[Ended]:
        async with self._memory.taken(memory):
            return await self._run_batch(batch, costly=True)

    async def _run_batch(self, batch: Sequence[Claimed], *, costly: bool) -> Sequence[Ended]:
        handler = batch[0].handler
        started_at = self._clock.now()
        deadline = Deadline(self._clock, handler.timeout)
        events: list[Event] = []
        given: list[Claimed] = []
        left_out: dict[int, _CallEnd] = {}  # by its place in the batch
        for place, one in enumerate(batch):
            # The handler is for an event that was read already; only its `where` may refuse it.
            known = one.event if handler.where is None else None
            read = await _read(one, in_thread=costly) if known is None else known
            if isinstance(read, _CallEnd):
                left_out[place] = read
            else:
                events.append(read)
                given.append(one)
        end = await self._end_of_call(handler, events, given, deadline) if events else _UNWANTED
        ended_at = self._clock.now()
        started_at = min(started_at, ended_at)  # the clock may have been set back
        overdue = deadline.ended_late or (deadline.late and handler.runs_in is RunsIn.THREAD)
        if len(batch) > 1 and end is _DONE and not left_out:
            return _all_ended(batch, end, started_at, ended_at, overdue)
        ends = [
            _ended(one, left_out.get(place, end), started_at, ended_at, overdue) for place, one in enumerate(batch)
        ]
        if end.raised is None:
            return ends
        self._failed.add([one.item.source.delivery.body for one in batch])
        without = [one.raised and replace(one.raised, frames=()) for one in ends[1:]]
        return [ends[0], *[one._replace(raised=raised) for one, raised in zip(ends[1:], without, strict=True)]]

    async def _end_of_call(
        self, handler: Handler, events: Sequence[Event], given: Sequence[Claimed], deadline: Deadline
    ) -> _CallEnd:
        later = NO_CALLS
        if handler.takes_context:
            later = LaterCalls(self._handlers, events, [one.item.id for one in given])
        token = attempt_fields.set(partial(log_fields, given))
        try:
            value = await self._call(handler, events, given, deadline, later)
        except BaseException as exc:
            # Even SystemExit: a handler's sys.exit() must not end the worker.
            return _failure(exc, handler, together=len(given) > 1)
        finally:
            attempt_fields.reset(token)
            asked = later.end()
        if value is None and not asked:
            return _DONE
        return _CallEnd(AttemptOutcome.SUCCEEDED, Succeeded(), value, later=asked)

    async def _call(
        self,
        handler: Handler,
        events: Sequence[Event],
        claimed: Sequence[Claimed],
        deadline: Deadline,
        later: LaterCalls,
    ) -> object:
        """Call a handler with an event, or with a list of events. Return what it returns."""
        if handler.runs_in is RunsIn.PROCESS:
            await self._in_process(handler, claimed, deadline)
            return None
        function = self._function(handler) if handler.needs else handler.function
        argument = events[0] if handler.batch is None else events
        if handler.takes_context:
            context = self._contexts.make(handler, claimed, deadline.beat, later.add)
            call = (
                partial(function, argument, context)
                if handler.context_name is None
                else partial(function, argument, **{handler.context_name: context})
            )
        else:
            call = partial(function, argument)
        if handler.runs_in is RunsIn.LOOP:
            value = await _in_loop(call, deadline)
            self._late.check(claimed, deadline)
            return value
        return await self._in_thread(call, claimed, deadline)

    async def _in_thread(
        self, call: Callable[[], object], claimed: Sequence[Claimed], deadline: Deadline
    ) -> object:
        def run() -> tuple[object, BaseException | None]:
            # It returns the error: raised, it would end the thread.
            deadline.start()
            try:
                return require_done(call()), None
            except BaseException as exc:
                return None, exc

        def log_overdue() -> None:
            fields = {**log_fields(claimed), "timeout_s": deadline.timeout.total_seconds()}
            log.warning("attempt_overdue", extra=fields)

        deadline.watch(log_overdue, started=False)
        try:
            context = contextvars.copy_context()
            value, error = await self._threads.run(partial(context.run, run))
        finally:
            deadline.cancel()
        if error is None:
            return value
        try:
            raise error
        finally:
            del error

    async def _in_process(self, handler: Handler, claimed: Sequence[Claimed], deadline: Deadline) -> None:
        if self._processes is None:
            raise RuntimeError("this worker has no processes for handlers")
        call = FunctionCall(
            handler.function.__module__,
            handler.function.__qualname__,
            handler.batch is not None,
            tuple([one.item.source for one in claimed]),
            log_fields(claimed),
            running_trace(),
        )
        running = self._processes.run(call, deadline.start)
        await within(deadline, running, "and its process was killed", started=False)

    def _function(self, handler: Handler) -> Callable[..., Any]:
        """Return the handler's function with its resources."""
        if handler.name not in self._functions:
            given = {name: self._resources[wanted] for name, wanted in handler.needs}
            self._functions[handler.name] = partial(handler.function, **given)
        return self._functions[handler.name]


async def _read(claimed: Claimed, *, in_thread: bool) -> Event | _CallEnd:
    """Return the event of a work item, or the end of its attempt if the handler is not to be called.

    The handler may not want the event: its `where` may have raised at routing, or its code has changed since.
    """
    try:
        event = claimed.event
        if event is None:
            source = claimed.item.source
            event = await asyncio.to_thread(read_event, source) if in_thread else read_event(source)
        return event if claimed.handler.wants(event) else _UNWANTED
    except BaseException as exc:
        return _failure(exc, claimed.handler)


async def _in_loop(call: Callable[[], Awaitable[object]], deadline: Deadline) -> object:
    """Call an async handler. At its deadline, cancel it and raise TimedOut.

    A handler that returns without waiting cannot be cancelled and gets no timer, which would cost a fifth of the
    time of such a call.
    """
    deadline.start()
    running = call()
    if not isinstance(running, types.CoroutineType):
        return await within(deadline, running, _CANCELLED)
    try:
        waits_for = running.send(None)
    except StopIteration as end:
        value: object = end.value
        return value
    deadline.waited = True
    return await within(deadline, _continued(running, waits_for), _CANCELLED)


@types.coroutine
def _continued(running: Coroutine[Any, Any, object], waits_for: object) -> Generator[Any, Any, object]:
    """Await the rest of a coroutine that waits for this future."""
    while True:
        try:
            yield waits_for
        except GeneratorExit:
            running.close()
            raise
        except BaseException as exc:
            try:
                waits_for = running.throw(exc)
            except StopIteration as end:
                value: object = end.value
                return value
        else:
            value = yield from running.__await__()
            return value


def _failure(error: BaseException, handler: Handler, *, together: bool = False) -> _CallEnd:
    """Return the end of a call that raised. Raises CancelledError again if the worker cancels the call."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise error
    raised = Raised.of(error)
    outcome = AttemptOutcome.TIMED_OUT if isinstance(error, TimedOut) else AttemptOutcome.FAILED
    result = result_of(raised, handler)
    if together and isinstance(result, Refused | Died):
        result = Failed()
    return _CallEnd(outcome, result, None, error, raised)


def _ended(claimed: Claimed, end: _CallEnd, started_at: datetime, ended_at: datetime, overdue: bool) -> Ended:
    item, raised = claimed.item, end.raised
    error, traceback = (None, None) if raised is None else (raised.error, raised.traceback)
    attempt = Attempt(item.attempt, item.trigger, started_at, ended_at, end.outcome, error, traceback, overdue)
    later = tuple(end.later.get(item.id, ())) if end.later else ()
    return Ended(attempt, end.result, end.value, end.error, raised, later)


def _all_ended(
    batch: Sequence[Claimed], end: _CallEnd, started_at: datetime, ended_at: datetime, overdue: bool
) -> Sequence[Ended]:
    """Return the very same end for items whose attempts have the same number and trigger."""
    ends: dict[tuple[int, Trigger], Ended] = {}
    return [
        ends.get(key := (one.item.attempt, one.item.trigger))
        or ends.setdefault(key, _ended(one, end, started_at, ended_at, overdue))
        for one in batch
    ]


def handler_in(frame: FrameType | None) -> HandlerName | None:
    """Return the handler that a thread runs, given the thread's innermost frame; None for other code."""
    while frame is not None:
        if frame.f_code is Runner._end_of_call.__code__:
            handler: Handler = frame.f_locals["handler"]
            return handler.name
        frame = frame.f_back
    return None


class ContextFactory:
    """Makes a context for each call. `now` is the time that handlers see."""

    def __init__(self, now: Callable[[], datetime], ask_once: AskOnce | None, clients: Clients | None) -> None:
        self._now = now
        self._ask_once = ask_once
        self._clients = clients
        self._services: Services | None = None

    def make(
        self, handler: Handler, claimed: Sequence[Claimed], heartbeat: Callable[[], None], later: AskLater
    ) -> Context | BatchContext:
        """Return the context of a call with these work items. Call this in the event loop."""
        if self._services is None:
            self._services = Services(asyncio.get_running_loop(), self._now, self._ask_once, self._clients)
        now, log = self._now(), HandlerLog(logging.getLogger(handler.name), log_fields(claimed))
        if handler.batch is not None:
            return BatchContext(
                handler=handler.name,
                now=now,
                log=log,
                attempt=max([one.item.attempt for one in claimed]),
                deliveries=tuple([delivery_info(one.item.source) for one in claimed]),
                triggers=tuple([one.item.trigger for one in claimed]),
                _services=self._services,
                _beat=heartbeat,
                _later=later,
            )
        item = claimed[0].item
        return Context(
            handler=handler.name,
            now=now,
            log=log,
            attempt=item.attempt,
            trigger=item.trigger,
            delivery=delivery_info(item.source),
            job_id=item.source.delivery.job_id,
            _services=self._services,
            _beat=heartbeat,
            _later=later,
        )


def delivery_info(stored: StoredDelivery) -> DeliveryInfo:
    """Return what a handler sees of a delivery: its headers are those that the sender wrote."""
    delivery = stored.delivery
    sent = tuple([header for header in delivery.headers if not header[0].startswith(TRACE_MARK)])
    return DeliveryInfo(
        id=delivery.key,
        received_at=delivery.received_at,
        headers=sent,
        duplicates=stored.duplicates,
        size=len(delivery.body),
    )


class TracedRunner(AttemptRunner):
    """Another AttemptRunner with a span around each call."""

    def __init__(self, runner: AttemptRunner, traces: AttemptTraces) -> None:
        self._runner = runner
        self._traces = traces

    @override
    async def run_batch(self, batch: Sequence[Claimed]) -> Sequence[Ended]:
        with self._traces.span([one.item for one in batch]) as span:
            ends = await self._runner.run_batch(batch)
            worst = next((one for one in ends if one.raised is not None), ends[0])
            span.note_end(worst.attempt, worst.error)
            return ends


@asynccontextmanager
async def open_runner(
    clock: Clock,
    resources: Mapping[Any, Resource],
    *,
    threads: int,
    ask_once: AskOnce,
    given: Mapping[Any, object] = NO_RESOURCES,
    processes: Processes | None = None,
    clients: Clients | None = None,
    told_now: Callable[[], datetime] | None = None,
    memory: MemoryBudget | None = None,
    traces: AttemptTraces | None = None,
    handlers: Collection[Handler] = (),
) -> AsyncIterator[AttemptRunner]:
    """Open a runner with its own threads and these resources, which are closed with the block.

    `given` are resources that exist already, by type. `traces` makes a span for each call. The rest is for
    `Runner`. Raises HandlerError for a resource that cannot be made.
    """
    pool = HandlerThreads(threads)
    try:
        async with open_resources(resources) as made:
            runner = Runner(
                clock,
                pool,
                processes=processes,
                resources={**made, **given},
                ask_once=ask_once,
                clients=clients,
                told_now=told_now,
                memory=memory,
                handlers=handlers,
            )
            yield runner if traces is None else TracedRunner(runner, traces)
    finally:
        pool.stop()


def ask_store(queue: OnceKeys) -> AskOnce:
    """Return what answers `ctx.once` by the store."""
    return lambda handler, key, now: queue.once(handler, key, now=now)
