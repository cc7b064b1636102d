"""The console as a process: alone, and beside a server."""

import asyncio
import re
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx
import pytest

from tests.doubles import body_of
from tests.process.harness import PATIENCE_SECONDS, SECRET, Deployment, Program, post

BODY = body_of(id="job", webhookId="w")


async def address(program: Program) -> str:
    """Return where the console of a program listens."""
    found = re.search(r"url=(\S+)", await program.line("console_serving"))
    assert found
    return found[1]


@asynccontextmanager
async def open_stream(url: str) -> AsyncIterator["asyncio.Task[str]"]:
    """Listen to the stream of changes, as an open page does; the task ends with the stream."""

    async def listen(begun: asyncio.Event) -> str:
        text = ""
        async with (
            httpx.AsyncClient(timeout=PATIENCE_SECONDS) as client,
            client.stream("GET", f"{url}/changes") as answer,
        ):
            async for piece in answer.aiter_text():
                text += piece
                begun.set()
        return text

    begun = asyncio.Event()
    task = asyncio.create_task(listen(begun))
    await asyncio.wait_for(begun.wait(), PATIENCE_SECONDS)
    yield task
    task.cancel()


async def test_it_shows_a_store_that_comes_later_and_ends_its_streams(tmp_path: Path) -> None:
    """Before there is a store it says so. A stop ends open streams by itself, and nobody has to be cut off."""
    deployment = Deployment(tmp_path, console_port="0")
    async with deployment.start("console") as console:
        url = await address(console)
        async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_SECONDS) as client:
            assert "no database yet" in (await client.get("/")).text
            async with deployment.serve("--no-worker") as serving:
                assert (await post(serving.port, BODY)).status == 200
                assert "1" in (await client.get("/")).text
                assert "crawl.page" in (await client.get("/deliveries")).text
        async with open_stream(url) as first, open_stream(url) as second:
            console.send_signal(signal.SIGTERM)
            for stream in (first, second):
                assert "event: ready" in await stream  # a stream that is cut off raises an error
            assert await console.exit_code() == 0
        await console.line("console_stopped")
    assert "graceful shutdown exceeded" not in console.output
    assert SECRET not in console.output
    assert "Traceback" not in console.output


async def test_a_request_that_never_ends_is_cut_off(tmp_path: Path) -> None:
    """Else a few of them would hold all connections."""
    deployment = Deployment(tmp_path, console_port="0", read_timeout="0.1")
    async with deployment.start("console") as console:
        url = httpx.URL(await address(console))
        reader, writer = await asyncio.open_connection(url.host, url.port)
        writer.write(b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\nx-slow: ")
        with suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), PATIENCE_SECONDS) == b""
        writer.close()
        async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_SECONDS) as client:
            assert (await client.get("/sign-in")).status_code == 200


async def test_a_server_starts_one_beside_it_and_stops_it(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path, console_port="0")
    async with deployment.serve("--console") as serving:
        url = await address(serving)
        async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_SECONDS) as client:
            assert (await client.get("/")).status_code == 200
            assert (await client.post("/webhooks", content=b"{}")).status_code in (403, 404)
        webhook = httpx.AsyncClient(base_url=f"http://127.0.0.1:{serving.port}", timeout=PATIENCE_SECONDS)
        assert (await webhook.get("/deliveries")).status_code == 404
        await webhook.aclose()
        async with open_stream(url) as stream:
            serving.send_signal(signal.SIGTERM)
            assert "event: ready" in await stream
            assert await serving.exit_code() == 0
        await serving.line("console_stopped")


async def checked_settings(client: httpx.AsyncClient) -> tuple[str, str]:
    """Return the page of settings, and what it says after it was asked to check the deployment."""
    page = (await client.get("/settings")).text
    found = re.search(r'name="token" value="(\w+)"', page)
    assert found
    return page, (await client.post("/settings/check", data={"token": found[1]})).text


async def test_the_page_of_settings_checks_the_deployment(tmp_path: Path) -> None:
    """In a process of its own, which imports the handlers. No secret is on the page."""
    deployment = Deployment(tmp_path, console_port="0")
    async with (
        deployment.serve("--console") as serving,
        httpx.AsyncClient(base_url=await address(serving), timeout=PATIENCE_SECONDS) as client,
    ):
        page, checked = await checked_settings(client)
    assert "handlers:router has 1: handlers.record" in checked
    assert SECRET not in page + checked


async def test_flags_of_the_server_are_what_the_console_shows_and_checks(tmp_path: Path) -> None:
    """The environment names another router, which does not exist."""
    deployment = Deployment(tmp_path, console_port="0", handlers="nowhere:router")
    async with (
        deployment.serve("--console", "--handlers", "handlers:router") as serving,
        httpx.AsyncClient(base_url=await address(serving), timeout=PATIENCE_SECONDS) as client,
    ):
        page, checked = await checked_settings(client)
    assert "handlers:router has 1: handlers.record" in checked
    row = page.partition("RECEIVER_HANDLERS")[2].partition("</tr>")[0]
    assert "handlers:router" in row
    assert ">flag<" in row


def test_a_port_that_is_taken_is_an_error_at_the_start(tmp_path: Path) -> None:
    """As it is for the port of the endpoint, and before anything is served."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = Deployment(tmp_path, console_port=str(taken.getsockname()[1])).run(
            "serve", "--console", "--port", "0"
        )

    assert done.code == 2
    assert "is taken by another program; choose another with RECEIVER_CONSOLE_PORT" in done.text
    assert "listening" not in done.text


async def test_it_ends_with_a_server_that_is_killed(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path, console_port="0")
    async with deployment.serve("--console") as serving:
        await address(serving)
        serving.send_signal(signal.SIGKILL)
        await serving.gone()


@pytest.mark.parametrize("command", [("console",), ("serve", "--console")])
def test_other_machines_need_a_password(tmp_path: Path, command: tuple[str, ...]) -> None:
    done = Deployment(tmp_path, console_host="0.0.0.0").run(*command)

    assert done.code == 2
    assert "RECEIVER_CONSOLE_PASSWORD" in done.text
