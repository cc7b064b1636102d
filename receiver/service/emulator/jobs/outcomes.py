"""What became of one page of a job."""

from dataclasses import dataclass

from receiver.service.emulator.scrapes import ScrapedPage


@dataclass(frozen=True, slots=True)
class PageScraped:
    """The page is a result of the job."""

    page: ScrapedPage
    """What the scrape gave."""
    final_key: str | None = None
    """The key of the page that it led to, if that is another one. If the job has it already, it is no result."""
    origin: str | None = None
    """The new origin of the crawl, if the page where it began led to another host."""


@dataclass(frozen=True, slots=True)
class PageFailed:
    """The page is an error of the job."""

    code: str
    """The service's code; empty if it gives none."""
    text: str
    """Why, for people."""
    by_robots: bool = False
    """Whether robots.txt forbids it."""
    credits: int = 0
    """What it costs nevertheless."""


PageOutcome = PageScraped | PageFailed

CANCELLED = PageFailed("", "Parent crawl/batch scrape was cancelled")
"""The error of every page that still waited when its job was cancelled."""
OUT_OF_CREDITS = PageFailed("", "Insufficient credits: the account could not pay for this page")
"""The error of every page that a job could not pay for."""


class CreditsUsedUp(Exception):
    """The account cannot pay for a page. Nothing of it was noted."""
