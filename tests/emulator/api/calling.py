"""An emulator in this process with operations that the tests of the API need."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from receiver.core.clock import VirtualClock
from receiver.emulator.api.account import AccountOperations
from receiver.emulator.api.calls import Answer, ApiCall, ApiOperation
from receiver.emulator.app import Emulator, EmulatorParts
from receiver.emulator.options import EmulatorOptions
from tests.doubles import NOON

BASE = "http://127.0.0.1:3002"
KEY = {"Authorization": "Bearer fc-test"}


@dataclass
class Echo:
    """Operations that remember their calls, and answer what the test says."""

    answer: Callable[[ApiCall], Answer] = lambda call: Answer({"success": True, "body": call.body})
    calls: list[ApiCall] = field(default_factory=list)

    async def handle(self, call: ApiCall) -> Answer:
        self.calls.append(call)
        return self.answer(call)

    def operations(self, parts: EmulatorParts) -> list[ApiOperation]:
        paths: Mapping[str, tuple[str, str]] = {
            "/echo": ("POST", "account"),
            "/echo/{id}": ("GET", "crawlStatus"),
            "/echo/active": ("GET", "crawlStatus"),
            "/echo/{id}/parse": ("POST", "scrape"),
        }
        starts = {
            (version, path): ("POST", limit)
            for version in (1, 2)
            for path, limit in (("/scrape", "scrape"), ("/crawl", "crawl"), ("/batch/scrape", "scrape"))
        }
        operations = [
            ApiOperation(
                method,  # type: ignore[arg-type]
                f"/v2{path}",
                self.handle,
                limit,
                takes="form" if path.endswith("/parse") else "json",
            )
            for path, (method, limit) in paths.items()
        ]
        operations += [
            ApiOperation("POST", f"/v{version}{path}", self.handle, limit)
            for (version, path), (_, limit) in starts.items()
        ]
        operations.append(ApiOperation("PATCH", "/v2/echo/{id}", self.handle, "crawlStatus"))
        operations.append(ApiOperation("DELETE", "/v2/echo/{id}", self.handle, "crawlStatus"))
        account = AccountOperations(parts.ledger, parts.jobs, parts.clock, max_concurrency=10)
        return [*account.operations(), *operations]


@dataclass
class EchoWorld:
    """An emulator, its parts, a client of it, and its operations."""

    emulator: Emulator
    parts: EmulatorParts
    client: httpx.AsyncClient
    echo: Echo
    clock: VirtualClock

    async def post(self, path: str, body: Any = None, **options: Any) -> httpx.Response:
        headers = {**KEY, **options.pop("headers", {})}
        if body is not None:
            options["json"] = body
        return await self.client.post(path, headers=headers, **options)

    async def get(self, path: str, **options: Any) -> httpx.Response:
        return await self.client.get(path, headers={**KEY, **options.pop("headers", {})}, **options)


@asynccontextmanager
async def echo_world(
    options: EmulatorOptions | None = None, *, client_host: str = "127.0.0.1", base: str = BASE
) -> AsyncIterator[EchoWorld]:
    echo, clock = Echo(), VirtualClock(NOON)
    emulator = Emulator(options or EmulatorOptions(seed=1), clock=clock, operations=echo.operations)
    transport = httpx.ASGITransport(emulator, client=(client_host, 5000))
    async with emulator.lifespan() as parts, httpx.AsyncClient(transport=transport, base_url=base) as client:
        yield EchoWorld(emulator, parts, client, echo, clock)
