"""Work beside the event loop: small in threads, all other in processes that can be ended."""

import asyncio
import os
import re
import threading
from collections.abc import AsyncIterator

import pytest

from receiver.emulator.failures import ScrapeFailed
from receiver.emulator.working.processes import LARGE, LONG, SMALL, WorkLost, WorkProcesses
from tests.doubles import soon, turns

MORE = SMALL + 1


def endless(text: str) -> bool:
    """Never end, and keep the lock of the interpreter."""
    return bool(re.match(r"(a+)+$", text))


def hungry(count: int) -> int:
    return len(bytearray(count))


def failing(code: str) -> None:
    raise ScrapeFailed(code, "no")


def echo(value: object) -> object:
    return value


def where() -> list[int]:
    return [os.getpid(), threading.get_ident()]


@pytest.fixture
async def work() -> AsyncIterator[WorkProcesses]:
    async with WorkProcesses(processes=1) as made:
        yield made


async def test_small_work_is_done_in_a_thread_and_other_work_in_a_process(work: WorkProcesses) -> None:
    small, large = await work.run(where, size=SMALL), await work.run(where, size=MORE)

    assert small[0] == os.getpid() != large[0]
    assert small[1] != threading.get_ident()


async def test_a_process_is_kept_unless_its_work_was_large(work: WorkProcesses) -> None:
    first, second = [await work.run(where, size=MORE) for _ in range(2)]
    await work.run(where, size=LARGE)
    third = await work.run(where, size=MORE)

    assert (first[0] == second[0], second[0] == third[0]) == (True, False)


@pytest.mark.parametrize("size", [0, MORE])
@pytest.mark.parametrize(
    "value",
    [
        None,
        [1, None, {"a": "\ud800"}],
        {"long": "ä\ud83d" * LONG, "short": "a", "list": ["b" * LONG]},
        {"one": "a" * 2 * LONG, "other": "b" * 3 * LONG},
    ],
    ids=["null", "surrogate", "long", "two long"],
)
async def test_values_arrive_as_they_are(work: WorkProcesses, value: object, size: int) -> None:
    assert await work.run(echo, value, size=size) == value


@pytest.mark.parametrize("size", [0, MORE])
async def test_a_failure_arrives_as_it_is(work: WorkProcesses, size: int) -> None:
    with pytest.raises(ScrapeFailed) as failed:
        await work.run(failing, "SCRAPE_TIMEOUT", size=size)

    assert (failed.value.code, str(failed.value)) == ("SCRAPE_TIMEOUT", "no")


async def test_work_that_is_given_up_ends(work: WorkProcesses) -> None:
    """A thread would go on for ever, and nothing else would ever run."""
    lost = asyncio.create_task(work.run(endless, "a" * 100 + "b", size=MORE))
    await turns(100)
    lost.cancel()
    with pytest.raises(asyncio.CancelledError):
        await soon(lost)

    assert await soon(work.run(echo, 1, size=MORE)) == 1


async def test_work_that_takes_too_long_ends_by_itself(
    work: WorkProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("receiver.emulator.working.processes.LONGEST_SECONDS", 0.0)
    with pytest.raises(WorkLost, match="too much time or memory"):
        await soon(work.run(endless, "a" * 100 + "b", size=MORE))


async def test_work_that_needs_too_much_memory_is_lost(
    work: WorkProcesses, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(WorkLost, match="too much time or memory"):
        await soon(work.run(hungry, 4 << 30, size=MORE))

    assert "MemoryError" in capfd.readouterr().err
    assert await soon(work.run(echo, 1, size=MORE)) == 1
