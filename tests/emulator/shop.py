"""A running emulator with a small site, and the service's own SDK for it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn
from firecrawl import Firecrawl

from receiver.emulator.app import Emulator
from receiver.emulator.options import EmulatorOptions
from tests.doubles import eventually, soon

SHOP = "https://shop.example"
PRODUCT = """<html><head><title>Bikes</title><script type="application/ld+json">{"@type": "Product",
"name": "City bike", "offers": {"price": "PRICE"}}</script></head><body><main><h1>City bike</h1>
<p>It costs PRICE euros.</p><a href="/about">About</a></main></body></html>"""
ABOUT = "<title>About</title><main><h1>About us</h1><p>We sell bikes.</p></main>"
SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}, "price": {"type": "number"}}}


@dataclass
class Shop:
    """A running emulator with a small site, and the SDK's client for it."""

    emulator: Emulator
    pages: dict[str, str | bytes]
    client: Firecrawl
    address: str

    def price(self, text: str) -> None:
        self.pages["/"] = PRODUCT.replace("PRICE", text)

    async def call(self, name: str, /, *args: Any, **options: Any) -> Any:
        """Make a call in a thread: the client blocks."""
        target: Any = self.client
        for part in name.split("."):
            target = getattr(target, part)
        return await soon(asyncio.to_thread(target, *args, **options))


@asynccontextmanager
async def shop(**options: Any) -> AsyncIterator[Shop]:
    """Serve an emulator of the site on a free port."""
    pages: dict[str, str | bytes] = {"/about": ABOUT}
    sites = {SHOP: pages, **options.pop("sites", {})}
    emulator = Emulator(EmulatorOptions(sites=sites, bundled_site=False, seed=1, **options))
    config = uvicorn.Config(emulator, port=0, log_level="critical", lifespan="on", ws="websockets-sansio")
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    await eventually(lambda: server.started)
    address = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    made = Shop(emulator, pages, Firecrawl(api_key="fc-any", api_url=address), address)
    made.price("5")
    try:
        yield made
    finally:
        server.should_exit = True
        await serving
