"""A console beside a server, and a real browser that visits it."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.doubles import body_of
from tests.process.harness import PATIENCE_SECONDS, Deployment, Serving, post
from tests.process.test_console import address

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
playwright = pytest.importorskip("playwright.async_api", reason="playwright is not installed")
QUIET = "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup,HttpsUpgrades,PaintHolding,Translate,AimEnabled"
"""No page for the suggestions of the address bar: each window loads one, at ten times the cost of ours.

The others are those of the driver that matter here. Only the last of several such switches counts.
"""

HANDLERS = """
from receiver import GiveUp, Router

router = Router()

@router.on("crawl.page")
def save(event):
    if event.failed:
        raise GiveUp("the page has failed")

@router.on("*")
def tell(event):
    pass
"""


class Tab:
    """A page of a browser, and everything that went wrong on it."""

    def __init__(self, page: Any, url: str) -> None:
        self.page = page
        self.url = url
        self.faults: list[str] = []
        page.set_default_timeout(1000 * PATIENCE_SECONDS)
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("dialog", self._close)
        page.on("request", self._look_at)
        page.on("response", self._read)

    def _hear(self, line: Any) -> None:
        if line.type in ("error", "warning"):
            self.faults.append(line.text)

    async def _close(self, dialog: Any) -> None:
        self.faults.append(f"{dialog.type}: {dialog.message}")
        await dialog.dismiss()

    def _read(self, answer: Any) -> None:
        if answer.status >= 500:
            self.faults.append(f"{answer.status} {answer.url}")

    def _look_at(self, request: Any) -> None:
        if not request.url.startswith((self.url, "data:")):
            self.faults.append(f"asked {request.url}")

    async def go(self, path: str) -> None:
        """Open a page of the console."""
        await self.page.goto(self.url + path)

    async def shows(self, text: str) -> None:
        """Return when the page shows a text."""
        await self.page.get_by_text(text).first.wait_for()

    async def is_no_wider_than(self, width: int) -> bool:
        """Tell whether nothing of the page lies beside the screen."""
        return bool(await self.page.evaluate("document.documentElement.scrollWidth") <= width)


class Site:
    """A console with ten deliveries of one job, three of which are dead."""

    def __init__(self, deployment: Deployment, serving: Serving, url: str) -> None:
        self.deployment = deployment
        self.url = url
        self._serving = serving

    async def post(self, body: bytes, **more: Any) -> Any:
        """Send a delivery."""
        return await post(self._serving.port, body, **more)

    async def deliver(self, number: int, *, fails: bool = False) -> None:
        """Send a delivery about a page."""
        data = [{"markdown": f"# Page {number}", "metadata": {"sourceURL": f"https://a.test/{number}"}}]
        error = {"error": "no"} if fails else {}
        body = body_of("crawl.page", id="job-1", webhookId=f"w{number}", success=not fails, data=data, **error)
        assert (await self.post(body)).status == 200


class Visit:
    """The tabs of one test."""

    def __init__(self, browser: Any, url: str) -> None:
        self._browser = browser
        self._url = url
        self._contexts: list[Any] = []
        self.tabs: list[Tab] = []

    async def tab(self, **options: Any) -> Tab:
        """Open a new tab in a window of its own."""
        self._contexts.append(await self._browser.new_context(**options))
        return await self.tab_beside()

    async def tab_beside(self) -> Tab:
        """Open a new tab in the window that was opened last."""
        self.tabs.append(Tab(await self._contexts[-1].new_page(), self._url))
        return self.tabs[-1]

    async def aclose(self) -> None:
        """Close all windows."""
        for one in self._contexts:
            await one.close()


@asynccontextmanager
async def serving_site(folder: Path, **settings: str) -> AsyncIterator[Site]:
    """Serve a site as long as the block lasts."""
    deployment = Deployment(folder, console_port="0", **settings)
    deployment.write_handlers(HANDLERS)
    async with deployment.serve("--console") as serving:
        site = Site(deployment, serving, await address(serving))
        for number in range(10):
            await site.deliver(number, fails=number < 3)
        await deployment.all_ended()
        yield site


@asynccontextmanager
async def chromium() -> AsyncIterator[Any]:
    """Run a browser as long as the block lasts."""
    flags = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    async with playwright.async_playwright() as engine:
        browser = await engine.chromium.launch(executable_path=CHROMIUM, args=[*flags, QUIET])
        yield browser
        await browser.close()


@asynccontextmanager
async def visiting(browser: Any, site: Site) -> AsyncIterator[Visit]:
    """Give new tabs; at the end nothing may have gone wrong on any of them."""
    visit = Visit(browser, site.url)
    try:
        yield visit
        assert [fault for tab in visit.tabs for fault in tab.faults] == []
    finally:
        await visit.aclose()
