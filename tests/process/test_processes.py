"""Functions in processes of their own: called, failed, killed, and never left behind."""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from receiver.core.claims import WorkItem
from receiver.core.clock import SystemClock
from receiver.core.deliveries import StoredDelivery
from receiver.core.rules import Died, Failed, Refused, Succeeded
from receiver.core.types import AttemptOutcome, HandlerName, Trigger
from receiver.routing import Router
from receiver.worker.attempts import Claimed, Ended
from receiver.worker.calls.pools import Processes, RoutingCall
from receiver.worker.calls.runner import Runner
from tests.doubles import Inline, body_of, delivery, eventually, soon
from tests.process import computing

COMMAND = (sys.executable, "-P", "-m", "receiver.worker.calls.child", "INFO", "text")


class PoolBench:
    """A runner with two processes, and a file that functions write to."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "notes"
        self.processes = Processes(SystemClock(), COMMAND, size=2)
        self.runner = Runner(SystemClock(), Inline(), processes=self.processes)

    def claim(self, function: Callable[..., Any], *, job: str = "j", **options: Any) -> Claimed:
        """Return an item for a function. The function gets what is not an option of handlers."""
        given = {key: options.pop(key) for key in ("error", "how") if key in options}
        router = Router()
        router.add(function, "*", name="h", run_in="process", **options)
        body = body_of(id=job, metadata={"file": str(self.file), **given})
        source = StoredDelivery(1, 0, delivery("k", body=body))
        return Claimed(WorkItem(1, HandlerName("h"), 1, 0, 0, Trigger.DELIVERY, source), router[HandlerName("h")])

    async def run(self, function: Callable[..., Any], **options: Any) -> Ended:
        """Run one attempt."""
        ended: Ended = await soon(self.runner.run(self.claim(function, **options)))
        return ended

    def notes(self) -> list[list[str]]:
        """Return what functions have written, a list of words per line."""
        return [line.split() for line in self.file.read_text().splitlines()] if self.file.exists() else []


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[PoolBench]:
    """Closed at the end."""
    bench = PoolBench(tmp_path)
    yield bench
    await bench.processes.aclose()


def alive(pid: str) -> bool:
    """Tell whether a process runs; one that is dead and not yet reaped does not."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


async def test_a_function_runs_in_another_process(bench: PoolBench) -> None:
    """Which is used again; a static method will do."""
    ends = [await bench.run(computing.note), await bench.run(computing.Tools.note, job="i")]

    assert [end.result for end in ends] == [Succeeded()] * 2
    (first, job), (second, other) = bench.notes()
    assert (job, other) == ("j", "i")
    assert first == second != str(os.getpid())


async def test_a_default_time_out_of_sockets_is_not_for_ours(bench: PoolBench) -> None:
    """Modules of handlers set one as they are imported, so that no request of theirs hangs."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(0.2)
    try:
        ends = [await bench.run(computing.note)]
        await asyncio.sleep(0.3)
        ends.append(await bench.run(computing.note))
    finally:
        socket.setdefaulttimeout(before)

    assert [end.result for end in ends] == [Succeeded()] * 2
    (first, _), (second, _) = bench.notes()
    assert first == second


async def test_calls_run_beside_each_other(bench: PoolBench) -> None:
    """As many as there may be processes; the others wait for one."""
    tasks = [asyncio.create_task(bench.runner.run(bench.claim(computing.hang))) for _ in range(3)]
    await eventually(lambda: len(bench.notes()) == 2)
    first, second = (pid for pid, _ in bench.notes())
    assert first != second

    os.kill(int(first), signal.SIGKILL)
    await eventually(lambda: len(bench.notes()) == 3)

    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def test_a_batch_is_sent_as_a_list(bench: PoolBench) -> None:
    """Of the events that are wanted."""
    claimed = [
        bench.claim(computing.note_all, job=job, batch=10, where=lambda event: event.job_id != "b") for job in "abc"
    ]
    ends = await soon(bench.runner.run_batch(claimed))

    assert [end.result for end in ends] == [Succeeded()] * 3
    assert [job for _, job in bench.notes()] == ["a", "c"]


RAISED: list[tuple[str, dict[str, Any], object, str]] = [
    ("own", {}, Failed(), "OwnError: 1 and 2"),
    ("own", {"give_up_on": computing.OwnError}, Refused(), "OwnError: 1 and 2"),
    ("own", {"retry_on": ValueError}, Failed(), "OwnError: 1 and 2"),
    ("own", {"retry_on": OSError}, Refused(), "OwnError: 1 and 2"),
    ("retry", {}, Failed(timedelta(seconds=9)), "Retry: the handler asked for a retry"),
    ("limit", {}, Failed(at_least=timedelta(seconds=9)), "RateLimited: 429"),
    ("give up", {}, Refused(), "GiveUp: no good"),
    ("exit", {}, Failed(), "SystemExit: 3"),
    ("interrupt", {}, Failed(), "KeyboardInterrupt"),
]


async def test_the_error_of_a_function_reaches_the_worker(bench: PoolBench) -> None:
    """As text, with the traceback of its own process, and it means what it means here."""
    for error, options, result, words in RAISED:
        ended = await bench.run(computing.fail, error=error, **options)

        assert ended.result == result
        assert ended.attempt.error == words
        assert "computing.py" in str(ended.attempt.traceback)
        assert ended.attempt.outcome is AttemptOutcome.FAILED
        assert ended.raised is not None
        assert ended.raised.frames[-1].startswith("tests/process/computing.py:")


@pytest.mark.parametrize(
    ("how", "words"), [("exit", "ended with exit code 7"), ("kill", "was killed by SIGKILL")], ids=str
)
async def test_a_process_that_dies_fails_its_attempt_and_is_replaced(
    bench: PoolBench, how: str, words: str
) -> None:
    """The policy for exceptions has no say in it: the function has raised none."""
    ended = await bench.run(computing.die, how=how, retry_on=OSError)

    assert ended.result == Died()
    assert ended.attempt.error == f"ProcessDied: the process that ran it {words}"
    assert (await bench.run(computing.note)).result == Succeeded()


async def test_a_process_that_died_between_two_calls_is_replaced(bench: PoolBench) -> None:
    """Nothing reports it: it did nothing."""
    await bench.run(computing.note)
    os.kill(int(bench.notes()[0][0]), signal.SIGKILL)
    await eventually(lambda: not alive(bench.notes()[0][0]))
    await asyncio.sleep(0)
    await eventually(lambda: not bench.processes._idle[0].lives)

    assert (await bench.run(computing.note)).result == Succeeded()


@pytest.mark.parametrize(("how", "exit_code"), [("return", "0"), ("exit", "3"), ("raise", "1")], ids=str)
async def test_the_copy_of_a_function_that_forks_ends_and_says_nothing(
    bench: PoolBench, how: str, exit_code: str
) -> None:
    """The results of this call and of the next ones are those of their functions."""
    first = await bench.run(computing.fork, how=how)
    second = await bench.run(computing.fail, error="own")
    third = await bench.run(computing.note)

    assert [end.result for end in (first, second, third)] == [Succeeded(), Failed(), Succeeded()]
    assert second.attempt.error == "OwnError: 1 and 2"
    (process, code), (same, _) = bench.notes()
    assert code == exit_code
    assert process == same


async def test_the_copy_that_an_import_makes_calls_no_function(bench: PoolBench) -> None:
    """Nor does it say that it does."""
    folder = bench.file.parent
    (folder / "forks_at_import.py").write_text(
        "import os\nfrom receiver import Router\nos.fork()\nrouter = Router()"
    )
    started: list[int] = []
    for _ in range(2):
        call = RoutingCall("forks_at_import:router", str(folder), (), ())
        await soon(bench.processes.run(call, lambda: started.append(1)))

    assert started == [1, 1]


ANSWERING = """
import json, socket, sys
from receiver.worker.calls.pools import SIZE, CallDone, CallStarted, write_message

worker = socket.socket(fileno=int(sys.argv[2]))
incoming = worker.makefile("rb")
for _ in ("paths", "call"):
    incoming.read(*SIZE.unpack(incoming.read(SIZE.size)))
for kind, number in json.loads(sys.argv[1]):
    worker.sendall(write_message(CallStarted(number) if kind == "started" else CallDone(number, None)))
incoming.read()
"""
STARTED, DONE = ("started", 1), ("done", 1)
WRONG = "answered another call, so it was killed"
DIED, NOT_RUN = f"ProcessDied: the process that ran it {WRONG}", f"NoProcess: the one that was to run it {WRONG}"


@pytest.mark.parametrize(
    ("answers", "ends"),
    [
        (
            [STARTED, DONE, DONE],
            [(Succeeded(), None), (Failed(), NOT_RUN)],
        ),
        ([STARTED, ("done", 0)], [(Died(), DIED)]),
        ([STARTED, STARTED], [(Died(), DIED)]),
        ([("started", 0)], [(Failed(), NOT_RUN)]),
    ],
    ids=["one too many", "of another call", "started twice", "another one started"],
)
async def test_an_answer_to_another_call_is_no_result(
    bench: PoolBench, answers: list[tuple[str, int]], ends: list[tuple[object, str | None]]
) -> None:
    """Nobody knows what such a process does, so it is killed."""
    command = (sys.executable, "-P", "-c", ANSWERING, json.dumps(answers))
    processes = Processes(SystemClock(), command, size=1)
    bench.runner = Runner(SystemClock(), Inline(), processes=processes)
    found = [await bench.run(computing.note) for _ in ends]

    assert [(end.result, end.attempt.error) for end in found] == ends
    await eventually(lambda: not processes._all)


async def test_a_function_past_its_timeout_is_killed(bench: PoolBench) -> None:
    """With what it has started: a computation cannot be cancelled in any other way."""
    await bench.run(computing.note)  # so that the process is there, and the time-out is that of the function
    ended = await bench.run(computing.hang, timeout=0.2)

    assert (ended.attempt.outcome, ended.result) == (AttemptOutcome.TIMED_OUT, Failed())
    assert ended.attempt.error == "took longer than 0.2 s and its process was killed"
    assert not ended.attempt.overdue
    await eventually(lambda: not any(alive(pid) for pid in bench.notes()[-1]))


async def test_what_a_process_has_started_ends_with_it(bench: PoolBench) -> None:
    """Nobody would end a browser whose process was killed for its memory."""
    task = asyncio.create_task(bench.run(computing.hang))
    await eventually(bench.notes)
    process, program = bench.notes()[0]
    os.kill(int(process), signal.SIGKILL)

    assert (await soon(task)).result == Died()
    await eventually(lambda: not alive(program))


async def test_a_cancelled_call_ends_with_its_process(bench: PoolBench) -> None:
    """The worker is stopping."""
    task = asyncio.create_task(bench.runner.run(bench.claim(computing.hang)))
    await eventually(bench.notes)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await soon(task)

    await eventually(lambda: not any(alive(pid) for pid in bench.notes()[0]))


async def test_signals_to_every_process_are_left_to_the_worker(bench: PoolBench) -> None:
    """A platform that stops a service signals all of its processes; what runs may still finish."""
    await bench.run(computing.note)
    for number in (signal.SIGTERM, signal.SIGINT):
        os.kill(int(bench.notes()[0][0]), number)

    assert (await bench.run(computing.note)).result == Succeeded()
    assert len({pid for pid, _ in bench.notes()}) == 1


async def test_a_function_may_print(bench: PoolBench, capfd: pytest.CaptureFixture[str]) -> None:
    """And does not disturb the answers."""
    assert (await bench.run(computing.shout)).result == Succeeded()
    assert len(capfd.readouterr().out) == 100_100


async def test_a_process_that_cannot_be_started_fails_the_attempt(tmp_path: Path) -> None:
    """It may be possible again later."""
    bench = PoolBench(tmp_path)
    bench.runner = Runner(SystemClock(), Inline(), processes=Processes(SystemClock(), ["/no/such/program"], size=1))
    ended = await bench.run(computing.note)

    assert ended.result == Failed()
    assert ended.attempt.error == "NoProcess: none could be started: No such file or directory"


async def test_a_command_that_does_not_answer_fails_the_attempt(tmp_path: Path) -> None:
    """It says how it ended."""
    bench = PoolBench(tmp_path)
    processes = Processes(SystemClock(), [sys.executable, "-c", "raise SystemExit(5)"], size=1)
    bench.runner = Runner(SystemClock(), Inline(), processes=processes)
    ended = await bench.run(computing.note)

    assert ended.result == Failed()
    assert ended.attempt.error == "NoProcess: the one that was to run it ended with exit code 5"
    await processes.aclose()


WORKER = """
import asyncio, sys
from pathlib import Path
from tests.process.test_processes import PoolBench
from tests.process import computing

async def main():
    bench = PoolBench(Path(sys.argv[1]))
    await bench.runner.run(bench.claim(computing.hang))

asyncio.run(main())
"""


async def test_a_worker_that_is_killed_leaves_no_process_behind(bench: PoolBench) -> None:
    """Nor what a function has started."""
    worker = await asyncio.create_subprocess_exec(sys.executable, "-c", WORKER, str(bench.file.parent))
    try:
        await eventually(bench.notes)
        assert all(alive(pid) for pid in bench.notes()[0])
    finally:
        worker.kill()
        await worker.wait()

    await eventually(lambda: not any(alive(pid) for pid in bench.notes()[0]))
