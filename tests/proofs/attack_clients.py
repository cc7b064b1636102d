"""Attacks by clients that are idle, slow, many, or do not read."""

import asyncio
import resource
import subprocess
import sys
import zlib
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path

from receiver.replay.bundles.format import Header, header_line
from receiver.web.protocol import MAX_HEADERS
from tests.process.faults import WITH_FEW_FILES
from tests.process.harness import Connection, connection, raw_request, request
from tests.proofs.attacks import Site
from tests.proofs.resources import MIB, growth, use_of

_SIGNED = ("X-Firecrawl-Signature", "sha256=" + "0" * 64)
"""Lets a request in until its body is known."""
_IMPORT_MIB = 256
"""Memory that an import may take for any file: about four bodies of the longest kind."""
_MOST_GROWTH_MIB = 12
"""Of the web process, between the second and the last quarter of an attack that leaves nothing behind."""
_MEASURED = """
import os, sys
silent = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0), (os.POSIX_SPAWN_DUP2, 1, 2)]
command = [sys.executable, "-m", "receiver", *sys.argv[1:]]
_, status, use = os.wait4(os.posix_spawn(command[0], command, os.environ, file_actions=silent), 0)
print(os.waitstatus_to_exitcode(status), use.ru_maxrss)
"""
"""Runs a command and prints its exit code and its most memory in KiB. It is a small program of its own, since
Linux counts the memory of the program that starts another as that of the other (getrusage(2), ru_maxrss)."""


async def idle_connections(site: Site) -> None:
    """2,500 connections that say nothing, or half a request, and come again when they are closed."""
    count = 600 if site.is_short else 2_500
    _allow_files(count + 500)
    await site.start()
    async with AsyncExitStack() as stack:
        for number in range(count):
            line = await stack.enter_async_context(connection(site.serving.port))
            if number % 2:
                with suppress(ConnectionError):
                    await line.say(b"POST /webhooks HTTP/1.1\r\nHost: receiver.test\r\n")
        await site.more_honest(50)


async def few_files(site: Site) -> None:
    """400 connections to a server that may open 250 files."""
    _allow_files(1_000)
    await site.start(launcher=("-c", WITH_FEW_FILES))
    async with AsyncExitStack() as stack:
        for _ in range(400):
            await stack.enter_async_context(connection(site.serving.port))
        await site.more_honest(50)


async def slow_clients(site: Site) -> None:
    """Clients that send a byte at a time, announce more than they send, or read no answer."""
    await site.start()
    count = 60 if site.is_short else 400
    body = site.honest.body()
    head = raw_request("POST", "/webhooks", None, [_SIGNED, ("Content-Length", str(MIB))])

    async def slow(number: int) -> None:
        with suppress(ConnectionError):
            async with connection(site.serving.port) as line:
                if number % 3 == 0:
                    await _trickle(line, request(body)[:-1])
                elif number % 3 == 1:
                    await line.say(head)
                else:
                    for _ in range(2_000):
                        await line.say(raw_request("GET", "/webhooks", None))
                await line.closed()

    await asyncio.gather(*[slow(number) for number in range(count)])


async def large_forgeries(site: Site) -> None:
    """Bodies of megabytes with a wrong signature, on many connections at once."""
    await site.start()
    count = 30 if site.is_short else 300
    body = bytes(4 * MIB)
    forged = raw_request("POST", "/webhooks", body, [_SIGNED])

    async def forge() -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            async with connection(site.serving.port) as line:
                await line.say(forged)
                assert (await line.answer()).status in {401, 408, 503}

    await asyncio.gather(*[forge() for _ in range(count)])


async def many_headers(site: Site) -> None:
    """The largest heads that are read, of requests whose bodies do not come, and others with far more headers."""
    await site.start()
    count = 150 if site.is_short else 1_500
    _allow_files(2 * count + 500)
    largest = [(f"x-{number}", "x" * 300) for number in range(MAX_HEADERS - 5)]
    too_many = [(f"x-{number}", "") for number in range(5_000)]
    async with AsyncExitStack() as stack:
        for headers in (largest, too_many):
            head = raw_request("POST", "/webhooks", None, [_SIGNED, *headers, ("Content-Length", "2")])
            for _ in range(count):
                line = await stack.enter_async_context(connection(site.serving.port))
                with suppress(ConnectionError):
                    await line.say(head)
        await site.more_honest(50)


async def broken_requests(site: Site) -> None:
    """Requests with 30 KB of headers and then no chunk: they have ended, so nothing of them may stay in memory."""
    await site.start()
    count = 1_200 if site.is_short else 20_000
    mib: list[float] = []
    for number in range(count):
        headers = [(f"X-{number}-{each}", f"{number:01000}") for each in range(30)]
        head = raw_request("POST", "/webhooks", None, [_SIGNED, ("Transfer-Encoding", "chunked"), *headers])
        with suppress(ConnectionError):
            async with connection(site.serving.port) as line:
                await line.say(head + b"zz\r\n")
                await line.closed()
        if number % (count // 40) == 0:
            mib.append(use_of(site.serving.pid).mib)
    assert growth(mib) < _MOST_GROWTH_MIB, f"the web process grew: {[round(each) for each in mib]} MiB"


async def gzip_bombs(site: Site) -> None:
    """Files for `events import` that unpack to far more than they are, beside the running server."""
    await site.start()
    size = 64 if site.is_short else 2_048
    header = header_line(Header(made_at=datetime(2026, 1, 1, tzinfo=UTC), count=1))
    for name, start, filling in (("line", b"", b"x"), ("lines", header, b"\n"), ("nested", header, b"[")):
        path = site.deployment.folder / f"{name}.gz"
        await asyncio.to_thread(_write_bomb, path, start, filling * MIB, size)
        code, highest_kib = await asyncio.to_thread(_import, site, path)
        assert code in {1, 2}, f"{name}: exit code {code}"
        assert highest_kib < _IMPORT_MIB * 1024, f"{name}: {highest_kib / 1024:.0f} MiB"


def _write_bomb(path: Path, start: bytes, filling: bytes, times: int) -> None:
    packing = zlib.compressobj(wbits=31)
    with path.open("wb") as file:
        file.write(packing.compress(start))
        for _ in range(times):
            file.write(packing.compress(filling))
        file.write(packing.flush())


def _import(site: Site, path: Path) -> tuple[int, int]:
    """Import a file; return the exit code and the most memory that the command took, in KiB."""
    store = {"RECEIVER_STORE": f"sqlite:///{site.deployment.database}"}
    done = subprocess.run(
        [sys.executable, "-c", _MEASURED, "events", "import", "--yes", str(path)],
        env=site.deployment.environment | store,
        stdout=subprocess.PIPE,
        check=True,
    )
    code, highest_kib = done.stdout.split()
    return int(code), int(highest_kib)


async def _trickle(line: Connection, raw: bytes) -> None:
    for byte in raw:
        await line.say(bytes([byte]))
        await asyncio.sleep(0.1)  # the slowness of this client


def _allow_files(count: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (count if hard == resource.RLIM_INFINITY else min(count, hard), hard)
    )


ATTACKS = (
    idle_connections,
    few_files,
    slow_clients,
    large_forgeries,
    many_headers,
    broken_requests,
    gzip_bombs,
)
