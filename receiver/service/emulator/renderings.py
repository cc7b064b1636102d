"""What a browser made of a page: its content after its scripts have run, and what was asked for on the way."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from receiver.service.emulator.scrapes import FetchedPage, Json, ScrapePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaFile:
    """A picture or a PDF that a browser made."""

    content_type: str
    """Its media type."""
    data: bytes = field(repr=False)
    """Its bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageActionResults:
    """What the actions of a scrape have returned, each kind in the order of its actions."""

    screenshots: tuple[MediaFile, ...] = ()
    """Pictures."""
    scrapes: tuple[Json, ...] = ()
    """Objects with `url` and `html`."""
    javascript_returns: tuple[Json, ...] = ()
    """Objects with `type` and `value`."""
    pdfs: tuple[MediaFile, ...] = ()
    """PDFs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedPage:
    """A page as a browser shows it."""

    page: FetchedPage
    """Its body is the document as it is at the end; for what is no web page, what the site sent."""
    screenshot: MediaFile | None = None
    """For the format `screenshot`."""
    actions: PageActionResults | None = None
    """None if no actions were asked for."""
    timezone: str | None = None
    """The IANA name of the time zone that the page saw."""
    warnings: tuple[str, ...] = ()
    """What could not be done."""


RenderPage = Callable[[ScrapePlan], Awaitable[RenderedPage]]
"""Renders the plan's page in a browser. It raises ScrapeFailed if that cannot be done."""
StoreMedia = Callable[[MediaFile, bool], Awaitable[str]]
"""Keeps a file for a day and returns its URL; if it may not be kept, a URL that has it inside."""


def needs_browser(plan: ScrapePlan) -> bool:
    """Tell whether a plan asks for something that only a browser can do."""
    return bool(
        plan.actions
        or plan.wait_for
        or plan.mobile
        or plan.languages
        or plan.country != "US"
        or plan.format("screenshot") is not None
    )
