"""What can be chosen when an emulator is made, by the command line or by a test."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Literal

SiteSource = Path | Mapping[str, str | bytes]
"""A folder of files, or the content of each page by its absolute URL or its path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatorOptions:
    """Everything has a safe default: given sites and loopback only, no internet, state in memory."""

    sites: Mapping[str, SiteSource] = field(default_factory=dict)
    """Origin such as `https://docs.acme.test` to what is served there, without any network."""
    bundled_site: bool = True
    """Whether the small site of the package is there, too."""
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
    """What an account has at the start."""
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
    """The key of that endpoint."""
    model_name: str = "gpt-4o-mini"
    """The model asked for there."""
    searxng_url: str | None = None
    """Base URL of a SearXNG server that searches the web; None searches scraped pages and given sites alone."""
    max_page_bytes: int = 20 * 1024 * 1024
    """The largest page, after its content coding is removed."""
    max_concurrency: int | None = None
    """The most pages of a team that are scraped at one time; None takes what the plan has, 10 without a plan."""
    browser: bool = True
    """Whether pages are rendered by Chromium where a request needs it, and Chromium is there."""
    chromium: Path | None = None
    """The executable; None looks for it."""
    browser_sandbox: bool = True
    """Whether Chromium is used only where its sandbox works."""
    browser_pages: int = 4
    """The most pages that Chromium has at one time."""
    browser_memory: int = 2 * 1024 * 1024 * 1024
    """Bytes that Chromium may have; a page that takes more is ended."""
    page_delay: timedelta = timedelta(0)
    """Real time that each page of a given site takes at least, also one from the cache."""
    jitter: bool = False
    """Whether monitors start up to some minutes after their minute, as the service does."""
    speed: float = 1.0
    """How many times as fast as real time the emulator's clock runs."""
    seed: int | None = None
    """Makes ids reproducible."""
