"""Handlers called with one delivery, in memory: no server, no store, no worker."""

import asyncio
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any, TypedDict, Unpack

from receiver.core.clock import SystemClock
from receiver.core.deliveries import StoredDelivery
from receiver.core.envelope import mask_headers, read_envelope
from receiver.core.rules import decide, state_after
from receiver.core.types import HandlerName, Trigger
from receiver.events import Event
from receiver.replay.local import LocalRun, LocalRunner
from receiver.routing import Router
from receiver.routing.context import AskOnce
from receiver.routing.resources import require_given
from receiver.testing.samples import Sample, as_body
from receiver.testing.work import Work
from receiver.worker import open_runner
from receiver.worker.fanout import read_event, wanting

_NOTHING: Mapping[Any, object] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class HandlerRun(Work):
    """What one handler did with a delivery. `value` is what it returned, `exception` what it raised.

    `state` is what a worker would make of it: done, dead, or waiting for the next attempt.
    """

    value: object
    exception: BaseException | None


class DeliverOptions(TypedDict, total=False):
    """The options of `deliver`, which are those of `deliver_async`."""

    attempt: int
    trigger: Trigger | None
    now: datetime | None
    headers: Mapping[str, str]
    resources: Mapping[Any, object]
    asked: Collection[str]
    check: bool


def deliver(
    given: Sample[Any] | Event | bytes, router: Router, **options: Unpack[DeliverOptions]
) -> Sequence[HandlerRun]:
    """Do as `deliver_async`, in tests that are not async. In a running event loop this is a RuntimeError."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(deliver_async(given, router, **options))
    raise RuntimeError("deliver is for tests that are not async; here, write: await deliver_async(...)")


async def deliver_async(
    given: Sample[Any] | Event | bytes,
    router: Router,
    *,
    attempt: int = 1,
    trigger: Trigger | None = None,
    now: datetime | None = None,
    headers: Mapping[str, str] = MappingProxyType({}),
    resources: Mapping[Any, object] = _NOTHING,
    asked: Collection[str] = (),
    check: bool = True,
) -> Sequence[HandlerRun]:
    """Run the handlers that want this event, one after the other, and return how each of them fared.

    What a handler raises is raised again once all have run, with its own traceback; of several, in a group. With
    `check=False` it is in the result only. Handlers are told `attempt`, `trigger` (a retry for every attempt but
    the first, unless given), `now`, which is the time of arrival too, and `headers`. `resources` are the values
    that they want, by type: nothing is made. `ctx.once` says no to the keys in `asked` and to what was asked in
    this call. Functions with `run_in="process"` run in a thread, one with `batch=` gets a list of one.

    Raises Malformed for bytes that the endpoint would refuse, and HandlerError for a resource that is missing.
    """
    clock = SystemClock()
    moment = now or clock.now()
    kept = mask_headers((name.lower().encode(), value.encode("latin-1")) for name, value in headers.items())
    stored = StoredDelivery(1, 0, read_envelope(kept, as_body(given), received_at=moment))
    for handler in wanting(router, read_event(stored)):
        require_given(handler.name, handler.needs, resources)
    async with open_runner(
        clock, {}, threads=1, ask_once=_answering(asked), given=resources, told_now=lambda: now or clock.now()
    ) as runner:
        why = trigger or (Trigger.DELIVERY if attempt == 1 else Trigger.RETRY)
        local = LocalRunner(router, runner, attempt=attempt, trigger=why)
        runs = [_run(one) for one in [*await local.run(stored), *await local.finish()]]
    if check:
        _raise([one.exception for one in runs if one.exception is not None])
    return runs


def _answering(asked: Collection[str]) -> AskOnce:
    seen: set[tuple[HandlerName, str]] = set()

    async def ask(handler: HandlerName, key: str, now: datetime) -> bool:
        first = key not in asked and (handler, key) not in seen
        seen.add((handler, key))
        return first

    return ask


def _run(ran: LocalRun) -> HandlerRun:
    attempt, delivery = ran.attempt, ran.stored.delivery
    decision = decide(
        ran.result,
        attempt=attempt.number,
        schedule=ran.handler.schedule,
        now=attempt.ended_at,
        rng=random.Random(0),  # noqa: S311 - when it would be due is told to nobody
    )
    return HandlerRun(
        handler=ran.handler.name,
        type=delivery.type,
        id=delivery.key,
        state=state_after(decision),
        attempts=attempt.number,
        error=attempt.error,
        traceback=ran.traceback,
        value=ran.value,
        exception=ran.error,
    )


def _raise(raised: Sequence[BaseException]) -> None:
    if len(raised) == 1:
        raise raised[0]
    if raised:
        raise BaseExceptionGroup(f"{len(raised)} handlers failed", raised)
