"""One scrape: its plan, the page as it was fetched or rendered, and the result."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrapePlan:
    """What a scrape has to do, with every default filled in. It is the same for both versions of the API."""

    url: str
    """Absolute URL as it was requested, with a scheme."""
    version: Literal[1, 2] = 2
    """Decides about names in the answer, not about the work."""
    formats: tuple[Json, ...] = ({"type": "markdown"},)
    """Objects with wire names and their `type`. Version 1's jsonOptions and changeTrackingOptions are inside."""
    only_main_content: bool = True
    """Whether headers, navigation, footers and the like are left out."""
    only_clean_content: bool = False
    """Treated as `only_main_content`, with a warning: the service asks a model here."""
    nearest: int = 2
    """The NetworkZone in which the page may be, within what the options allow; 2 is this machine."""
    include_tags: tuple[str, ...] = ()
    """CSS selectors of what is kept; without any, everything."""
    exclude_tags: tuple[str, ...] = ()
    """CSS selectors of what is removed."""
    remove_base64_images: bool = True
    """Whether images inside of the page become their alternative text."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """HTTP headers of the page request, in place of ours."""
    mobile: bool = False
    """Whether the page is requested as by a phone."""
    block_ads: bool = True
    """Nothing here loads advertisements."""
    skip_tls_verification: bool = False
    """Whether the page's certificate goes unchecked."""
    country: str = "US"
    """ISO 3166-1 alpha-2."""
    languages: tuple[str, ...] = ()
    """In order of preference; without any, those of the country."""
    proxy: str = "auto"
    """`basic`, `stealth`, `enhanced` or `auto`: it decides about the cost alone."""
    wait_for: int = 0
    """Milliseconds."""
    timeout: int = 30_000
    """Milliseconds of real time."""
    actions: tuple[Json, ...] = ()
    """Steps in a browser, with wire names."""
    max_age: int = 0
    """Milliseconds on the emulator's clock; 0 turns the cache off."""
    min_age: int | None = None
    """Milliseconds on the emulator's clock."""
    store_in_cache: bool = True
    """Whether later scrapes may be answered with this page."""
    lockdown: bool = False
    """Whether only cached pages are answered."""
    parsers: tuple[Json, ...] = ({"type": "pdf"},)
    """Objects with their `type`; without `pdf`, a PDF is not read."""
    zero_data_retention: bool = False
    """Whether nothing of the scrape is kept."""
    redact_pii: bool = False
    """Whether personal data are removed from texts."""
    threat_protection: Json | None = None
    """The policy of the request, with wire names."""
    diff_as_text: bool = False
    """Whether `changeTracking.diff` is a text, as version 1 documents it, instead of an object."""
    without_effect: tuple[str, ...] = ()
    """Wire names of options that the caller set and that change nothing here; the answer's warning names them."""

    is_indexed: bool = False
    """Whether the reader of the page also makes what a search index needs."""

    def format(self, name: str) -> Json | None:
        """Return the options of a format; None if the plan does not have it."""
        return next((one for one in self.formats if one["type"] == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedPage:
    """What a site answered."""

    source_url: str
    """The URL as it was requested."""
    url: str
    """The URL after redirects."""
    status: int
    content_type: str
    """The Content-Type header as it was sent; empty without one."""
    body: bytes
    """The body without its content coding, within the size limit."""
    fetched_at: datetime
    """On the emulator's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrapedPage:
    """What a scrape returned. A page that answered 404 or 500 is also scraped."""

    scrape_id: str
    """UUID of version 7."""
    source_url: str
    """The URL as it was requested."""
    url: str
    """The URL after redirects."""
    status: int
    document: Json
    """The `data` object of the answer, with the wire names of the plan's version."""
    links: tuple[str, ...]
    """The absolute links of the cleaned page, with any formats: a crawl follows them."""
    credits: int
    warning: str | None = None
    """For the answer beside `data`."""


class Scraper(Protocol):
    """Scrapes pages, for jobs, monitors and the scrape operation."""

    async def scrape(self, plan: ScrapePlan, *, history_team: str = "") -> ScrapedPage:
        """Return the page within the plan's time-out. A bad page raises ScrapeFailed and nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaFile:
    """A picture or a PDF that a browser made."""

    content_type: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageActionResults:
    """What the actions of a scrape have returned, each kind in the order of its actions."""

    screenshots: tuple[MediaFile, ...] = ()
    scrapes: tuple[Json, ...] = ()
    """Objects with `url` and `html`."""
    javascript_returns: tuple[Json, ...] = ()
    """Objects with `type` and `value`."""
    pdfs: tuple[MediaFile, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedPage:
    """A page as a browser shows it."""

    page: FetchedPage
    """Its body is the final document; for anything but a web page, what the site sent."""
    screenshot: MediaFile | None = None
    """For the format `screenshot`."""
    actions: PageActionResults | None = None
    """None for a plan without actions."""
    timezone: str | None = None
    """The IANA name of the time zone that the page saw."""
    warnings: tuple[str, ...] = ()
    """What could not be done."""


RenderPage = Callable[[ScrapePlan], Awaitable[RenderedPage]]
"""Renders the plan's page in a browser. It raises ScrapeFailed if that cannot be done."""
StoreMedia = Callable[[MediaFile, bool], Awaitable[str]]
"""Keeps a file for a day and returns its URL; if it may not be kept, a URL that contains it."""


def needs_browser(plan: ScrapePlan) -> bool:
    """Return whether a plan asks for something that only a browser can do."""
    return bool(
        plan.actions
        or plan.wait_for
        or plan.mobile
        or plan.languages
        or plan.country != "US"
        or plan.format("screenshot") is not None
    )
