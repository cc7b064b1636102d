"""Servers of one's own on a loopback port."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg

from tests.stores.postgres.programs import Programs, give_to_other_user, other_user

FAST: Mapping[str, str] = {
    "autovacuum": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
}
"""Settings of a server for many small tests. A store refuses one that does not sync."""
_PATIENCE = 60
"""Seconds for a server to answer."""


class Server:
    """A server, and its folder. It can be stopped in every way, and started again."""

    def __init__(self, programs: Programs, folder: Path, settings: Mapping[str, str]) -> None:
        self._programs = programs
        self.folder = folder
        self.settings = dict(settings)
        """They count from the next start."""
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The address of the server, for its only database."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    @property
    def data(self) -> Path:
        """The folder of the data."""
        return self.folder / "data"

    def create(self) -> None:
        """Make the folder of the data."""
        self._run("initdb", "-D", str(self.data), "-U", "postgres", "-A", "trust", "--locale=C", "-E", "UTF8", "-N")

    def copy_from(self, other: "Server") -> None:
        """Take over the data of a server that is stopped."""
        shutil.copytree(other.data, self.data)
        for path in (self.data, *self.data.rglob("*")):
            give_to_other_user(path)

    def start(self) -> None:
        """Start the server, and return when it answers."""
        settings = [f"-c{name}={value}" for name, value in self.settings.items()]
        command = [str(self._programs.folder / "postgres"), "-D", str(self.data), "-p", str(self.port), *settings]
        command += ["-clisten_addresses=127.0.0.1", "-cunix_socket_directories="]
        with (self.folder / "log").open("ab") as log:
            process: subprocess.Popen[bytes] = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd="/", **other_user()
            )
        self.process = process
        end = time.monotonic() + _PATIENCE
        while not answers(self.port):
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError((self.folder / "log").read_text(errors="replace")[-2_000:])
            time.sleep(0.01)

    def pids(self) -> Sequence[int]:
        """Return the ids of all processes of the server."""
        assert self.process is not None
        with psycopg.connect(self.url) as connection:
            sessions = connection.execute(
                b"SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
            ).fetchall()
        return [self.process.pid, *(pid for (pid,) in sessions)]

    def stop(self, how: int = signal.SIGINT) -> None:
        """Stop the server: SIGINT ends connections first, SIGQUIT is an immediate end, as after a crash."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                self.process.send_signal(how)
            self.process.wait()
            self.process = None

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._programs.folder / program, *arguments], capture_output=True, text=True, cwd="/", **other_user()
        )
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stderr[-2_000:]}")


@contextmanager
def running_server(
    programs: Programs, settings: Mapping[str, str] = FAST, *, parent: Path | None = None
) -> Iterator[Server]:
    """Run a server of these programs for a block. Its folder is made in `parent`, and removed at the end."""
    with reachable(programs) as own, stopped_server(own, settings, parent=parent) as server:
        server.create()
        server.start()
        yield server


@contextmanager
def reachable(programs: Programs) -> Iterator[Programs]:
    """Yield programs that the server's user can run, for a block."""
    if os.getuid() != 0:
        yield programs
        return
    with _folder(None) as folder:
        yield programs.reachable_copy(folder)


@contextmanager
def stopped_server(
    programs: Programs, settings: Mapping[str, str] = FAST, *, parent: Path | None = None
) -> Iterator[Server]:
    """Give a block a server of reachable programs that has no data yet, and is not started."""
    with _folder(_data_parent(parent)) as folder:
        server = Server(programs, folder, settings)
        try:
            yield server
        finally:
            server.stop(signal.SIGQUIT)


@contextmanager
def _folder(parent: str | None) -> Iterator[Path]:
    """Make a folder of the server's user for a block."""
    folder = Path(tempfile.mkdtemp(prefix="postgres-", dir=parent))
    try:
        folder.chmod(0o755)
        give_to_other_user(folder)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def answers(port: int) -> bool:
    """Tell whether a server takes connections, and is not about to start or to stop."""
    ssl_request = (8).to_bytes(4) + (80877103).to_bytes(4)  # a server that is not ready answers with an error
    startup = b"user\0postgres\0database\0postgres\0\0"
    message = (len(startup) + 8).to_bytes(4) + (3 << 16).to_bytes(4) + startup
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(ssl_request)
            if connection.recv(1) not in (b"N", b"S"):
                return False
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(message)
            return connection.recv(1) == b"R"
    except OSError:
        return False


def _data_parent(parent: Path | None) -> str:
    return str(parent) if parent is not None else os.environ.get("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())


def free_port() -> int:
    """Return a port on which nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
