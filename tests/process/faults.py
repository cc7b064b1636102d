"""Faults of the machine around `receiver serve`: a lock that another process holds, few files, no room."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

WITH_FEW_FILES = """
import resource, runpy
resource.setrlimit(resource.RLIMIT_NOFILE, (250, 250))
runpy.run_module("receiver", run_name="__main__")
"""
"""Runs the command with at most 250 open files."""

WITHOUT_ROOM = """
import resource, runpy, signal

def limit(number, frame):
    least = 1 if number == signal.SIGUSR1 else resource.RLIM_INFINITY
    resource.setrlimit(resource.RLIMIT_FSIZE, (least, resource.RLIM_INFINITY))

signal.signal(signal.SIGUSR1, limit)
signal.signal(signal.SIGUSR2, limit)
runpy.run_module("receiver", run_name="__main__", alter_sys=True)
"""
"""Runs the command, and lets no file of the process be written from SIGUSR1 until SIGUSR2."""


@asynccontextmanager
async def locked(database: Path, how: str) -> AsyncIterator[None]:
    """Hold the write lock from another process than the program's: this one."""
    with closing(sqlite3.connect(database, isolation_level=None, timeout=60)) as other:
        other.execute(f"BEGIN {how}")
        try:
            yield
        finally:
            other.execute("ROLLBACK")
