"""Real processes for a benchmark: started in a folder, pinned to a core, stopped, and their store counted."""

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tests.benchmarks.payloads import SECRET, SIGNATURE_HEADER

ROOT = Path(__file__).parents[2]
STORE = "receiver.db"
RIVAL_STORE = "rival.db"

_START_SECONDS = 60
_STOP_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Contender:
    """Something that takes deliveries in."""

    name: str
    title: str
    command: tuple[str, ...]
    """What to run; `PORT` stands for the port."""
    worker: tuple[str, ...] = ()
    count: tuple[str, str] | None = None
    """The database file, and the query that counts what it holds."""


_SERVE = (
    *("-m", "receiver", "serve", "--no-worker"),
    *("--port", "PORT", "--store", f"sqlite:///{STORE}"),
)
WORK = ("-m", "receiver", "work", "--store", f"sqlite:///{STORE}")
_COUNT = (STORE, "SELECT count(*) FROM deliveries JOIN bodies USING (seq)")


def _rival(name: str, title: str, count: tuple[str, str] | None = None) -> Contender:
    return Contender(name, title, ("-m", "tests.benchmarks.rivals", name, "PORT"), count=count)


CONTENDERS = {
    one.name: one
    for one in (
        _rival("bare", "bare Starlette endpoint, keeps nothing"),
        Contender("ours", "receiver serve --no-worker", _SERVE, count=_COUNT),
        Contender(
            "ours+worker",
            "the same, and a worker with a no-op handler",
            _SERVE,
            (*WORK, "--handlers", "tests.benchmarks.noop:on_loop"),
            _COUNT,
        ),
        _rival(
            "per-request",
            "Starlette, aiosqlite, one commit per request",
            (RIVAL_STORE, "SELECT count(*) FROM deliveries"),
        ),
        _rival("huey", "FastAPI and Huey on SQLite with fsync", (RIVAL_STORE, "SELECT count(*) FROM task")),
    )
}


def contenders_here() -> list[str]:
    """Return the names of those whose packages are installed."""
    return [name for name in CONTENDERS if name != "huey" or find_spec("huey")]


def cores() -> tuple[int | None, int | None]:
    """Return the core for the server and that for everything else; None where there are not two."""
    if not hasattr(os, "sched_getaffinity"):
        return None, None
    free = sorted(os.sched_getaffinity(0))
    return (free[0], free[1]) if len(free) > 1 else (None, None)


def free_port() -> int:
    """Return a port of this machine that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def real_folder(parent: Path | None) -> Iterator[Path]:
    """Give a temporary folder on a disk: on tmpfs a sync would cost nothing and every figure would be wrong."""
    parent = parent or Path(tempfile.gettempdir())
    if _in_memory(parent):
        parent = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="benchmark-", dir=parent) as folder:
        yield Path(folder)


def _in_memory(folder: Path) -> bool:
    mounts = Path("/proc/mounts")
    if not mounts.exists():
        return False
    kinds = {Path(line.split()[1]): line.split()[2] for line in mounts.read_text(encoding="utf-8").splitlines()}
    nearest = next(place for place in (folder.resolve(), *folder.resolve().parents) if place in kinds)
    return kinds[nearest] in ("tmpfs", "ramfs")


@contextmanager
def running(
    command: Sequence[str], folder: Path, *, core: int | None, environment: Mapping[str, str] | None = None
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run Python with these arguments for as long as the block lasts; its log is shown if it ends by itself."""
    log = folder / "log"
    with log.open("ab") as stderr:  # as shipped, a server writes a log, and nobody reads it at once
        process = subprocess.Popen(
            (sys.executable, *command),
            cwd=folder,
            env={**clean_environment(), **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
        )
    try:
        if core is not None:
            os.sched_setaffinity(process.pid, {core})
        yield process
    finally:
        if process.poll() is not None:
            sys.stderr.write(log.read_text(encoding="utf-8", errors="replace")[-5_000:])
        _stop(process)


@contextmanager
def serving(
    contender: Contender, folder: Path, *, environment: Mapping[str, str] | None = None, pinned: bool = True
) -> Iterator[tuple["subprocess.Popen[bytes]", int]]:
    """Run a contender, its server on the first core and its worker on the other; gives the server and its port.

    Without `pinned` they run on any core.
    """
    server_core, other_core = cores() if pinned else (None, None)
    port = free_port()
    command = [str(port) if part == "PORT" else part for part in contender.command]
    with running(command, folder, core=server_core, environment=environment) as server:
        await_port(server, port)
        if not contender.worker:
            yield server, port
            return
        with running(contender.worker, folder, core=other_core, environment=environment):
            yield server, port


def clean_environment() -> dict[str, str]:
    """Return our environment with the benchmark's settings and none of the user's."""
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith("RECEIVER_")}
    ours = {"RECEIVER_SECRETS": SECRET, "RECEIVER_SIGNATURE_HEADER": SIGNATURE_HEADER, "PYTHONPATH": str(ROOT)}
    return {**kept, **ours}


def stored(contender: Contender, folder: Path) -> int | None:
    """Return how many deliveries its database holds; None for one that keeps none."""
    if contender.count is None:
        return None
    name, query = contender.count
    return count(folder / name, query)


def count(path: Path, query: str) -> int:
    """Return the number that a query gives, through a connection that cannot write."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return int(connection.execute(query).fetchone()[0])


def memory_kib(process: "subprocess.Popen[bytes]") -> tuple[int, int] | None:
    """Return resident memory now and at its highest, in KiB; None where the OS does not tell."""
    return memory_kib_of(process.pid)


def memory_kib_of(pid: int) -> tuple[int, int] | None:
    """Return the same of a process by its number."""
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        return None
    fields = dict(line.split(":", 1) for line in status.read_text(encoding="utf-8").splitlines())
    return int(fields["VmRSS"].split()[0]), int(fields["VmHWM"].split()[0])


def cpu_seconds(process: "subprocess.Popen[bytes]") -> float:
    """Return the processor time it has used; 0 where the OS does not tell."""
    return _cpu_seconds(process.pid)


def cpu_seconds_of_all(process: "subprocess.Popen[bytes]") -> float:
    """Return the processor time that it and its children have used; 0 where the OS does not tell."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    pids = children.read_text(encoding="utf-8").split() if children.exists() else ()
    return sum(_cpu_seconds(int(pid)) for pid in (process.pid, *pids))


def _cpu_seconds(pid: int) -> float:
    stat = Path(f"/proc/{pid}/stat")
    if not stat.exists():
        return 0.0
    user, system = stat.read_text(encoding="utf-8").rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def await_port(server: "subprocess.Popen[bytes]", port: int) -> None:
    """Return when a server listens."""
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise RuntimeError(f"the server ended with {server.returncode} before it listened")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise RuntimeError(f"the server does not listen on port {port}")


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.communicate(timeout=_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
