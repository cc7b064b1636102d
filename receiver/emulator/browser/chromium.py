"""Chromium: started below its guard by one driver, shared by all pages, and started again if it has crashed."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Self

from playwright.async_api import Browser, BrowserContext, Error, Playwright, async_playwright

from receiver.emulator.browser.executable import GUARD, FoundBrowser
from receiver.emulator.failures import ScrapeFailed
from receiver.runtime.log_lines import event_log

log = event_log(__name__)

_FLAGS = (
    "--headless",
    "--remote-debugging-pipe",
    "--hide-scrollbars",
    "--mute-audio",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-service-autorun",
    "--password-store=basic",
    "--use-mock-keychain",
    "--export-tagged-pdf",
    "--force-color-profile=srgb",
    # A page that nobody looks at works as fast as any other.
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    "--disable-ipc-flooding-protection",
    # Chromium asks for nothing by itself.
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-client-side-phishing-detection",
    "--disable-component-extensions-with-background-pages",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-extensions",
    "--disable-field-trial-config",
    "--disable-search-engine-choice-screen",
    "--disable-sync",
    "--metrics-recording-only",
    # All requests of a page are seen where the page is: frames have no process of their own.
    "--disable-site-isolation-trials",
    "--disable-features=IsolateOrigins,site-per-process,Translate,OptimizationHints,MediaRouter,AutofillServerCommunication,LocalNetworkAccessChecks,"
    "CertificateTransparencyComponentUpdater,GlobalMediaControls,HttpsUpgrades,InterestFeedContentSuggestions,"
    # Each window would load a page for the suggestions of its address bar, at ten times the cost of a small page.
    "WebUIOmniboxPopup,WebUIOmniboxAimPopup",
    # What is not answered by the emulator reaches nothing, whatever kind of connection it is.
    "--proxy-server=socks5://127.0.0.1:1",
    "--proxy-bypass-list=<-loopback>",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-quic",
    "--dns-prefetch-disable",
    "--disk-cache-size=1",
    "--js-flags=--max-old-space-size=512",
)
"""The switches (https://peter.sh/experiments/chromium-command-line-switches/)."""
_START_SECONDS = 30.0
_CLOSE_SECONDS = 10.0
MakeOptions = Callable[[str], dict[str, Any]]
"""Makes the options of a context from the version of the browser."""
_USUAL_VERSION = "140.0.0.0"
_PREFIX = "receiver-browser-"


class ChromiumStarter:
    """Starts Chromium as often as asked. Its block ends the driver, and with it every browser that is left."""

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

    async def __aexit__(self, *error: object) -> None:
        if self._driver is not None:
            await self._driver.stop()

    async def start(self, folder: str) -> Browser:
        """Return a browser for many contexts; its files are in the folder."""
        driver = await self._running()
        # Without a page to open, Chromium would show the one for new tabs.
        arguments = [*self._arguments(folder), "--no-startup-window"]
        browser = await driver.chromium.launch(args=arguments, **self._options())
        self._version = browser.version
        return browser

    @property
    def version(self) -> str:
        """The version of Chromium, a usual one before it is known: pages see it in the name of their browser."""
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
        return [*guard, *bounds, *_FLAGS, *([] if self._has_sandbox else ["--no-sandbox"])]

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
    """Give a folder for one browser. When it is removed, the guard ends what still runs in it."""
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


class BrowserRoom:
    """Gives out fresh contexts of one Chromium, a limited number at one time. Its block ends Chromium.

    Chromium runs below a guard, which bounds its memory and ends it when this process ends for any reason.
    """

    def __init__(self, starter: ChromiumStarter, *, most: int) -> None:
        self._starter = starter
        self._places = asyncio.Semaphore(most)
        self._starting = asyncio.Lock()
        self._browser: Browser | None = None
        self._folder: str | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
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
