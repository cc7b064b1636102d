"""Calls handlers with one delivery in memory, without a server, a store or a worker."""

import asyncio
import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType, ModuleType
from typing import Any, TypedDict, Unpack

from receiver.core.clock import SystemClock
from receiver.core.deliveries import Delivery, StoredDelivery
from receiver.core.envelope import mask_headers, read_envelope
from receiver.core.rules import after_attempt
from receiver.core.types import HandlerName, Headers, Origin, Trigger
from receiver.errors import HandlerError
from receiver.events import Event, ScheduledRun
from receiver.replay.local import LocalRun, LocalRunner
from receiver.routing import Router
from receiver.routing.context import AskOnce
from receiver.routing.resources import require_given
from receiver.runtime.tracebacks import is_users_code
from receiver.testing.samples import Deliverable, as_body
from receiver.testing.work import Work
from receiver.worker.calls.runner import NO_RESOURCES, open_runner
from receiver.worker.events import read_to_route, wanting
from receiver.worker.upkeep.schedules import run_delivery

Deliveries = Deliverable | Iterable[Deliverable]


@dataclass(frozen=True, slots=True)
class HandlerRun(Work):
    """The result of one handler for a delivery. `value` is what it returned, `exception` what it raised.

    `state` is the state that a worker would give the work item: done, dead, or waiting for the next attempt.
    """

    value: object
    exception: BaseException | None


class DeliverOptions(TypedDict, total=False):
    """The options of `deliver` and `deliver_async`, which explains them."""

    attempt: int
    trigger: Trigger | None
    now: datetime | None
    headers: Mapping[str, str]
    resources: Mapping[Any, object]
    asked: Collection[str]


def deliver(
    given: Deliveries,
    router: Router,
    *,
    check: bool = True,
    **options: Unpack[DeliverOptions],
) -> Sequence[HandlerRun]:
    """Do as `deliver_async`, in tests that are not async. In a running event loop this is a RuntimeError."""
    __tracebackhide__ = True
    if _loop_runs():
        raise RuntimeError("deliver is for tests that are not async; here, write: await deliver_async(...)")
    runs = asyncio.run(_deliver(given, router, **options))
    if check:
        _raise_errors(runs)
    return runs


async def deliver_async(
    given: Deliveries,
    router: Router,
    *,
    check: bool = True,
    **options: Unpack[DeliverOptions],
) -> Sequence[HandlerRun]:
    """Run the handlers that want this event, one after the other, and return their results.

    `given` is a sample, an event or a body, or several, such as a `job_story`: they are delivered in their order.
    A `ScheduledRun` with the name of a handler runs that handler.

    An error of a handler is raised when all handlers have run, with its own traceback; several are raised in a
    group. With `check=False` errors are in the results only. Handlers see `attempt` (1 by default), `trigger` (by
    default `retry` for every attempt but the first), `headers`, and `now`, which is also the time of arrival.
    `resources` are the values of resources by type: none is made. `ctx.once` answers False for keys in `asked`, and
    for keys that were asked for in this call. Functions with `run_in="process"` run in a thread. One with `batch=`
    gets the events of this call in batches.

    Raises Malformed for bytes that the endpoint would refuse, and HandlerError for a missing resource or if there
    is no Router.
    """
    __tracebackhide__ = True
    runs = await _deliver(given, router, **options)
    if check:
        _raise_errors(runs)
    return runs


def require_router(given: object) -> None:
    """Raise HandlerError, with what to write instead, unless this is a Router."""
    if isinstance(given, Router):
        return
    if not isinstance(given, ModuleType):
        raise HandlerError(f"a Router is expected, not {type(given).__name__}")
    found = [name for name, value in vars(given).items() if isinstance(value, Router)]
    hint = f": write {given.__name__}.{found[0]}" if found else ", which has none"
    raise HandlerError(f"a Router is expected, not the module {given.__name__}{hint}")


async def _deliver(
    given: Deliveries,
    router: Router,
    *,
    attempt: int = 1,
    trigger: Trigger | None = None,
    now: datetime | None = None,
    headers: Mapping[str, str] = MappingProxyType({}),
    resources: Mapping[Any, object] = NO_RESOURCES,
    asked: Collection[str] = (),
) -> Sequence[HandlerRun]:
    require_router(router)
    clock = SystemClock()
    moment = now or clock.now()
    kept = mask_headers((name.lower().encode(), value.encode("latin-1")) for name, value in headers.items())
    several: Iterable[Any] = [given]
    if isinstance(given, Iterable) and not isinstance(given, Event | bytes | str | Mapping):
        several = given
    stored = [
        StoredDelivery(number, 0, _delivery(one, kept, moment)) for number, one in enumerate(several, start=1)
    ]
    for handler in {one.name: one for each in stored for one in wanting(router, read_to_route(each))}.values():
        require_given(handler.name, handler.function, handler.needs, resources)
    async with open_runner(
        clock,
        {},
        threads=1,
        ask_once=_answering(asked),
        given=resources,
        told_now=lambda: now or clock.now(),
        handlers=[*router],
    ) as runner:
        scheduled = all(one.delivery.origin is Origin.SCHEDULE for one in stored)
        first = Trigger.SCHEDULE if scheduled else Trigger.DELIVERY
        why = trigger or (first if attempt == 1 else Trigger.RETRY)
        local = LocalRunner(router, runner, attempt=attempt, trigger=why)
        runs = [_run(one) for each in stored for one in await local.run(each)]
        return [*runs, *[_run(one) for one in await local.finish()]]


def _delivery(given: Deliverable, headers: Headers, now: datetime) -> Delivery:
    if isinstance(given, ScheduledRun):
        return run_delivery(HandlerName(given.name), given.due_at, now)
    return read_envelope(headers, as_body(given), received_at=now)


def _loop_runs() -> bool:
    # What runs in the except block would have this RuntimeError as its context, and tests would show that first.
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _answering(asked: Collection[str]) -> AskOnce:
    seen: set[tuple[HandlerName, str]] = set()

    async def ask(handler: HandlerName, key: str, now: datetime) -> bool:
        first = key not in asked and (handler, key) not in seen
        seen.add((handler, key))
        return first

    return ask


def _run(ran: LocalRun) -> HandlerRun:
    attempt, delivery = ran.attempt, ran.stored.delivery
    state, _ = after_attempt(
        ran.result,
        attempt=attempt.number,
        schedule=ran.handler.schedule,
        now=attempt.ended_at,
        rng=random.Random(0),  # noqa: S311 - the time of the retry is not used
    )
    return HandlerRun(
        handler=ran.handler.name,
        type=delivery.type,
        id=delivery.key,
        state=state,
        attempts=attempt.number,
        error=attempt.error,
        traceback=ran.traceback,
        value=ran.value,
        exception=ran.error,
    )


def _raise_errors(runs: Sequence[HandlerRun]) -> None:
    """Raise what the handlers raised: one error itself, several in a group."""
    __tracebackhide__ = True
    raised = [_from_the_handler(run.exception) for run in runs if run.exception is not None]
    if len(raised) == 1:
        raise raised[0]
    if raised:
        raise BaseExceptionGroup(f"{len(raised)} handlers failed", raised)


def _from_the_handler(error: BaseException) -> BaseException:
    """Return an error with its traceback from the handler's own first line on."""
    trace = error.__traceback__
    while trace is not None and not is_users_code(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    return error.with_traceback(trace or error.__traceback__)
