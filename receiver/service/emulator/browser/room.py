"""One Chromium for all pages: started when a page needs it, and again if it has crashed."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from playwright.async_api import Browser, BrowserContext, Error, Playwright, async_playwright

from receiver.core.log_lines import event_log
from receiver.service.emulator.browser.finding import GUARD, FoundBrowser
from receiver.service.emulator.browser.flags import chromium_flags
from receiver.service.emulator.failures import ScrapeFailed

log = event_log(__name__)

_START_SECONDS = 30.0
_CLOSE_SECONDS = 5.0
_PREFIX = "receiver-browser-"


class BrowserRoom:
    """Gives out fresh contexts of one Chromium, a limited number at one time. Its block ends Chromium.

    Chromium runs below a guard, which bounds its memory, and which ends it when this process ends, however that
    happens.
    """

    def __init__(self, found: FoundBrowser, *, most: int, memory: int) -> None:
        assert found.executable is not None  # noqa: S101 - for mypy: without one there is no room
        self._executable = found.executable
        self._has_sandbox = found.has_sandbox
        self._memory = memory
        self._places = asyncio.Semaphore(most)
        self._starting = asyncio.Lock()
        self._driver: Playwright | None = None
        self._browser: Browser | None = None
        self._folder: str | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        async with self._starting:
            await self._end()
            if self._driver is not None:
                await self._driver.stop()
                self._driver = None

    @asynccontextmanager
    async def context(self, options: Callable[[str], dict[str, Any]]) -> AsyncIterator[BrowserContext]:
        """Give a fresh context, when there is a place for it; `options` makes its options from the version."""
        async with self._places:
            browser, context = await self._new_context(options)
            try:
                yield context
            finally:
                await asyncio.shield(asyncio.ensure_future(self._close(browser, context)))

    async def _new_context(self, options: Callable[[str], dict[str, Any]]) -> tuple[Browser, BrowserContext]:
        browser = await self._running()
        try:
            return browser, await browser.new_context(**options(browser.version))
        except Error:
            # It may have ended a moment ago, and be seen to have ended only now.
            browser = await self._running()
            return browser, await browser.new_context(**options(browser.version))

    async def _close(self, browser: Browser, context: BrowserContext) -> None:
        """Close a context. A browser that cannot do this in time is ended, with all of its pages."""
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await context.close()
        except (TimeoutError, Error):
            async with self._starting:
                if self._browser is browser and browser.is_connected():
                    log.warning("browser_restarted", extra={"reason": "a page could not be closed"})
                    await self._end()

    async def _running(self) -> Browser:
        async with self._starting:
            if self._browser is not None and self._browser.is_connected():
                return self._browser
            await self._end()
            try:
                return await self._start()
            except (Error, OSError, TimeoutError) as exc:
                log.warning("browser_not_started", extra={"reason": str(exc).partition("\n")[0][:300]})
                await self._end()
                raise ScrapeFailed("SCRAPE_ALL_ENGINES_FAILED", "Chromium could not be started") from exc

    async def _start(self) -> Browser:
        if self._driver is None:
            self._driver = await async_playwright().start()
        self._folder = folder = await asyncio.to_thread(tempfile.mkdtemp, prefix=_PREFIX, dir=_folder_for_all())
        python, *guard = GUARD
        self._browser = await self._driver.chromium.launch(
            executable_path=python,
            ignore_default_args=True,
            args=[
                *guard,
                *(str(os.getpid()), folder, str(self._memory), "--", str(self._executable)),
                *chromium_flags(sandbox=self._has_sandbox),
            ],
            timeout=_START_SECONDS * 1000,
            handle_sigint=False,
            handle_sigterm=False,
            handle_sighup=False,
        )
        return self._browser

    async def _end(self) -> None:
        """End Chromium, if it runs, and remove its files."""
        browser, self._browser = self._browser, None
        if browser is not None:
            with suppress(TimeoutError, Error):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await browser.close()
        folder, self._folder = self._folder, None
        if folder is not None:
            await asyncio.to_thread(shutil.rmtree, Path(folder), ignore_errors=True)


def _folder_for_all() -> str | None:
    """Return where Chromium's files go; None is the usual place. Started by root, it runs as another user."""
    usual = Path(tempfile.gettempdir()).resolve()
    open_to_all = all(place.stat().st_mode & 0o001 for place in (usual, *usual.parents))
    return None if os.geteuid() != 0 or open_to_all else "/tmp"  # noqa: S108 - mkdtemp makes a name of its own
