"""The options of an emulator, from the command line or from a test."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Literal

SiteSource = Path | Mapping[str, str | bytes]
"""A folder of files, or the content of each page by its absolute URL or its path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatorOptions:
    """The defaults are safe: given sites and loopback only, no internet, state in memory."""

    sites: Mapping[str, SiteSource] = field(default_factory=dict)
    """By origin, such as `https://docs.acme.test`: what is served there, without any network."""
    bundled_site: bool = True
    """Whether the small site of the package is served, too."""
    allow_internet: bool = False
    """Whether other hosts than the given sites and loopback are fetched."""
    allow_private: bool = False
    """Whether private networks are fetched, beside loopback."""
    state: Path | None = None
    """The database file; None keeps everything in memory."""
    webhook_secret: str | None = field(default=None, repr=False)
    """Signs webhooks; None sends them without signature."""
    webhooks_to_private: bool = True
    """Whether webhooks go to loopback and private hosts."""
    keys: tuple[str, ...] = field(default=(), repr=False)
    """The API keys that pass; without any, every non-empty key does."""
    open_access: bool = False
    """Whether calls without a key pass."""
    credits: int = 100_000
    """Credits of an account at the start."""
    plan: Literal["free", "hobby", "standard", "growth"] | None = None
    """The preset of rate and concurrency limits; None limits no calls."""
    threat_protection: Literal["off", "on", "mandatory"] = "off"
    """Whether requests may carry threatProtection (off answers 403), and whether they may turn it off."""
    risk_url: str | None = None
    """An endpoint that gives risk scores; None leaves the decision to failurePolicy."""
    diff: Literal["auto", "string", "object"] = "auto"
    """The form of `changeTracking.diff`."""
    model_url: str | None = None
    """Base URL of an OpenAI-compatible endpoint for extraction and judging; None uses rules."""
    model_key: str | None = field(default=None, repr=False)
    model_name: str = "gpt-4o-mini"
    searxng_url: str | None = None
    """Base URL of a SearXNG server that searches the web; None searches only scraped pages and given sites."""
    max_page_bytes: int = 20 * 1024 * 1024
    """The largest page, after its content coding is removed."""
    max_concurrency: int | None = None
    """The most pages of a team that are scraped at one time; None is the number of the plan, 10 without one."""
    browser: bool = True
    """Whether pages are rendered by Chromium where a request needs it, and Chromium is there."""
    chromium: Path | None = None
    """The executable; None looks for it."""
    browser_sandbox: bool = True
    """Whether Chromium is used only where its sandbox works."""
    browser_pages: int = 4
    """The most pages that Chromium has at one time."""
    browser_memory: int = 2 * 1024 * 1024 * 1024
    """Bytes that Chromium may use; a page that takes more is ended."""
    page_delay: timedelta = timedelta(0)
    """Real time that each page of a given site takes at least, even from the cache."""
    jitter: bool = False
    """Whether monitors start up to some minutes after their minute, as the service does."""
    speed: float = 1.0
    """How many times as fast as real time the emulator's clock runs."""
    seed: int | None = None
    """Makes ids reproducible."""
