"""Running out of files or memory: seen in time, put down to a handler, and the worker stops."""

import asyncio
import logging
from collections.abc import Sequence

import pytest

from receiver.core.clock import VirtualClock
from receiver.core.types import HandlerName
from receiver.worker.upkeep.strain import INTERVAL, Usage, UsageWatch, measure
from tests.doubles import NOON, event_of, pass_time, turns

MEBIBYTE = 1024 * 1024
START = Usage(20, 256, 50 * MEBIBYTE)


def looking(usages: Sequence[Usage]) -> UsageWatch:
    """Return one that measures these, one at each look."""
    left = iter([START, *usages])
    return UsageWatch(100 * MEBIBYTE, lambda: next(left))


@pytest.mark.parametrize(
    ("usage", "words"),
    [
        (Usage(240, 256, MEBIBYTE), None),
        (Usage(241, 256, MEBIBYTE), "241 of at most 256 files are open"),
        (Usage(960, 1024, MEBIBYTE), None),
        (Usage(961, 1024, MEBIBYTE), "961 of at most 1024 files are open"),
        (Usage(20, 256, 100 * MEBIBYTE), None),
        (Usage(20, 256, 101 * MEBIBYTE), "106 MB of memory are in use, and MAX_MEMORY is 105 MB"),
    ],
)
def test_the_end_of_files_or_memory_is_seen_before_it_comes(
    usage: Usage, words: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """The rest is for giving the work back."""
    assert looking([usage]).check() is (words is not None)
    assert [vars(record)["reason"] for record in caplog.records] == ([words] if words else [])


def test_the_handler_is_named_that_ran_while_it_grew(caplog: pytest.LogCaptureFixture) -> None:
    """By the growth since the start; what another handler gave back does not count for it."""
    usages = [Usage(files, 256, files * MEBIBYTE // 4) for files in (25, 100, 95, 200, 245)]
    usage = looking(usages)
    for handlers in (["good"], ["leak"], ["good"], ["leak", "good"], []):
        for handler in handlers:
            usage.note(HandlerName(handler))
        usage.check()

    [record] = caplog.records
    assert vars(record)["suspects"] == ["leak"]


def test_handlers_that_always_run_together_are_named_together(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing tells them apart; one that began later and alone is not among them."""
    usage = looking([Usage(files, 256, 0) for files in (100, 240, 245)])
    for handlers in (["b", "a"], ["b", "a"], ["late"]):
        for handler in handlers:
            usage.note(HandlerName(handler))
        usage.check()

    [record] = caplog.records
    assert vars(record)["suspects"] == ["a", "b"]


def test_no_handler_is_blamed_when_none_ran(caplog: pytest.LogCaptureFixture) -> None:
    """The limit may simply be too low."""
    looking([Usage(20, 256, 200 * MEBIBYTE)]).check()

    [record] = caplog.records
    assert vars(record)["suspects"] == []
    assert "the limit may be too low" in vars(record)["advice"]
    assert "handlers keep" not in record.getMessage()
    assert "suspects" not in record.getMessage()


async def test_the_worker_is_stopped_once(caplog: pytest.LogCaptureFixture) -> None:
    """It looks no more afterwards."""
    caplog.set_level(logging.ERROR)
    usage, clock, stop = looking([START, START, Usage(250, 256, 0)]), VirtualClock(NOON), asyncio.Event()
    watching = asyncio.create_task(usage.watch(stop, clock))
    await turns()
    for _ in range(2):
        assert not stop.is_set()
        await pass_time(clock, INTERVAL)

    await watching
    assert stop.is_set()
    assert usage.found
    assert [event_of(record) for record in caplog.records] == ["worker_exhausted"]


def test_this_process_is_measured() -> None:
    """It has files open, fewer than allowed."""
    usage = measure()

    assert 0 < usage.files < usage.max_files
    assert usage.memory >= 0
