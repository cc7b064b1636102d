"""Finds Chromium, and whether it can be used here, without loading what drives it."""

import importlib.util
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from receiver.emulator.browser import guard
from receiver.emulator.options import EmulatorOptions

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
    """The browser that can be used, or the reason why there is none."""

    executable: Path | None
    """None if there is none, or it cannot be used."""
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
    """Return whether this system allows Chromium's sandbox."""
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
