"""The console: its overview, and one delivery. The browser gets its pages from the app itself."""

import asyncio
from pathlib import Path
from typing import Any

import httpx

from receiver import Console
from receiver.testing import settings_for_test
from tests.pictures.day import INDEX, lived
from tests.process.console_visits import chromium

URL = "http://127.0.0.1:8001"


def make(folder: Path) -> None:
    """Write both pictures into a folder."""
    asyncio.run(_take(folder))


async def _take(folder: Path) -> None:
    """Take the pictures of a day."""
    store, clock = await lived()
    console = Console(settings_for_test(folder), store=store, clock=clock)
    async with (
        console.lifespan(),
        httpx.AsyncClient(transport=httpx.ASGITransport(console), base_url=URL) as client,
        chromium() as browser,
    ):
        context = await browser.new_context(
            viewport={"width": 1180, "height": 800}, timezone_id="UTC", locale="en-GB"
        )

        async def answer(route: Any) -> None:
            path = route.request.url.removeprefix(URL)
            if path == "/changes":  # it would not end
                await route.abort()
                return
            got = await client.get(path)
            await route.fulfill(status=got.status_code, headers=dict(got.headers), body=got.content)

        await context.route("**/*", answer)
        page = await context.new_page()
        await page.goto(f"{URL}/")
        await page.screenshot(path=folder / "console-overview.png")
        await page.goto(f"{URL}/deliveries?handler={INDEX}&state=dead&type=crawl.page")
        await page.locator("table.list tbody tr a").first.click()
        await page.wait_for_url("**/deliveries/*")
        await page.screenshot(path=folder / "console-delivery.png")
