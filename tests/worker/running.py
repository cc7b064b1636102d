"""Runs one attempt, or one batch, without a worker."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from datetime import timedelta
from typing import Any

from receiver.core.claims import WorkItem
from receiver.core.clock import VirtualClock
from receiver.core.deliveries import StoredDelivery
from receiver.core.types import HandlerName, Trigger
from receiver.events import Event
from receiver.routing import Router
from receiver.worker.attempts import Claimed, Ended
from receiver.worker.calls.runner import Runner
from tests.doubles import NOON, Inline, body_of, delivery, soon

SECOND = timedelta(seconds=1)


def claim(
    function: Callable[..., Any], *, body: bytes | None = None, event: Event | None = None, **options: Any
) -> Claimed:
    router = Router()
    router.add(function, "*", name="h", **options)
    source = StoredDelivery(7, 2, delivery("k", body=body_of(id="j") if body is None else body))
    item = WorkItem(1, HandlerName("h"), 3, 0, 0, Trigger.RETRY, source)
    return Claimed(item, router[HandlerName("h")], event)


async def run(
    function: Callable[..., Any],
    clock: VirtualClock | None = None,
    *,
    threads: Executor | None = None,
    resources: Mapping[Any, object] | None = None,
    **options: Any,
) -> Ended:
    runner = Runner(clock or VirtualClock(NOON), threads or Inline(), resources=resources or {})
    ended: Ended = await soon(runner.run(claim(function, **options)))
    return ended


def raising(error: BaseException) -> list[Callable[[Any], Any]]:
    """Return an async and a plain handler that raise this."""

    async def async_handler(event: Any) -> None:
        raise error

    def plain_handler(event: Any) -> None:
        raise error

    return [async_handler, plain_handler]


def batch(
    function: Callable[..., Any], count: int = 3, *, bodies: Sequence[bytes] = (), **options: Any
) -> list[Claimed]:
    """Return items of one handler, each of a delivery of its own."""
    router = Router()
    router.add(function, "*", name="h", **{"batch": 10, **options})
    bodies = bodies or [body_of(id=f"j{number}") for number in range(count)]
    return [
        Claimed(
            WorkItem(
                number,
                HandlerName("h"),
                1,
                0,
                0,
                Trigger.DELIVERY,
                StoredDelivery(number, 0, delivery(f"k{number}", body=body)),
            ),
            router[HandlerName("h")],
        )
        for number, body in enumerate(bodies)
    ]


async def run_batch(claimed: Sequence[Claimed], clock: VirtualClock | None = None, **more: Any) -> Sequence[Ended]:
    ended: Sequence[Ended] = await soon(Runner(clock or VirtualClock(NOON), Inline(), **more).run_batch(claimed))
    return ended
