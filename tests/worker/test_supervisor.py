"""Keeping a worker running: real child processes, a clock that is moved by hand, and what the next takes over."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path

import pytest

from receiver.core.clock import Timer, VirtualClock
from receiver.core.types import WorkerId
from receiver.worker.upkeep.supervisor import NextWorker, ProcessEnd, Supervisor, own_command, supervise
from tests.doubles import NOON, event_of, soon, turns

SECOND = timedelta(seconds=1)
REFUSED, STORE_REFUSED = 2, 3


def ending(code: int) -> str:
    """Return a program that ends by itself as ours do: it tells its exit code."""
    tells = f"os.write(int(os.environ['CRAWL_RECEIVER_TELLS_EXIT_CODE_TO']), b'{code}\\n')"
    return f"import os; {tells}; raise SystemExit({code})"


class WatchedClock(VirtualClock):
    """A clock that tells when somebody begins to wait, and for how long."""

    def __init__(self) -> None:
        super().__init__(NOON)
        self.waits: asyncio.Queue[timedelta] = asyncio.Queue()

    def call_later(self, duration: timedelta, callback: Callable[[], None]) -> Timer:
        """Note how long, then do it."""
        self.waits.put_nowait(duration)
        return super().call_later(duration, callback)


class Staff:
    """Names the workers, notes what they were started with, and runs small programs in their place."""

    def __init__(self, *programs: str) -> None:
        self._programs = list(programs)
        self.started: list[tuple[str, tuple[str, ...]]] = []
        self.told: list[bool] = []

    def command(self, worker: WorkerId, dead: Sequence[WorkerId], told: bool) -> Sequence[str]:
        """Return the next program; the last one repeats."""
        self.started.append((worker, tuple(dead)))
        self.told.append(told)
        program = self._programs.pop(0) if len(self._programs) > 1 else self._programs[0]
        return program.split(" ") if program.startswith("/") else (sys.executable, "-I", "-S", "-c", program)

    def next_worker(self) -> NextWorker:
        """Return what a supervisor asks for the next program."""
        return NextWorker(self.command, self.new_id, store_refused=STORE_REFUSED)

    def new_id(self) -> WorkerId:
        """Return a name that no other has."""
        return WorkerId(f"worker-{len(self.started) + 1}")


@asynccontextmanager
async def supervising(
    staff: Staff, clock: WatchedClock, *, grace: timedelta = 20 * SECOND
) -> AsyncIterator["asyncio.Task[None]"]:
    """Supervise for the length of the block."""
    async with supervised(staff, clock, grace=grace) as (_, task):
        yield task


@asynccontextmanager
async def supervised(
    staff: Staff, clock: WatchedClock, *, grace: timedelta = 20 * SECOND, after_changes: bool = False
) -> AsyncIterator[tuple[Supervisor, "asyncio.Task[None]"]]:
    """Supervise for the length of the block; yield the supervisor too."""
    supervisor = Supervisor(
        staff.next_worker(),
        os.environ,
        clock,
        grace=grace,
        refused=REFUSED,
        store_refused=STORE_REFUSED,
        restarts_after_changes=after_changes,
    )
    task = asyncio.create_task(supervisor.run())
    try:
        yield supervisor, task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await soon(task)


async def pauses(clock: WatchedClock, count: int) -> list[float]:
    """Let as many workers end, and return the pauses after them in seconds."""
    found = []
    for _ in range(count):
        pause = await soon(clock.waits.get())
        found.append(pause.total_seconds())
        clock.advance(pause)
    return found


async def pauses_while(task: asyncio.Task[None], clock: WatchedClock) -> list[float]:
    """Return the first two pauses. An error of the supervisor is raised at once."""
    waiting = asyncio.create_task(pauses(clock, 2))
    await asyncio.wait([waiting, task], return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        waiting.cancel()
        task.result()
    return await waiting


async def test_a_worker_that_ends_is_started_again_with_growing_pauses(caplog: pytest.LogCaptureFixture) -> None:
    """Doubling up to a minute; every end is reported."""
    staff, clock = Staff("raise SystemExit(9)"), WatchedClock()
    async with supervising(staff, clock):
        assert await pauses(clock, 8) == [1, 2, 4, 8, 16, 32, 60, 60]

    ends = [vars(record) for record in caplog.records if event_of(record) == "worker_ended"]
    assert [(end["how"], end["restart_in_s"]) for end in ends[:2]] == [("exit code 9", 1), ("exit code 9", 2)]
    assert {end["levelname"] for end in ends} == {"ERROR"}


async def test_a_first_worker_that_is_refused_ends_the_supervision() -> None:
    """To try again would not help, and whoever has started it shall see the reason."""
    staff = Staff(ending(REFUSED))
    async with supervising(staff, WatchedClock()) as task:
        await soon(task)

    assert len(staff.started) == 1


async def test_a_later_worker_that_is_refused_is_started_again() -> None:
    """A change has broken the handlers, and another may mend them; deliveries are kept in the meantime."""
    staff, clock = Staff("raise SystemExit(1)", ending(REFUSED)), WatchedClock()
    async with supervising(staff, clock):
        assert await pauses(clock, 3) == [1, 2, 4]


async def test_it_knows_whether_there_is_a_worker(tmp_path: Path) -> None:
    """Not before the first, nor between two."""
    fifo = tmp_path / "end"
    os.mkfifo(fifo)
    clock = WatchedClock()
    staff = Staff(f"open({str(fifo)!r}).read()")
    supervisor = Supervisor(
        staff.next_worker(), os.environ, clock, grace=SECOND, refused=REFUSED, store_refused=STORE_REFUSED
    )
    assert not supervisor.is_running

    task = asyncio.create_task(supervisor.run())
    writer = await soon(asyncio.to_thread(os.open, fifo, os.O_WRONLY))
    while not supervisor.is_running:  # the program may run before its start has returned here
        await soon(asyncio.sleep(0))
    os.close(writer)
    await soon(clock.waits.get())
    assert not supervisor.is_running
    task.cancel()
    with suppress(asyncio.CancelledError):
        await soon(task)


async def test_each_worker_takes_over_from_all_that_died_young() -> None:
    """One that dies of its handlers' import has taken nothing over; the leases of those before it still run."""
    staff, clock = Staff(""), WatchedClock()
    async with supervising(staff, clock):
        await pauses(clock, 3)

    assert staff.started[:3] == [
        ("worker-1", ()),
        ("worker-2", ("worker-1",)),
        ("worker-3", ("worker-1", "worker-2")),
    ]


async def test_a_worker_that_lived_for_long_is_started_again_at_once(tmp_path: Path) -> None:
    """The pauses begin anew, and only its own work is left to take over."""
    fifo = tmp_path / "end"
    os.mkfifo(fifo)
    staff, clock = Staff("", "", f"open({str(fifo)!r}).read()", ""), WatchedClock()
    async with supervising(staff, clock):
        assert await pauses(clock, 2) == [1, 2]
        writer = await soon(asyncio.to_thread(os.open, fifo, os.O_WRONLY))  # returns when the worker reads
        clock.advance(60 * SECOND)
        os.close(writer)
        assert await pauses(clock, 2) == [1, 2]
    assert staff.started[3] == ("worker-4", ("worker-3",))


async def test_a_worker_that_ended_well_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """Ctrl-C in a terminal reaches it too."""
    caplog.set_level(logging.INFO)
    clock = WatchedClock()
    async with supervising(Staff(ending(0)), clock):
        await pauses(clock, 1)

    assert caplog.records[0].levelname == "INFO"


FORKS = """
import os
if not os.fork():
    os.read(0, 1)  # until the supervisor has ended with this process
    os._exit(0)
"""


@pytest.mark.parametrize("code", [0, REFUSED, STORE_REFUSED])
@pytest.mark.parametrize("forks", [False, True])
async def test_an_exit_code_that_the_worker_did_not_tell_is_a_crash(
    code: int, forks: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A handler has ended its process with it. That stops no supervision, and no store is thought refused.

    A process that it forked may have the pipe open.
    """
    clock = WatchedClock()
    program = f"{FORKS if forks else 'import os'}\nos._exit({code})"
    async with supervising(Staff(program), clock) as task:
        assert await pauses_while(task, clock) == [1, 2]

    ends = [vars(record) for record in caplog.records if event_of(record) == "worker_ended"]
    assert [(end["levelname"], end["how"]) for end in ends[:2]] == [("ERROR", f"exit code {code}")] * 2


async def test_another_exit_code_than_the_worker_told_is_a_crash() -> None:
    """Code of the handlers ended the process after the worker."""
    clock = WatchedClock()
    async with supervising(Staff(ending(0).replace("raise SystemExit(0)", f"os._exit({REFUSED})")), clock):
        assert await pauses(clock, 2) == [1, 2]


@pytest.mark.parametrize(
    ("number", "how"),
    [
        (signal.SIGKILL, "killed by SIGKILL"),
        (signal.SIGSEGV, "killed by SIGSEGV"),
        (signal.SIGRTMIN + 1, "killed by"),
    ],
)
async def test_a_worker_that_is_killed_is_started_again(
    number: int, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """By whichever signal, also one without a name."""
    clock = WatchedClock()
    async with supervising(Staff(f"import os; os.kill(os.getpid(), {int(number)})"), clock) as task:
        assert await pauses_while(task, clock) == [1, 2]

    assert how in str(vars(caplog.records[0])["how"])


async def test_a_worker_that_cannot_be_started_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    """As when memory or process numbers are short for a moment: the endpoint must not lose its worker for good."""
    staff, clock = Staff("/nowhere/to/be/found", ""), WatchedClock()
    async with supervising(staff, clock) as task:
        assert await pauses_while(task, clock) == [1, 2]

    assert len(staff.started) >= 2
    assert caplog.records


TELLS_AND_WAITS = """
import os, signal, sys
{setup}
os.close(os.open({fifo!r}, os.O_WRONLY))  # somebody reads: now we are ready
sys.stdin.read(){end}
"""


async def test_stopping_ends_the_worker_and_waits_for_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """By SIGTERM, upon which it cleans up."""
    fifo, mark = tmp_path / "ready", tmp_path / "cleaned"
    os.mkfifo(fifo)
    setup = f"signal.signal(signal.SIGTERM, lambda *_: (open({str(mark)!r}, 'w').close(), os._exit(0)))"
    program = TELLS_AND_WAITS.format(setup=setup, fifo=str(fifo), end="")
    async with supervising(Staff(program), WatchedClock()) as task:
        os.close(await soon(asyncio.to_thread(os.open, fifo, os.O_RDONLY)))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await soon(task)

    assert mark.exists()
    assert "worker_killed" not in [event_of(record) for record in caplog.records]


async def test_a_second_request_to_stop_does_not_leave_the_worker_behind(tmp_path: Path) -> None:
    """The supervisor ends after its worker, however often it is cancelled."""
    fifo, told, released = tmp_path / "ready", tmp_path / "told", tmp_path / "released"
    for path in (fifo, told, released):
        os.mkfifo(path)
    tell_and_wait = f"open({str(told)!r}, 'w').close(), open({str(released)!r}).read(), os._exit(0)"
    setup = f"signal.signal(signal.SIGTERM, lambda *_: ({tell_and_wait}))"
    program = TELLS_AND_WAITS.format(setup=setup, fifo=str(fifo), end="")
    async with supervising(Staff(program), WatchedClock()) as task:
        os.close(await soon(asyncio.to_thread(os.open, fifo, os.O_RDONLY)))
        task.cancel()
        os.close(await soon(asyncio.to_thread(os.open, told, os.O_RDONLY)))
        task.cancel()
        await turns()
        assert not task.done()

        os.close(await soon(asyncio.to_thread(os.open, released, os.O_WRONLY)))
        with pytest.raises(asyncio.CancelledError):
            await soon(task)


async def test_a_worker_that_does_not_stop_is_killed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """After its grace time; nothing of it is left."""
    fifo = tmp_path / "ready"
    os.mkfifo(fifo)
    setup = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    program = TELLS_AND_WAITS.format(setup=setup, fifo=str(fifo), end="")
    async with supervising(Staff(program), WatchedClock(), grace=timedelta(milliseconds=10)) as task:
        os.close(await soon(asyncio.to_thread(os.open, fifo, os.O_RDONLY)))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await soon(task)

    assert "worker_killed" in [event_of(record) for record in caplog.records]


async def test_stopping_between_two_workers_starts_no_other() -> None:
    """Nothing has to be waited for."""
    staff, clock = Staff(""), WatchedClock()
    async with supervising(staff, clock):
        await soon(clock.waits.get())

    assert len(staff.started) == 1


async def test_a_worker_sees_the_environment_given_and_an_open_input(tmp_path: Path) -> None:
    """Its standard input ends when its supervisor does, and not before."""
    seen = tmp_path / "seen"
    os.mkfifo(seen)
    program = (
        "import os, select, sys\n"
        "readable = bool(select.select([0], [], [], 0)[0])\n"
        f"print(os.environ['RECEIVER_PATH'], readable, file=open({str(seen)!r}, 'w'))"
    )
    clock = WatchedClock()
    supervisor = Supervisor(
        Staff(program).next_worker(),
        {"RECEIVER_PATH": "/x"},
        clock,
        grace=SECOND,
        refused=REFUSED,
        store_refused=STORE_REFUSED,
    )
    task = asyncio.create_task(supervisor.run())
    said = await soon(asyncio.to_thread(seen.read_text))
    task.cancel()
    with suppress(asyncio.CancelledError):
        await soon(task)

    assert said == "/x False\n"


async def test_a_restart_replaces_the_worker_at_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The worker stops as at the end, and the next one starts without a pause."""
    ready = [tmp_path / "first", tmp_path / "second"]
    for fifo in ready:
        os.mkfifo(fifo)
    staff = Staff(*[TELLS_AND_WAITS.format(setup="", fifo=str(fifo), end="") for fifo in ready])
    clock = WatchedClock()
    async with supervised(staff, clock) as (supervisor, _):
        os.close(await soon(asyncio.to_thread(os.open, ready[0], os.O_RDONLY)))
        supervisor.restart()
        os.close(await soon(asyncio.to_thread(os.open, ready[1], os.O_RDONLY)))

    assert staff.started == [("worker-1", ()), ("worker-2", ("worker-1",))]
    assert clock.waits.empty()
    assert "worker_ended" not in [event_of(record) for record in caplog.records]


async def test_a_restart_ends_the_pause_between_two_workers() -> None:
    """Somebody has corrected what ended the first."""
    staff, clock = Staff("raise SystemExit(9)"), WatchedClock()
    async with supervised(staff, clock) as (supervisor, _):
        assert await soon(clock.waits.get()) == SECOND
        supervisor.restart()
        assert await soon(clock.waits.get()) == 2 * SECOND  # the second one has ended too


async def test_a_refused_worker_waits_for_a_change(caplog: pytest.LogCaptureFixture) -> None:
    """Its error is told once, and not again before somebody has saved a file. That holds for the first one too."""
    staff, clock = Staff(ending(REFUSED)), WatchedClock()

    async def told(times: int) -> None:
        while [event_of(one) for one in caplog.records].count("worker_waits_for_change") < times:  # noqa: ASYNC110
            await asyncio.sleep(0)

    async with supervised(staff, clock, after_changes=True) as (supervisor, task):
        for count in (1, 2):
            await soon(told(count))
            assert len(staff.started) == count
            supervisor.restart()
        assert not task.done()
    assert clock.waits.empty()


async def test_a_store_that_is_refused_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """A worker that waiting does not help is tried once a minute, and does not repeat itself."""
    staff, clock = Staff(ending(STORE_REFUSED)), WatchedClock()
    async with supervising(staff, clock):
        assert await pauses(clock, 3) == [60, 60, 60]

    assert staff.told[:3] == [False, True, True]
    levels = [record.levelname for record in caplog.records if event_of(record) == "worker_ended"]
    assert [level for level in levels if level != "DEBUG"] == ["ERROR"]


async def test_a_process_inherits_the_descriptors_that_it_shall_share(tmp_path: Path) -> None:
    """Such as a socket that listens. Nothing else of the supervisor is open in it."""
    told = tmp_path / "told"
    os.mkfifo(told)
    reader, writer = os.pipe()
    other = os.dup(reader)
    program = (
        "import os\n"
        f"open_files = set(map(int, os.listdir('/dev/fd'))) & {{{reader}, {other}}}\n"
        f"print(open_files, file=open({str(told)!r}, 'w'))"
    )
    supervisor = Supervisor(
        lambda _: (sys.executable, "-I", "-S", "-c", program),
        os.environ,
        WatchedClock(),
        grace=SECOND,
        refused=REFUSED,
        store_refused=STORE_REFUSED,
        inherited=[reader],
    )
    task = asyncio.create_task(supervisor.run())
    said = await soon(asyncio.to_thread(told.read_text))
    task.cancel()
    with suppress(asyncio.CancelledError):
        await soon(task)
    for descriptor in (reader, writer, other):
        os.close(descriptor)

    assert said == f"{{{reader}}}\n"


async def test_it_tells_when_there_is_a_process_and_when_there_is_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A web process has its own words in the log. Each process ends once the test has seen that it runs."""
    fifo = tmp_path / "end"
    os.mkfifo(fifo)
    ends = os.open(fifo, os.O_RDWR)
    staff = Staff(f"open({str(fifo)!r}, 'rb', buffering=0).read(1); raise SystemExit(9)")
    clock, seen = WatchedClock(), list[bool]()

    def note() -> None:
        seen.append(supervisor.is_running)
        if supervisor.is_running:
            os.write(ends, b"x")

    supervisor = Supervisor(
        staff.next_worker(),
        os.environ,
        clock,
        kind="web_process",
        grace=SECOND,
        refused=REFUSED,
        store_refused=STORE_REFUSED,
        changed=note,
    )
    task = asyncio.create_task(supervisor.run())
    await pauses(clock, 2)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await soon(task)
    os.close(ends)

    assert seen[:4] == [True, False, True, False]
    assert event_of(caplog.records[0]) == "web_process_ended"


async def test_several_supervisors_stop_together(tmp_path: Path) -> None:
    """One process is started again, and the other does not notice. A cancel ends both, also a second one."""
    fifos = [tmp_path / "first", tmp_path / "second"]
    for fifo in fifos:
        os.mkfifo(fifo)
    clock = WatchedClock()
    staffs = [
        Staff(*[TELLS_AND_WAITS.format(setup="", fifo=str(fifo), end="") for fifo in fifos[:1]]),
        Staff("raise SystemExit(9)", TELLS_AND_WAITS.format(setup="", fifo=str(fifos[1]), end="")),
    ]
    task = asyncio.create_task(supervise([_supervisor(staff, clock) for staff in staffs]))
    assert await pauses(clock, 1) == [1]
    for fifo in fifos:
        os.close(await soon(asyncio.to_thread(os.open, fifo, os.O_RDONLY)))
    task.cancel()
    await turns()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await soon(task)

    assert [len(staff.started) for staff in staffs] == [1, 2]


async def test_if_a_first_process_is_refused_all_others_stop(tmp_path: Path) -> None:
    """Whoever has started them shall see the reason, and nothing runs in half."""
    fifo = tmp_path / "ready"
    os.mkfifo(fifo)
    waits = Staff(TELLS_AND_WAITS.format(setup="", fifo=str(fifo), end=""))
    refused = Staff(f"open({str(fifo)!r}).read(); {ending(REFUSED)}")

    await soon(supervise([_supervisor(staff, WatchedClock()) for staff in (waits, refused)]))

    assert len(waits.started) == len(refused.started) == 1


def _supervisor(staff: Staff, clock: WatchedClock) -> Supervisor:
    return Supervisor(
        staff.next_worker(),
        os.environ,
        clock,
        grace=20 * SECOND,
        refused=REFUSED,
        store_refused=STORE_REFUSED,
    )


def test_the_command_of_a_child_is_this_interpreters() -> None:
    """So that it finds the same packages, and no file of the deployment in the place of one."""
    assert own_command("work", "--name", "w") == (sys.executable, "-P", "-m", "receiver", "work", "--name", "w")


def command(worker: WorkerId, dead: Sequence[WorkerId], store_refusal_told: bool) -> Sequence[str]:
    """Return the dead workers alone."""
    return dead


def test_a_worker_that_gave_its_work_back_is_not_dead() -> None:
    """So it is after new code: the next worker need not be careful. Those that died before it still count."""
    names = map(WorkerId, "abcd")
    next_worker = NextWorker(command, lambda: next(names), store_refused=3)

    assert next_worker(None) == []
    assert next_worker(ProcessEnd(0, ran_long=False)) == []
    assert next_worker(ProcessEnd(None, ran_long=False)) == ["b"]
    assert next_worker(ProcessEnd(0, ran_long=False)) == ["b"]
