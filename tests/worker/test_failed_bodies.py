"""What failed calls leave in memory."""

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from receiver.core.clock import VirtualClock
from receiver.events import Event
from receiver.worker.calls.runner import MAX_FAILED_BYTES, Runner
from tests.doubles import NOON, Inline, body_of, soon
from tests.worker.running import batch, claim


class Odd(Exception):
    """An error that its handler keeps."""


@pytest.fixture
def no_search() -> Iterator[None]:
    """Python itself searches for no garbage."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_search")
@pytest.mark.parametrize("count", [1, 2], ids=["event", "batch"])
async def test_errors_in_cycles_do_not_keep_many_bytes_of_bodies(count: int) -> None:
    """They would until Python has made many objects, and each keeps the event and its body."""
    errors: list[weakref.ref[Odd]] = []

    async def handler(event: Any) -> None:
        try:
            raise Odd
        except Odd as exc:
            errors.append(weakref.ref(exc))
            kept = exc
            raise kept from None

    async def batch_handler(events: list[Event]) -> None:
        await handler(events)

    body = body_of(id="j", data=[{"markdown": "x" * (MAX_FAILED_BYTES // 8)}])
    runner = Runner(VirtualClock(NOON), Inline())
    for _ in range(17):
        claimed = [claim(handler, body=body)] if count == 1 else batch(batch_handler, bodies=[body] * count)
        await soon(runner.run_batch(claimed))

    bytes_kept = sum(count * len(body) for error in errors if error() is not None)
    assert 0 < bytes_kept < MAX_FAILED_BYTES + count * len(body)
