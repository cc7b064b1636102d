"""Handlers that block, spin, eat memory, crash or do not import: acks go on, nothing is lost, all is reported."""

import asyncio
import random
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest

from receiver.core.clock import SystemClock, to_micros
from tests.process.harness import HANDLERS, PATIENCE_SECONDS, Deployment, Load, Serving, kill, until

BEGIN = """
import os, resource, signal, sys, threading, time
from pathlib import Path
from receiver import Context, Router

router = Router()

"""
RECORD = """
@router.on("*")
async def record(event, ctx: Context):
    with open("handled", "a") as out:
        out.write(ctx.delivery.id + "\\n")
"""
BLOCK = """
    Path("started").touch()
    while not Path("fixed").exists():
        time.sleep(0.01)
"""
"""Blocks for as long as the test wants, in place of `time.sleep(30)`."""


async def deliver(serving: Serving, count: int = 50, *, seed: int = 1) -> Load:
    """Send deliveries of which every single one must be acknowledged."""
    load = Load(random.Random(seed))
    await load.send(serving.port, count)
    assert set(load.answers) == {200}
    return load


async def handler_started(deployment: Deployment) -> None:
    """Return when the misbehaving handler runs."""
    await until((deployment.folder / "started").exists, "the handler to start")


def fix(deployment: Deployment) -> None:
    """Let the handler go on, or behave the next time."""
    (deployment.folder / "fixed").touch()


async def all_is_well(deployment: Deployment, *loads: Load, killed: bool = False) -> None:
    """Check that everything acknowledged is stored and, in the end, handled.

    Where workers were killed some of it may have been set aside, and is retried.
    """
    await (deployment.all_handled_in_the_end() if killed else deployment.all_handled())
    stored = deployment.stored()
    for load in loads:
        assert load.acknowledged.items() <= stored.items()
        assert load.acknowledged.keys() <= deployment.handled().keys()
    assert deployment.intact()


async def test_a_handler_that_blocks_the_event_loop_delays_no_ack(tmp_path: Path) -> None:
    """While `time.sleep` stops the whole worker for longer than a lease, every delivery is acknowledged.

    Afterwards everything is handled, and what the worker held during the block was not claimed a second time.
    """
    deployment = Deployment(tmp_path)
    deployment.write_handlers(BEGIN + '@router.on("*")\nasync def block(event):' + BLOCK + RECORD)
    async with deployment.serve() as serving:
        first = await deliver(serving, 10)
        await handler_started(deployment)

        second = await deliver(serving, 200, seed=2)

        def leases_ended() -> bool:
            [(until_micros,)] = deployment.rows("SELECT max(lease_until) FROM work_items")
            return int(until_micros) < to_micros(SystemClock().steady())

        await until(leases_ended, "the leases to end")
        fix(deployment)
        await all_is_well(deployment, first, second)
        assert {attempts for _, _, attempts in deployment.work()} == {1}
        assert "worker_ended" not in serving.output


async def test_a_handler_that_spins_for_ever_delays_no_ack(tmp_path: Path) -> None:
    """It has the worker for itself until an operator kills that; then a fixed handler takes over its work."""
    deployment = Deployment(tmp_path)
    deployment.write_handlers(
        BEGIN
        + '@router.on("*")\nasync def spin(event):\n    Path("started").touch()\n    while True: pass\n'
        + RECORD
    )
    async with deployment.serve() as serving:
        first = await deliver(serving)
        await handler_started(deployment)
        second = await deliver(serving, 200, seed=2)

        deployment.write_handlers(BEGIN + '@router.on("*")\nasync def spin(event): pass\n' + RECORD)
        kill(await serving.worker())
        await serving.line("worker_ended", "SIGKILL")
        await all_is_well(deployment, first, second)


async def test_a_plain_function_that_spins_takes_only_its_own_slot(tmp_path: Path) -> None:
    """It runs in a thread, so other handlers go on beside it, and acks anyway."""
    deployment = Deployment(tmp_path)
    deployment.write_handlers(
        BEGIN
        + '@router.on("*", where=lambda event: not Path("started").exists())\ndef spin(event):\n'
        + '    Path("started").touch()\n    while not Path("fixed").exists(): sum(range(1000))\n'
        + RECORD
    )
    async with deployment.serve() as serving:
        load = await deliver(serving)
        await until(lambda: len(deployment.handled()) == 50, "the other handler to go on")
        fix(deployment)
        await all_is_well(deployment, load)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux holds a process to RLIMIT_AS")
async def test_a_handler_that_allocates_all_memory_fails_alone(tmp_path: Path) -> None:
    """Under a limit on memory it is a failed attempt, and the worker and its other handlers live on."""
    deployment = Deployment(tmp_path)
    deployment.write_handlers(
        BEGIN
        + """
first = []
@router.on("*", where=lambda event: not first)
async def greedy(event):
    first.append(event)
    if Path("fixed").exists():
        return
    Path("started").touch()
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + 64 * 2**20, hard))
    try:
        hoard = []
        while True:
            hoard.append(bytearray(2**20))
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        first.clear() if Path("fixed").exists() else None
"""
        + RECORD
    )
    async with deployment.serve() as serving:
        load = await deliver(serving)
        await serving.line("greedy", "MemoryError")
        fix(deployment)
        await all_is_well(deployment, load)
        assert "worker_ended" not in serving.output


END_SUDDENLY = """
import ctypes

@router.on("*")
def crash(event):
    if Path("fixed").exists():
        return
    if not Path("killed").exists():  # as for want of memory
        Path("killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if not Path("left").exists():
        Path("left").touch()
        os._exit(7)
    ctypes.string_at(0)  # crashes the interpreter
"""


async def test_a_handler_whose_process_ends_under_it_loses_nothing(tmp_path: Path) -> None:
    """The worker is started again, each end is reported, and pauses grow; once it behaves all is handled."""
    deployment = Deployment(tmp_path, concurrency="1", threads="1")
    deployment.write_handlers(BEGIN + END_SUDDENLY + RECORD)
    async with deployment.serve() as serving:
        first = await deliver(serving)
        assert "restart_in_s=1.0" in await serving.line("worker_ended", "SIGKILL")
        second = await deliver(serving, seed=2)
        assert "restart_in_s=2.0" in await serving.line("worker_ended", "exit code 7")
        third = await deliver(serving, seed=3)
        await serving.line("worker_ended", "SIGSEGV")
        fix(deployment)
        await all_is_well(deployment, first, second, third, killed=True)


async def test_a_handler_that_ends_its_worker_every_time_is_dead_in_the_end(tmp_path: Path) -> None:
    """It does not take the worker down for ever, and what was in hand beside it is handled."""
    deployment = Deployment(tmp_path)
    deployment.write_handlers(BEGIN + '@router.on("crawl.failed")\ndef poison(event):\n    os._exit(7)\n' + RECORD)
    async with deployment.serve() as serving:
        load = await deliver(serving, 20)
        url = f"http://127.0.0.1:{serving.port}/webhooks"
        assert (await asyncio.to_thread(deployment.run, "send", "crawl.failed", "--to", url)).code == 0
        await serving.line("DEAD", "poison", within=3 * PATIENCE_SECONDS)  # each restart pauses longer
        await until(lambda: load.acknowledged.keys() <= deployment.handled().keys(), "the others to be handled")

        def states() -> list[str]:
            return [state for name, state, _ in deployment.work() if "poison" in name]

        await until(lambda: states() == ["dead"], "the poisonous work item to be recorded as dead")


@pytest.mark.parametrize("arguments", [(), ("--workers", "2"), ("--web-processes", "2")])
@pytest.mark.parametrize("code", [0, 2, 3])
async def test_an_exit_code_of_a_handler_means_nothing(
    tmp_path: Path, code: int, arguments: tuple[str, ...]
) -> None:
    """Neither that the configuration is wrong, nor that the store is, nor that somebody has stopped the worker."""
    deployment = Deployment(tmp_path)
    crash = f'    if not Path("left").exists():\n        Path("left").touch()\n        os._exit({code})\n'
    deployment.write_handlers(BEGIN + '@router.on("*")\ndef crash(event):\n' + crash + RECORD)
    async with deployment.serve(*arguments) as serving:
        first = await deliver(serving)
        ended = await serving.line("worker_ended", f"exit code {code}", "restart_in_s=1.0")
        assert "ERROR" in ended
        second = await deliver(serving, seed=2)
        await all_is_well(deployment, first, second, killed=True)


RAISED = [
    "sys.exit(3)",
    "raise KeyboardInterrupt",
    "raise GeneratorExit",
    "next(iter([]))",
    "raise StopAsyncIteration",
]


@pytest.mark.parametrize("kind", ["async def", "def"])
async def test_whatever_a_handler_raises_is_a_failed_attempt(tmp_path: Path, kind: str) -> None:
    """Also what is no Exception, and what generators and event loops treat specially: the worker lives on."""
    deployment = Deployment(tmp_path)
    leaving = [
        f'@router.on("*", attempts=1)\n{kind} leave_{number}(event):\n    {what}\n'
        for number, what in enumerate(RAISED)
    ]
    deployment.write_handlers(BEGIN + "".join(leaving) + RECORD)
    async with deployment.serve() as serving:
        load = await deliver(serving, 20)
        await until(lambda: len(deployment.handled()) == 20, "the other handler to go on")

        def states() -> Counter[str]:
            return Counter(state for name, state, _ in deployment.work() if "leave" in name)

        await until(lambda: states() == {"dead": 20 * len(RAISED)}, lambda: f"every attempt to fail: {states()}")
        assert load.acknowledged.keys() == deployment.handled().keys()
        assert "worker_ended" not in serving.output


async def test_a_condition_that_raises_hides_no_delivery(tmp_path: Path) -> None:
    """`where` raising anything is a failed attempt of its own handler, not the end of the worker."""
    deployment = Deployment(tmp_path)
    picky = [
        f'@router.on("*", where=lambda event: {what}, attempts=1)\ndef picky_{number}(event): ...\n'
        for number, what in enumerate(("sys.exit(3)", "1 / 0"))
    ]
    deployment.write_handlers(BEGIN + "".join(picky) + RECORD)
    async with deployment.serve() as serving:
        load = await deliver(serving, 20)
        await until(lambda: len(deployment.handled()) == 20, "the other handler to go on")
        assert load.acknowledged.keys() == deployment.handled().keys()
        assert "worker_ended" not in serving.output


BROKEN_MODULES = {
    "raises on import": ("raise RuntimeError('no such luck')", "RuntimeError: no such luck"),
    "calls sys.exit on import": ("import sys; sys.exit(0)", "SystemExit"),
    "has no router": ("", "a Router is expected there"),
}
broken_modules = pytest.mark.parametrize(("text", "words"), BROKEN_MODULES.values(), ids=BROKEN_MODULES.keys())


@broken_modules
async def test_handlers_that_do_not_load_at_the_start_end_the_server(tmp_path: Path, text: str, words: str) -> None:
    """With exit code 2, as `receiver work`: whoever has started it shall see it."""
    deployment = Deployment(tmp_path)
    deployment.write_handlers(text)
    async with deployment.serve(wait=False) as serving:
        assert await serving.exit_code() == 2
        await serving.gone()
        assert words in await serving.line("receiver: ")


@broken_modules
async def test_handlers_that_do_not_load_later_stop_no_ack(tmp_path: Path, text: str, words: str) -> None:
    """The next worker reports it, and takes a fixed file by itself."""
    deployment = Deployment(tmp_path)
    async with deployment.serve() as serving:
        await serving.line("worker_started")
        deployment.write_handlers(text)
        kill(await serving.worker())
        await serving.line(words)
        await serving.line("worker_ended", "exit code 2", "restart_in_s=2.0")
        load = await deliver(serving)
        deployment.write_handlers(HANDLERS)
        await all_is_well(deployment, load)


async def test_handlers_that_end_the_worker_on_import_stop_no_ack(tmp_path: Path) -> None:
    """Such an end looks like any crash, so the worker is tried again with growing pauses."""
    deployment = Deployment(tmp_path)
    deployment.write_handlers("import os; os._exit(0)")
    async with deployment.serve() as serving:
        await serving.line("worker_ended", "restart_in_s=1.0")
        await serving.line("worker_ended", "restart_in_s=2.0")
        load = await deliver(serving)
        deployment.write_handlers(HANDLERS)
        await all_is_well(deployment, load)


async def test_a_module_that_hangs_on_import_stops_neither_acks_nor_the_stop(tmp_path: Path) -> None:
    """The worker never gets to work, deliveries are kept, and `serve` ends on SIGTERM."""
    deployment = Deployment(tmp_path)
    deployment.write_handlers(BEGIN + 'Path("started").touch()\ntime.sleep(3600)\n')
    async with deployment.serve() as serving:
        await handler_started(deployment)
        load = await deliver(serving)
        serving.send_signal(signal.SIGTERM)
        assert await serving.exit_code() == 0
        await serving.gone()

    deployment.write_handlers(HANDLERS)
    async with deployment.serve():
        await all_is_well(deployment, load)


@pytest.mark.parametrize("where", ["in a handler", "on import"])
async def test_a_blocked_worker_does_not_outlive_a_killed_web_process(tmp_path: Path, where: str) -> None:
    """Nobody is left to stop it, and it would keep a CPU and its memory for ever: it has to end by itself."""
    deployment = Deployment(tmp_path)
    if where == "on import":
        deployment.write_handlers(BEGIN + 'Path("started").touch()\nwhile True: pass\n')
    else:
        deployment.write_handlers(
            BEGIN + '@router.on("*")\nasync def spin(event):\n    Path("started").touch()\n    while True: pass\n'
        )
    async with deployment.serve() as serving:
        load = await deliver(serving)
        await handler_started(deployment)
        serving.send_signal(signal.SIGKILL)
        await serving.gone()

    deployment.write_handlers(HANDLERS.replace("def record", "def spin"))
    async with deployment.serve():
        await all_is_well(deployment, load)
