"""The service of the demo: the emulator in this process, on a free port, with the bundled site."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

import uvicorn

from receiver.emulator.app import Emulator
from receiver.emulator.bundled import BUNDLED_ORIGIN, BUNDLED_SITE
from receiver.emulator.options import EmulatorOptions
from receiver.service.client import AsyncClient
from receiver.web.listening import address, bind
from receiver.web.server import Server

API_KEY = "fc-demo"
_PAGE_DELAY = timedelta(milliseconds=60)
"""Slow enough to watch pages come in."""
CHANGED_PAGE = "/pricing.html"
"""The page that the demo changes between two checks of a monitor."""


@dataclass(frozen=True, slots=True)
class DemoService:
    """The running service, its client, and the pages of the site, which the demo may change."""

    emulator: Emulator
    client: AsyncClient
    url: str
    pages: dict[str, bytes]
    origin: str = BUNDLED_ORIGIN

    @property
    def changed_url(self) -> str:
        """The page that `change_page` changes."""
        return self.origin + CHANGED_PAGE.removesuffix(".html")

    @property
    def some_urls(self) -> list[str]:
        """Three pages."""
        return [f"{self.origin}/{name}" for name in ("", "about", "contact")]

    def change_page(self) -> None:
        """Change a price on one page of the site."""
        self.pages[CHANGED_PAGE] = self.pages[CHANGED_PAGE].replace(b">$9<", b">$12<")


@asynccontextmanager
async def running_service(secret: str) -> AsyncIterator[DemoService]:
    """Run the service for as long as the block lasts. It signs webhooks with the secret."""
    pages: dict[str, str | bytes] = {}
    for file in sorted(BUNDLED_SITE.rglob("*")):
        if file.is_file():
            pages[f"/{file.relative_to(BUNDLED_SITE).as_posix()}"] = file.read_bytes()
    options = EmulatorOptions(
        sites={BUNDLED_ORIGIN: pages}, bundled_site=False, webhook_secret=secret, page_delay=_PAGE_DELAY
    )
    emulator = Emulator(options)
    listener = bind("127.0.0.1", 0)
    url = address(listener)
    server = Server(uvicorn.Config(emulator, lifespan="off", log_config=None, access_log=False))
    async with emulator.lifespan(), AsyncClient(API_KEY, url) as client:
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield DemoService(emulator, client, url, pages)  # type: ignore[arg-type]  # all are bytes
        finally:
            server.should_exit = True
            await serving
            listener.close()
