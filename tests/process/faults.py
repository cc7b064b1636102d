"""Faults of the machine around `receiver serve`: a lock that another process holds, few files, no room."""

import resource
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path

WITH_FEW_FILES = """
import resource, runpy
resource.setrlimit(resource.RLIMIT_NOFILE, (250, 250))
runpy.run_module("receiver", run_name="__main__")
"""
"""Runs the command with at most 250 open files."""


@contextmanager
def without_room(pid: int) -> Iterator[None]:
    """Let no file grow that this process writes. Only Linux limits another process so."""
    soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, hard))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft, hard))


@asynccontextmanager
async def locked(database: Path, how: str) -> AsyncIterator[None]:
    """Hold the write lock from another process than the program's: this one."""
    with closing(sqlite3.connect(database, isolation_level=None, timeout=60)) as other:
        other.execute(f"BEGIN {how}")
        try:
            yield
        finally:
            other.execute("ROLLBACK")
