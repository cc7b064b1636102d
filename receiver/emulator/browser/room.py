"""One Chromium for all pages: started when a page needs it, and again if it has crashed."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Any, Self

from playwright.async_api import Browser, BrowserContext, Error

from receiver.emulator.browser.chromium import ChromiumStarter, make_folder
from receiver.emulator.failures import ScrapeFailed
from receiver.runtime.log_lines import event_log

log = event_log(__name__)

_CLOSE_SECONDS = 10.0
MakeOptions = Callable[[str], dict[str, Any]]
"""Makes the options of a context from the version of the browser."""


class BrowserRoom:
    """Gives out fresh contexts of one Chromium, a limited number at one time. Its block ends Chromium.

    Chromium runs below a guard, which bounds its memory, and which ends it when this process ends, however that
    happens.
    """

    def __init__(self, starter: ChromiumStarter, *, most: int) -> None:
        self._starter = starter
        self._places = asyncio.Semaphore(most)
        self._starting = asyncio.Lock()
        self._browser: Browser | None = None
        self._folder: str | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        async with self._starting:
            await self._end()

    @asynccontextmanager
    async def context(self, options: MakeOptions) -> AsyncIterator[BrowserContext]:
        """Give a fresh context, when there is a place for it."""
        async with self._places:
            browser, context = await self._new_context(options)
            try:
                yield context
            finally:
                await asyncio.shield(asyncio.ensure_future(self._close(browser, context)))

    async def _new_context(self, options: MakeOptions) -> tuple[Browser, BrowserContext]:
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
                self._folder = folder = await asyncio.to_thread(make_folder)
                self._browser = await self._starter.start(folder)
            except (Error, OSError, TimeoutError) as exc:
                await self._end()
                raise not_started(exc) from exc
            return self._browser

    async def _end(self) -> None:
        """End Chromium, if it runs, and remove its files: then its guard ends what is left."""
        browser, self._browser = self._browser, None
        if browser is not None:
            with suppress(TimeoutError, Error):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await browser.close()
        folder, self._folder = self._folder, None
        if folder is not None:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


def not_started(error: Exception) -> ScrapeFailed:
    """Log why Chromium did not start, and return the failure of what needs it."""
    log.warning("browser_not_started", extra={"reason": str(error).partition("\n")[0][:300]})
    return ScrapeFailed("SCRAPE_ALL_ENGINES_FAILED", "Chromium could not be started")
