"""How fast the programs start: `python -m tests.benchmarks.start [--rounds N] [--json FILE]`.

Rounds are interleaved: in each, every program starts once, in a process of its own. `python -c pass` is what no
program can do without, and each time is also given as a multiple of its time in the same round. `receiver events
list` shows the newest deliveries of a store. A server is ready when it answers `/readyz` with 200, so when it has
written to its store; that store is a new one each time. Shown are medians over the rounds, and their spread. One
round before them is not counted: in it Python compiles the modules.
"""

import argparse
import asyncio
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from tests.benchmarks.replay import fill
from tests.benchmarks.report import table, write_json
from tests.benchmarks.servers import STORE, clean_environment, free_port, real_folder, running

_PASS = "python -c pass"
_BODY = 2_048
_HANDLERS = ("--handlers", "tests.benchmarks.noop:on_loop")
_PATIENCE_SECONDS = 60.0
_POLL_SECONDS = 0.002
_READY = b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"

COMMANDS: Mapping[str, Sequence[str]] = {
    _PASS: ("-c", "pass"),
    "receiver --version": ("-m", "receiver", "--version"),
    "receiver events list": ("-m", "receiver", "events", "list"),
}
"""Commands that end by themselves."""
SERVERS: Mapping[str, Sequence[str]] = {
    "receiver serve --no-worker": ("-m", "receiver", "serve", "--no-worker"),
    "receiver serve": ("-m", "receiver", "serve", *_HANDLERS),
}


def seconds_of(command: Sequence[str], folder: Path) -> float:
    """Return how long a command takes, from its start to its end."""
    began = time.perf_counter()
    subprocess.run(
        (sys.executable, *command), cwd=folder, env=_environment(), stdout=subprocess.DEVNULL, check=True
    )
    return time.perf_counter() - began


def seconds_to_ready(command: Sequence[str], folder: Path) -> float:
    """Return how long a server takes until it has answered that it is ready, on a new store."""
    port = free_port()
    with tempfile.TemporaryDirectory(dir=folder) as empty:
        began = time.perf_counter()
        with running((*command, "--port", str(port)), Path(empty), core=None, environment=_environment()) as server:
            while not _is_ready(port):
                if server.poll() is not None or time.perf_counter() - began > _PATIENCE_SECONDS:
                    raise RuntimeError("the server does not become ready")
                time.sleep(_POLL_SECONDS)
            return time.perf_counter() - began


def _environment() -> dict[str, str]:
    return clean_environment() | {"PYTHONDONTWRITEBYTECODE": ""}  # empty is the same as not set


def _is_ready(port: int) -> bool:
    """Ask once. A server answers a connection that was made after it has bound its port as soon as it can."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE_SECONDS) as connection:
            connection.sendall(_READY)
            return connection.recv(64).startswith(b"HTTP/1.1 200")
    except ConnectionError:
        return False


def measure(folder: Path, rounds: int) -> dict[str, list[float]]:
    """Return the seconds of every round for each program."""
    starts: dict[str, Callable[[], float]] = {
        **{name: partial(seconds_of, command, folder) for name, command in COMMANDS.items()},
        **{name: partial(seconds_to_ready, command, folder) for name, command in SERVERS.items()},
    }
    found: dict[str, list[float]] = {name: [] for name in starts}
    for number in range(rounds + 1):
        for name, start in starts.items():
            seconds = start()
            if number:
                found[name].append(seconds)
    return found


def summary(found: Mapping[str, Sequence[float]]) -> list[dict[str, object]]:
    """Return a row for each program."""
    return [
        {
            "program": name,
            "ms": statistics.median(seconds) * 1000,
            "fastest": min(seconds) * 1000,
            "slowest": max(seconds) * 1000,
            "of python -c pass": statistics.median(
                one / least for one, least in zip(seconds, found[_PASS], strict=True)
            ),
        }
        for name, seconds in found.items()
    ]


def main(given: Sequence[str] | None = None) -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.start", description=__doc__)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--stored", type=int, default=1_000, help="deliveries in the store that is listed")
    parser.add_argument("--folder", type=Path, help="where to put the stores; must be on a real disk")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows, and the seconds of every round")
    args = parser.parse_args(given)
    with real_folder(args.folder) as folder:
        asyncio.run(fill(folder / STORE, args.stored, _BODY))
        found = measure(folder, args.rounds)
    rows = summary(found)
    table("Start of the programs", rows)
    write_json(args.json, {"starts": rows, "seconds": found})
    return 0


if __name__ == "__main__":
    sys.exit(main())
