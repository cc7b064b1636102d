"""A server of raw bytes on the loopback interface: what a real one would never send, too."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

Script = Callable[[str, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class RawServer:
    """Gives each request for a path to a script; `requests` keeps what came."""

    port: int = 0
    answers: dict[str, bytes | Script] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    connections: int = 0

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    def header(self, name: str, request: int = -1) -> str | None:
        lines = [line.partition(": ") for line in self.requests[request].split("\r\n")]
        return next((value for key, _, value in lines if key.lower() == name), None)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                self.requests.append(head)
                path = head.split(" ", 2)[1]
                answer = self.answers.get(path, b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                if callable(answer):
                    await answer(path, writer)
                    break
                writer.write(answer)
                await writer.drain()
                if b"connection: close" in answer[:1000].lower():
                    break
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def answer(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@asynccontextmanager
async def raw_server(host: str = "127.0.0.1") -> AsyncIterator[RawServer]:
    served = RawServer()
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await served.serve(reader, writer)
        except asyncio.CancelledError:
            writer.close()
        finally:
            tasks.discard(task)

    server = await asyncio.start_server(serve, host, 0)
    served.port = server.sockets[0].getsockname()[1]
    try:
        yield served
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
