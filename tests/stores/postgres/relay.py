"""A relay between a store and its server, which can fall silent and cut connections. It needs no rights."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from tests.doubles import soon


class Relay:
    """Passes bytes on in both directions."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 0
        self._passes = asyncio.Event()
        self._passes.set()
        self._cut_after: bytes | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._ended: list[asyncio.Event] = []
        self._parts = parts
        self.url = ""
        self.dropped = asyncio.Event()
        """Set when an answer was dropped."""

    def fall_silent(self) -> None:
        """Pass nothing on from now. New connections are taken, and stay without an answer."""
        self._passes.clear()

    def speak(self) -> None:
        """Pass everything on again."""
        self._passes.set()

    def cut_instead_of_answers(self, to: bytes = b"") -> None:
        """Pass everything to the server; where these bytes come next, cut the connection in place of an answer."""
        self._cut_after = to
        self.dropped.clear()

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Relay"]:
        """Listen on a port of its own for a block; `url` leads there."""
        server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        user = f"{self._parts.username}@" if self._parts.username else ""
        self.url = self._parts._replace(netloc=f"{user}127.0.0.1:{port}").geturl()
        try:
            yield self
        finally:
            self.speak()
            server.close()
            for writer in list(self._writers):
                writer.close()
            for ended in self._ended:
                await soon(ended.wait())

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ended = asyncio.Event()
        self._ended.append(ended)
        try:
            there, back = await asyncio.open_connection(self._host, self._port)
            self._writers |= {writer, back}
            asked = asyncio.Event()
            passing = self._pass_on(reader, back, asked), self._pass_back(there, writer, asked)
            await asyncio.gather(*passing, return_exceptions=True)
        finally:
            ended.set()

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: asyncio.Event
    ) -> None:
        while data := await reader.read(65_536):
            await self._passes.wait()
            if self._cut_after is not None and self._cut_after in data:
                self._cut_after = None
                asked.set()
            writer.write(data)
        writer.close()

    async def _pass_back(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: asyncio.Event
    ) -> None:
        while data := await reader.read(65_536):
            await self._passes.wait()
            if asked.is_set():
                self.dropped.set()
                break
            writer.write(data)
        writer.close()
