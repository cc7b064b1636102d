"""Starts Chromium below its guard, by one driver for all of the emulator's browsers."""

import asyncio
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from playwright.async_api import Browser, BrowserContext, Playwright, async_playwright

from receiver.emulator.browser import guard
from receiver.emulator.options import EmulatorOptions

# FOLDED: The switches of Chromium (https://peter.sh/experiments/chromium-command-line-switches/).
_ALWAYS = (
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


def chromium_flags(*, sandbox: bool) -> list[str]:
    """Return the switches."""
    return [*_ALWAYS, *(() if sandbox else ("--no-sandbox",))]


# FOLDED: Finds Chromium, and whether it can be used here.
_NAMES = (
    "chromium",
    "chromium-browser",
    "chromium-headless-shell",
    "google-chrome-stable",
    "google-chrome",
    "chrome",
)
_OF_PLAYWRIGHT = (
    "chromium-*/chrome-linux*/chrome",
    "chromium_headless_shell-*/chrome-*/*headless*shell",
    "chromium-*/chrome-mac*/*.app/Contents/MacOS/*",
)
_ELSEWHERE = (Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"),)
_PROBE_SECONDS = 20
_INSTALL = "install Chromium (`apt install chromium`, or `playwright install chromium`), or name it with --chromium"
GUARD = (sys.executable, "-I", "-S", "-B", str(Path(guard.__file__)))
"""The command that runs Chromium."""


@dataclass(frozen=True, slots=True)
class FoundBrowser:
    """What is there: an executable, or the reason why there is none to use."""

    executable: Path | None
    """Chromium; None if it cannot be used."""
    has_sandbox: bool
    """Whether its sandbox keeps pages apart from the system."""
    text: str
    """For people: what is used and how, or what is missing and how to get it."""


def find_browser(options: EmulatorOptions) -> FoundBrowser:
    """Return the browser that an emulator with these options uses."""
    if not options.browser:
        return FoundBrowser(None, False, "is off (--no-browser)")
    if importlib.util.find_spec("playwright") is None:
        return FoundBrowser(None, False, f"is not there: pip install 'crawl-receiver[browser]', and {_INSTALL}")
    executable = _executable(options.chromium)
    if executable is None:
        where = "in the PATH" if options.chromium is None else f"at {options.chromium}"
        return FoundBrowser(None, False, f"is not there: no Chromium {where}; {_INSTALL}")
    if can_sandbox():
        return FoundBrowser(executable, True, f"{executable}, in its sandbox")
    if options.browser_sandbox:
        text = (
            f"{executable} cannot be used: this system allows its sandbox no user namespaces; if every page is "
            "yours, run it without with --no-browser-sandbox"
        )
        return FoundBrowser(None, False, text)
    return FoundBrowser(executable, False, f"{executable}, without its sandbox")


@cache
def can_sandbox() -> bool:
    """Tell whether this system allows Chromium's sandbox."""
    if sys.platform != "linux":
        return True
    try:
        probe = subprocess.run(  # noqa: S603 - a file of ours
            [*GUARD, "--probe"], capture_output=True, check=False, timeout=_PROBE_SECONDS, text=True
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return probe.stdout == "sandbox"


def _executable(chosen: Path | None) -> Path | None:
    if chosen is not None:
        return chosen if os.access(chosen, os.X_OK) and chosen.is_file() else None
    for name in _NAMES:
        if found := shutil.which(name):
            return Path(found)
    home = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or Path.home() / ".cache/ms-playwright")
    own = [one for pattern in _OF_PLAYWRIGHT for one in sorted(home.glob(pattern), reverse=True)]
    return next((one for one in (*own, *_ELSEWHERE) if os.access(one, os.X_OK)), None)


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
