"""Ten open tabs of a console, as a process of its own: `python -m tests.benchmarks.console_tabs PORT`.

Each listens to the stream of changes and reads its page anew at each change, but only once at a time, as htmx does
in a browser. It prints a line when all of them listen, and runs until it is stopped.
"""

import asyncio
import sys

TAB_PAGES = ("/", "/deliveries", "/", "/deliveries", "/", "/deliveries", "/", "/deliveries", "/", "/deliveries")


async def read_page(port: int, path: str) -> None:
    """Read a page to its end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    request = f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nhx-request: true\r\nconnection: close\r\n\r\n"
    writer.write(request.encode())
    answer = await reader.read()
    writer.close()
    if not answer.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(f"{path} was answered {answer[:40]!r}")


async def keep_open(port: int, path: str, listening: asyncio.Barrier) -> None:
    """Read a page, and again at each change."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /changes HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: text/event-stream\r\n\r\n")
    await reader.readuntil(b"event: ready")
    await read_page(port, path)
    await listening.wait()
    while await reader.readuntil(b"event: changed"):
        await read_page(port, path)
    writer.close()


async def main(port: int) -> None:
    """Keep all tabs open."""
    listening = asyncio.Barrier(len(TAB_PAGES) + 1)
    async with asyncio.TaskGroup() as group:
        for path in TAB_PAGES:
            group.create_task(keep_open(port, path, listening))
        await listening.wait()
        sys.stdout.write("open\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
