"""The web process's memory: at rest, and with as many bytes in flight as it lets in."""

import asyncio
import itertools
import subprocess
from collections import Counter
from contextlib import suppress
from pathlib import Path

from tests.benchmarks.payloads import Pages, Signed, request_head
from tests.benchmarks.servers import CONTENDERS, memory_kib, real_folder, serving

_BODY = 4 * 1024 * 1024
_SURPLUS = 4
"""Requests beyond the limit, which shall be turned away."""
_SETTLING_SECONDS = 0.5
"""For the server to read what the kernel holds already."""


def measure(parent: Path, *, in_flight: int) -> list[dict[str, object]]:
    """Return resident memory at rest, with all bodies but their last byte in, at the highest, and afterwards."""
    environment = {"RECEIVER_MAX_IN_FLIGHT": str(in_flight), "RECEIVER_MAX_BODY": str(min(in_flight, _BODY * 2))}
    with (
        real_folder(parent) as folder,
        serving(CONTENDERS["ours"], folder, environment=environment) as (server, port),
    ):
        if memory_kib(server) is None:
            return []
        rows = [_row("at rest", server)]
        statuses = asyncio.run(_fill(port, in_flight, server, rows))
        rows.append(_row("after the last answer", server, statuses))
        return rows


async def _fill(
    port: int, in_flight: int, server: "subprocess.Popen[bytes]", rows: list[dict[str, object]]
) -> Counter[str]:
    pages = Pages(min(_BODY, in_flight // 8))
    senders = [_Slow(pages, one) for one in itertools.islice(pages, in_flight // pages.size + _SURPLUS)]
    await asyncio.gather(*(one.begin(port) for one in senders))
    await asyncio.sleep(_SETTLING_SECONDS)
    rows.append(_row(f"{len(senders)} bodies of {pages.size:,} bytes sent but for a byte", server))
    return Counter(await asyncio.gather(*(one.end() for one in senders)))


class _Slow:
    """A request that stops before its last byte."""

    def __init__(self, pages: Pages, one: Signed) -> None:
        self._most = request_head(pages.size, one.signature) + pages.head + one.tail[:-1]
        self._last = one.tail[-1:]

    async def begin(self, port: int) -> None:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", port)
        self._writer.transport.set_write_buffer_limits(0)
        self._writer.write(self._most)
        with suppress(ConnectionError):  # turned away already; the answer is still to be read
            await self._writer.drain()

    async def end(self) -> str:
        """Send the last byte and return the status of the answer."""
        try:
            self._writer.write(self._last)
            line = await self._reader.readline()
        except ConnectionError:
            return "lost"
        finally:
            self._writer.close()
        return line.decode().split(" ")[1] if line else "lost"


def _row(when: str, server: "subprocess.Popen[bytes]", statuses: Counter[str] | None = None) -> dict[str, object]:
    now, highest = memory_kib(server) or (0, 0)
    answers = ", ".join(f"{count} x {status}" for status, count in sorted((statuses or {}).items()))
    return {"when": when, "resident": now / 1024, "highest so far": highest / 1024, "answers": answers}
