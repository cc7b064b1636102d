"""The service in a test: the emulator in process, on the clock of the test, with sites that the test gives."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
from starlette.types import ASGIApp

from receiver.emulator.app import Emulator
from receiver.emulator.options import EmulatorOptions, SiteSource
from receiver.service.client import AsyncClient, Client
from receiver.service.client.clients import ServiceClients
from receiver.service.responses import AgentStatus, ExtractStatus, JobStarted, JobStatus
from receiver.testing.clock import SteppedClock

_SERVICE = "http://emulator.test"
_RECEIVER = "http://127.0.0.1:8000"
_KEY = "fc-test"


class RunningEmulator:
    """The service, as `receiver emulate` runs it. Its webhooks go to the receiver under test.

    `client` calls its API. What a call starts goes on when the clock settles; `crawl`, `batch_scrape`,
    `extract` and `agent` wait for it.
    """

    def __init__(self, emulator: Emulator, clock: SteppedClock, way_out: "_WayOut", webhook_path: str) -> None:
        self._emulator = emulator
        self._clock = clock
        self._way_out = way_out
        self.webhook_url = _RECEIVER + webhook_path
        """Where the receiver under test is, for the `webhook` of a request."""
        transport = httpx.ASGITransport(emulator, raise_app_exceptions=False)
        loop = asyncio.get_running_loop()
        self.client = AsyncClient(_KEY, _SERVICE, clock=clock, transport=transport)
        self.clients = ServiceClients(self.client, Client(_KEY, _SERVICE, transport=_FromThread(loop, transport)))
        """For handlers: `ctx.client` and `ctx.sync_client` call this emulator."""

    async def crawl(self, url: str, **options: Any) -> JobStatus:
        """Crawl a site, let everything happen that follows from it, and return the job.

        `options` are those of `AsyncClient.crawl`. The events go to the receiver under test.
        """
        started = await self.client.crawl(url, webhook=self.webhook_url, **options)
        await self._clock.settle()
        return await self.client.crawl_status(_id(started))

    async def batch_scrape(self, urls: list[str], **options: Any) -> JobStatus:
        """Scrape these pages as `crawl` does it with a site."""
        started = await self.client.batch_scrape(urls, webhook=self.webhook_url, **options)
        await self._clock.settle()
        return await self.client.batch_status(_id(started))

    async def extract(self, urls: list[str], **options: Any) -> ExtractStatus:
        """Extract data from these pages, let everything happen that follows from it, and return the result.

        `options` are those of `AsyncClient.extract`.
        """
        started = await self.client.extract(urls, webhook=self.webhook_url, **options)
        await self._clock.settle()
        return await self.client.extract_status(_id(started))

    async def agent(self, prompt: str, **options: Any) -> AgentStatus:
        """Let an agent find what the prompt says, as `extract` does it with pages."""
        started = await self.client.agent(prompt, webhook=self.webhook_url, **options)
        await self._clock.settle()
        return await self.client.agent_status(_id(started))

    def reach(self, receiver: ASGIApp | None) -> None:
        """Let webhooks go to this receiver. With None nobody listens, as while it is down."""
        self._way_out.receiver = receiver

    async def aclose(self) -> None:
        """Close the clients."""
        await self.client.aclose()
        self.clients.for_plain.close()


def _id(started: JobStarted) -> str:
    if started.id is None:
        raise AssertionError("the emulator gave the job no id")
    return started.id


class _WayOut(httpx.AsyncBaseTransport):
    """What the emulator sends: webhooks reach the receiver under test, everything else reaches nobody."""

    def __init__(self) -> None:
        self.receiver: ASGIApp | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self.receiver is None or not str(request.url).startswith(f"{_RECEIVER}/"):
            raise httpx.ConnectError("nobody is there in a test", request=request)
        return await httpx.ASGITransport(self.receiver, raise_app_exceptions=False).handle_async_request(request)


class _FromThread(httpx.BaseTransport):
    """Takes the requests of plain code in a thread to an app in the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, transport: httpx.AsyncBaseTransport) -> None:
        self._loop = loop
        self._transport = transport

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        body = request.read()

        async def handle() -> httpx.Response:
            copy = httpx.Request(request.method, request.url, headers=request.headers, content=body)
            response = await self._transport.handle_async_request(copy)
            return httpx.Response(response.status_code, headers=response.headers, content=await response.aread())

        return asyncio.run_coroutine_threadsafe(handle(), self._loop).result()


@asynccontextmanager
async def open_emulator(
    sites: Mapping[str, SiteSource],
    clock: SteppedClock,
    *,
    secret: str | None = None,
    webhook_path: str = "/webhooks",
    **options: Any,
) -> AsyncIterator[RunningEmulator]:
    """Run the service for as long as the block lasts; `options` are those of EmulatorOptions.

    `sites` are folders, or the pages by path, by the origin that serves them. Nothing leaves the process.
    """
    defaults: dict[str, Any] = {"seed": 0, "bundled_site": False}
    given = EmulatorOptions(sites=sites, webhook_secret=secret, **(defaults | options))
    way_out = _WayOut()
    emulator = Emulator(given, clock=clock, transport=way_out)
    async with emulator.lifespan():
        running = RunningEmulator(emulator, clock, way_out, webhook_path)
        with clock.moving_with(emulator.settled):
            try:
                yield running
            finally:
                await running.aclose()
