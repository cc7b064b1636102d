"""Two servers of one's own, the second a standby of the first (PostgreSQL manual, Log-Shipping Standby Servers)."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psycopg

from tests.doubles import LONG
from tests.stores.postgres.programs import Programs, give_to_other_user
from tests.stores.postgres.server import Server, reachable, stopped_server

_SETTINGS = {
    "wal_level": "replica",
    "wal_keep_size": "512MB",
    "autovacuum": "off",
    "dynamic_shared_memory_type": "mmap",  # a server that is killed leaves nothing outside its folder
}
_MEMORY = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else None
"""No process can tell whether a disk keeps what it was given."""
_STREAMS = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = '{}'"
_RECEIVES = "SELECT count(*) FROM pg_stat_wal_receiver"


class Pair:
    """A primary and its standby, which can take its place one time."""

    def __init__(self, primary: Server, standby: Server) -> None:
        self.primary, self.standby = primary, standby

    @property
    def url(self) -> str:
        """The address of both, which leads to the one that takes writes."""
        hosts = ",".join(f"127.0.0.1:{server.port}" for server in (self.primary, self.standby))
        return f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write"

    def cut_off(self) -> None:
        """Let the standby get nothing from now, as if the network between the two broke."""
        with psycopg.connect(self.standby.url, autocommit=True) as connection:
            connection.execute(b"ALTER SYSTEM SET primary_conninfo = ''")
            connection.execute(b"SELECT pg_reload_conf()")
        _wait_until(self.standby, _RECEIVES, 0)

    def kill_primary(self) -> None:
        """End all processes of the primary with SIGKILL, as the end of its machine does."""
        assert self.primary.process is not None
        for pid in self.primary.pids():
            with suppress(ProcessLookupError):  # a session that has ended since
                os.kill(pid, signal.SIGKILL)
        self.primary.stop(signal.SIGKILL)

    def promote(self) -> None:
        """Make the standby a primary, and return when it is."""
        with psycopg.connect(self.standby.url, autocommit=True) as connection:
            assert connection.execute(b"SELECT pg_promote(true, 60)").fetchone() == (True,)


@contextmanager
def running_pair(programs: Programs, *, synchronous: bool) -> Iterator[Pair]:
    """Run a primary and a standby of these programs for a block; commits may wait for the standby."""
    with ExitStack() as stack:
        own = stack.enter_context(reachable(programs))
        folders = (stopped_server(own, _SETTINGS, parent=_MEMORY) for _ in range(2))
        primary, standby = map(stack.enter_context, folders)
        primary.create()
        standby.copy_from(primary)
        if synchronous:
            primary.settings["synchronous_standby_names"] = "*"
        _follow(standby, primary)
        primary.start()
        standby.start()
        _wait_until(primary, _STREAMS.format("sync" if synchronous else "async"), 1)
        yield Pair(primary, standby)
        if primary.process is None:
            primary.start()  # and its end removes the memory that the killed one had


def _follow(standby: Server, primary: Server) -> None:
    """Make a server that is stopped a standby. What is in a file, and not on its command line, can change."""
    signal_file = standby.data / "standby.signal"
    signal_file.touch()
    give_to_other_user(signal_file)
    with (standby.data / "postgresql.auto.conf").open("a") as conf:
        conf.write(f"primary_conninfo = 'host=127.0.0.1 port={primary.port} user=postgres'\n")


def _wait_until(server: Server, query: str, count: int) -> None:
    end = time.monotonic() + LONG
    with psycopg.connect(server.url, autocommit=True) as connection:
        while connection.execute(query.encode()).fetchone() != (count,):
            assert time.monotonic() < end, f"waited in vain for {query} to be {count}"
            time.sleep(0.01)
