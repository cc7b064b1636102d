"""Starts Chromium below its guard, by one driver for all of the emulator's browsers."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from playwright.async_api import Browser, BrowserContext, Playwright, async_playwright

from receiver.service.emulator.browser.finding import GUARD, FoundBrowser
from receiver.service.emulator.browser.flags import chromium_flags

_START_SECONDS = 30.0
_USUAL_VERSION = "140.0.0.0"
_PREFIX = "receiver-browser-"


class ChromiumStarter:
    """Starts Chromium as often as asked. Its block ends the driver, and with it what is still there."""

    def __init__(self, found: FoundBrowser, *, memory: int) -> None:
        assert found.executable is not None  # noqa: S101 - for mypy: without one there is no browser
        self._executable = found.executable
        self._has_sandbox = found.has_sandbox
        self._memory = memory
        self._lock = asyncio.Lock()
        self._driver: Playwright | None = None
        self._version = _USUAL_VERSION

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._driver is not None:
            await self._driver.stop()

    async def start(self, folder: str) -> Browser:
        """Return a browser for many contexts; its files are in the folder."""
        driver = await self._running()
        # Without a page that it is to open, Chromium would show that for new tabs.
        arguments = [*self._arguments(folder), "--no-startup-window"]
        browser = await driver.chromium.launch(args=arguments, **self._options())
        self._version = browser.version
        return browser

    @property
    def version(self) -> str:
        """The version of Chromium, as far as it is known: pages see it in the name of their browser."""
        return self._version

    async def start_alone(self, folder: str, context: dict[str, Any]) -> BrowserContext:
        """Return the one context of a browser that other programs can connect to; `debugging_url` says where."""
        driver = await self._running()
        arguments = [*self._arguments(folder), "--remote-debugging-port=0", "about:blank"]
        # The guard gives Chromium its folder; the driver wants one, too.
        return await driver.chromium.launch_persistent_context(
            f"{folder}/driver", args=arguments, **self._options(), **context
        )

    def _arguments(self, folder: str) -> list[str]:
        _, *guard = GUARD
        bounds = [str(os.getpid()), folder, str(self._memory), "browser", "--", str(self._executable)]
        return [*guard, *bounds, *chromium_flags(sandbox=self._has_sandbox)]

    def _options(self) -> dict[str, Any]:
        return {
            "executable_path": GUARD[0],
            "ignore_default_args": True,
            "timeout": _START_SECONDS * 1000,
            "handle_sigint": False,
            "handle_sigterm": False,
            "handle_sighup": False,
        }

    async def _running(self) -> Playwright:
        async with self._lock:
            if self._driver is None:
                self._driver = await async_playwright().start()
            return self._driver


def debugging_url(folder: str) -> str:
    """Return where a browser that was started alone can be connected to."""
    port, path = Path(folder, "profile", "DevToolsActivePort").read_text().split()
    return f"ws://127.0.0.1:{port}{path}"


@asynccontextmanager
async def own_folder() -> AsyncIterator[str]:
    """Give a folder for one browser. When it is gone, the guard ends what still runs in it."""
    folder = await asyncio.to_thread(make_folder)
    try:
        yield folder
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


def make_folder() -> str:
    """Return a new folder that Chromium can reach."""
    usual = Path(tempfile.gettempdir()).resolve()
    open_to_all = all(place.stat().st_mode & 0o001 for place in (usual, *usual.parents))
    # Started by root, Chromium runs as another user.
    elsewhere = None if os.geteuid() != 0 or open_to_all else "/tmp"  # noqa: S108 - the name is a new one
    return tempfile.mkdtemp(prefix=_PREFIX, dir=elsewhere)
