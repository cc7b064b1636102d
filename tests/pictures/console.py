"""The console: its overview, and one delivery."""

import asyncio
import tempfile
from pathlib import Path

from tests.process.harness import Deployment
from tests.process.test_console import address
from tests.process.test_console_browser import CHROMIUM, playwright

HANDLERS = """
import asyncio
import random
from receiver import Context, Router
from receiver.events import CrawlPage, Event

router = Router()

@router.on("crawl.page", "batch_scrape.page", attempts=1)
async def index(event: Event, ctx: Context) -> None:
    await asyncio.sleep(random.uniform(0.002, 0.03))
    if event.failed:
        raise TimeoutError("the search engine did not answer in 5 s")

@router.on("*.completed")
def report(event: Event) -> None:
    pass
"""
FAMILIES = (("crawl", 24), ("batch_scrape", 12), ("monitor", 9), ("extract", 1), ("agent", 4), ("crawl", 31))


def make(folder: Path) -> None:
    """Write both pictures into a folder."""
    with tempfile.TemporaryDirectory() as made:
        asyncio.run(_take(Path(made), folder))


async def _take(made: Path, folder: Path) -> None:
    """Serve a console with some jobs in it, and take its pictures."""
    deployment = Deployment(made, console_port="0")
    deployment.write_handlers(HANDLERS)
    async with deployment.serve("--console") as serving, playwright.async_playwright() as engine:
        url = await address(serving)
        for seed, (family, pages) in enumerate(FAMILIES):
            to = f"http://127.0.0.1:{serving.port}/webhooks"
            arguments = ("send", family, "--pages", str(pages), "--seed", str(seed), "--to", to)
            done = await asyncio.to_thread(deployment.run, *arguments)
            assert done.code == 0, done.text
        await deployment.all_ended()
        browser = await engine.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        context = await browser.new_context(viewport={"width": 1180, "height": 720}, device_scale_factor=1)
        page = await context.new_page()
        await page.goto(url)
        await page.reload()  # the last day is counted now
        await page.screenshot(path=folder / "console-overview.png")
        await page.goto(f"{url}/deliveries?type=crawl.page&failed=1")
        await page.locator("table.list tbody tr a").first.click()
        await page.wait_for_url("**/deliveries/*")
        await page.screenshot(path=folder / "console-delivery.png")
        await browser.close()
