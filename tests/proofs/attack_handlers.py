"""Attacks by the handlers of the deployment itself, and stops while they are busy."""

import asyncio
import signal

from tests.process.faults import WITH_FEW_FILES
from tests.process.harness import HANDLERS, Program, until
from tests.proofs.attacks import Site
from tests.proofs.resources import MIB

_LEAKS_MEMORY = f"""{HANDLERS}
hoard = []

@router.on("*")
def leak(event: Event) -> None:
    hoard.append(b"x" * {2 * MIB})
"""
_LEAKS_FILES = f"""{HANDLERS}
opened = []

@router.on("*")
def leak(event: Event) -> None:
    opened.append(open(__file__))
"""
_BUSY = f"""{HANDLERS}
    if os.path.exists("busy"):
        os.close(os.open("is_busy", os.O_CREAT | os.O_WRONLY))
        while True:
            pass
"""
"""Records each delivery, and then computes for ever while the file `busy` is there."""


async def leaking_memory(site: Site) -> None:
    """A handler that keeps two megabytes of each event: the worker restarts when it has more than MAX_MEMORY."""
    await _leak(site, _LEAKS_MEMORY, max_memory=str(192 * MIB))


async def leaking_files(site: Site) -> None:
    """A handler that closes no file: the worker restarts before it has none left."""
    await _leak(site, _LEAKS_FILES, launcher=("-c", WITH_FEW_FILES))


async def _leak(site: Site, handlers: str, *, launcher: tuple[str, ...] = (), **settings: str) -> None:
    site.may_lose_workers = True
    site.deployment.settings |= {name.upper(): value for name, value in settings.items()}
    site.deployment.write_handlers(handlers)
    await site.start(launcher=launcher)
    times = 1 if site.is_short else 5
    line = await site.serving.line("worker_exhausted", times=times)
    assert "handlers.leak" in line.partition("suspects: ")[2], line
    site.deployment.write_handlers(HANDLERS + '\n@router.on("*")\ndef leak(event: Event) -> None: ...\n')


def _terminate(program: Program) -> None:
    program.send_signal(signal.SIGTERM)


def _interrupt(program: Program) -> None:
    program.send_signal_to_group(signal.SIGINT)


def _kill(program: Program) -> None:
    program.send_signal(signal.SIGKILL)


async def stops(site: Site) -> None:
    """SIGTERM, Ctrl-C and `kill -9` to `serve` while its handler computes for ever and deliveries arrive."""
    site.may_lose_workers = True
    deployment = site.deployment
    deployment.settings |= {"GRACE": "1", "LEASE": "3"}  # after `kill -9` the next worker waits for the leases
    deployment.write_handlers(_BUSY)
    for stop in (_terminate, _interrupt, _kill) * (1 if site.is_short else 10):
        (deployment.folder / "busy").touch()
        (deployment.folder / "is_busy").unlink(missing_ok=True)
        async with deployment.serve() as serving:
            sending = asyncio.create_task(site.honest.run(serving.port, connections=2))
            await until((deployment.folder / "is_busy").exists, "a handler to compute")
            stop(serving)
            code = await serving.exit_code()
            assert code == (-signal.SIGKILL if stop is _kill else 0), f"{stop.__name__}: {code}\n{serving.end}"
            await serving.gone()
            await sending
    (deployment.folder / "busy").unlink()
    await site.start()


ATTACKS = (leaking_memory, leaking_files, stops)
