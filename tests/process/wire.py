"""Plain HTTP for tests, which says exactly what a test wants, and signed deliveries."""

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from receiver.core.signing import sign
from tests.process.waiting import PATIENCE_SECONDS

SECRET = "a-secret-of-the-process-tests"


@dataclass(frozen=True)
class Answer:
    """A complete answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> dict[str, Any]:
        """Return the body, which must be a JSON object as all of ours are."""
        content = json.loads(self.body)
        assert isinstance(content, dict)
        return content


class Connection:
    """A plain connection over which a test says exactly what it wants to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def say(self, *parts: bytes) -> None:
        """Send bytes as they are."""
        self._writer.write(b"".join(parts))
        await self._writer.drain()

    async def answer(self, *, head_only: bool = False, within: float = PATIENCE_SECONDS) -> Answer:
        """Return the next answer, all of it; raises what says that it did not come or was cut short."""
        async with asyncio.timeout(within):
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.rstrip().split("\r\n")
            pairs = (line.split(": ", 1) for line in lines)
            headers = {name.lower(): value for name, value in pairs}
            length = 0 if head_only else int(headers.get("content-length", 0))
            return Answer(int(first.split()[1]), headers, await self._reader.readexactly(length))

    async def closed(self, within: float = PATIENCE_SECONDS) -> bytes:
        """Return what still came, once the other side has closed the connection."""
        async with asyncio.timeout(within):
            try:
                return await self._reader.read()
            except ConnectionError:
                return b""

    async def post(
        self, body: bytes, *, path: str = "/webhooks", headers: Iterable[tuple[str, str]] = ()
    ) -> Answer:
        """Send one signed delivery and return the answer."""
        await self.say(request(body, path=path, headers=headers))
        return await self.answer()

    def reset(self) -> None:
        """Close the connection with a reset, as the kernel does for a program that ends with unread answers."""
        self._writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )
        self._writer.transport.abort()

    def shut_down_sending(self) -> None:
        """Say that nothing more will come."""
        self._writer.write_eof()


@asynccontextmanager
async def connection(port: int) -> AsyncIterator[Connection]:
    """Open a connection for a block."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
    try:
        yield Connection(reader, writer)
    finally:
        writer.close()
        with suppress(ConnectionError, BrokenPipeError):
            await writer.wait_closed()


def request(body: bytes, *, path: str = "/webhooks", headers: Iterable[tuple[str, str]] = ()) -> bytes:
    """Return a signed request as the service sends it."""
    signature = ("X-Firecrawl-Signature", sign(body, SECRET))
    return raw_request("POST", path, body, (("Content-Type", "application/json"), *headers, signature))


def raw_request(method: str, path: str, body: bytes | None, headers: Iterable[tuple[str, str]] = ()) -> bytes:
    """Return a request with exactly these headers, and a length if there is a body."""
    length = () if body is None else (("Content-Length", str(len(body))),)
    lines = [f"{method} {path} HTTP/1.1", "Host: receiver.test", *(f"{n}: {v}" for n, v in (*headers, *length))]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")


async def get(port: int, path: str) -> Answer:
    """Ask for a path."""
    async with connection(port) as line:
        await line.say(raw_request("GET", path, None))
        return await line.answer()


async def post(port: int, body: bytes, **more: Any) -> Answer:
    """Send one signed delivery on a connection of its own."""
    async with connection(port) as line:
        return await line.post(body, **more)
