"""Endpoints for tests of the sender."""

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import Any

import httpx

from receiver.service.sender import Sender, SendResult

ACCEPTED = b'HTTP/1.1 200 OK\r\nContent-Length: 34\r\n\r\n{"status":"accepted","id":"key-1"}'


@dataclass
class Listener:
    """A server of raw bytes: keeps each request as it came on the wire, and gives one answer."""

    url: str
    answer: bytes = ACCEPTED
    requests: list[tuple[list[bytes], bytes]] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).removesuffix(b"\r\n\r\n").split(b"\r\n")
        length = next(int(line.split(b":")[1]) for line in head if line.lower().startswith(b"content-length:"))
        self.requests.append((head, await reader.readexactly(length)))
        writer.write(self.answer)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def raising(error: Exception) -> httpx.MockTransport:
    def answer(request: httpx.Request) -> httpx.Response:
        raise error

    return httpx.MockTransport(answer)


def answering(status: int, **options: Any) -> httpx.MockTransport:
    return httpx.MockTransport(lambda request: httpx.Response(status, **options))


async def sent_through(transport: httpx.AsyncBaseTransport, **options: Any) -> SendResult:
    async with Sender("http://receiver.test/webhooks", transport=transport, **options) as sender:
        return await sender.send(b"{}")


async def loop_runs_dry() -> None:
    """Let everything happen that needs no time to pass."""
    for _ in range(100):
        await asyncio.sleep(0)
