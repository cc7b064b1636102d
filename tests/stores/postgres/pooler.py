"""A PgBouncer of one's own that gives each transaction another session (its manual, pool_mode)."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from tests.doubles import LONG
from tests.stores.postgres.programs import give_to_other_user, other_user
from tests.stores.postgres.server import free_port

_CONFIG = """
[databases]
postgres = host={host} port={server_port} dbname=postgres user=postgres

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 3
max_client_conn = 200
query_wait_timeout = 30
logfile = {folder}/log
"""


def installed() -> str | None:
    """Return the program, which lies where only root looks for programs; None without it."""
    return shutil.which("pgbouncer", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"]))


@contextmanager
def running_pooler(program: str, url: str) -> Iterator[str]:
    """Run a pooler in front of the server of an address; yield the address that leads through it."""
    parts, port = urlsplit(url), free_port()
    folder = Path(tempfile.mkdtemp(prefix="pooler-"))
    config = folder / "pgbouncer.ini"
    config.write_text(
        _CONFIG.format(host=parts.hostname, server_port=parts.port, port=port, folder=folder), encoding="utf-8"
    )
    config.chmod(0o644)
    give_to_other_user(folder)
    process = subprocess.Popen(
        [program, str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/", **other_user()
    )
    through = parts._replace(netloc=f"postgres@127.0.0.1:{port}").geturl()
    try:
        _wait_for(through.partition("?")[0])
        yield through
    finally:
        process.kill()  # a shell in the background makes its programs ignore SIGQUIT and SIGINT
        process.wait()
        shutil.rmtree(folder)


def _wait_for(url: str) -> None:
    end = time.monotonic() + LONG
    while True:
        try:
            psycopg.connect(url).close()
        except psycopg.OperationalError:
            if time.monotonic() > end:
                raise
            time.sleep(0.01)
        else:
            return
