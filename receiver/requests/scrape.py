"""The scrape requests of version 1 (interface specification, section Scrape request) and version 2."""

from typing import Annotated, Literal, Self

from pydantic import Field, StrictBool, StrictInt, model_validator

from receiver.requests.base import Many, Milliseconds, WebAddress
from receiver.requests.options import ChangeTrackingOptions, JsonOptions
from receiver.requests.pages import PageRequest, Proxy, ScrapeOptions, require_markdown

ScrapeFormat = Literal[
    "markdown", "html", "rawHtml", "links", "screenshot", "screenshot@fullPage", "json", "changeTracking"
]


class ScrapeOptionsV1(PageRequest):
    """How version 1 scrapes a page. Times are in milliseconds; the defaults are those of its document."""

    zero_data_retention: StrictBool = False
    """Whether the service keeps nothing of this scrape. The account has to have this feature."""
    change_tracking_options: ChangeTrackingOptions | None = None
    """How the page is compared with its earlier scrape; only with the format `changeTracking`."""
    block_ads: StrictBool = True
    json_options: JsonOptions | None = None
    """What is extracted; only with the format `json`."""
    max_age: Milliseconds = 0
    mobile: StrictBool = False
    only_main_content: StrictBool = True
    parse_pdf: Annotated[StrictBool, Field(alias="parsePDF")] = True
    """Whether a PDF becomes Markdown, for 1 credit a page. Otherwise `markdown` holds it in base64 for 1 credit."""
    proxy: Proxy = "basic"
    remove_base64_images: StrictBool = True
    skip_tls_verification: StrictBool = False
    store_in_cache: StrictBool = True
    """Whether the service keeps the page in its cache. It is always False with `actions` or `headers`."""
    timeout: Annotated[StrictInt, Field(ge=1000)] = 30_000
    wait_for: Annotated[StrictInt, Field(ge=0, le=60_000)] = 0

    @model_validator(mode="after")
    def _keep_out_of_cache(self) -> Self:
        if self.actions or self.headers:
            self.__dict__["store_in_cache"] = False
        return self


class ScrapeRequest(ScrapeOptionsV1):
    """One page to scrape now, by version 1. Times are in milliseconds; the defaults are those of its document."""

    url: WebAddress
    """Absolute URL of the page."""
    formats: Many[ScrapeFormat] = ("markdown",)
    """The forms of the content. `changeTracking` needs `markdown` beside it, `json` needs `json_options`."""

    @property
    def format_names(self) -> tuple[str, ...]:
        """The names of all formats that were asked for."""
        return tuple(self.formats)

    @model_validator(mode="after")
    def _check_formats(self) -> Self:
        tracked = "changeTracking" in self.formats
        if tracked and "markdown" not in self.formats:
            raise ValueError("formats: changeTracking needs markdown beside it")
        if self.change_tracking_options is not None and not tracked:
            raise ValueError("changeTrackingOptions: they apply only with changeTracking in formats")
        if ("json" in self.formats) != (self.json_options is not None):
            raise ValueError("jsonOptions: give them together with json in formats, and only then")
        if {"screenshot", "screenshot@fullPage"} <= set(self.formats):
            raise ValueError("formats: give one of screenshot and screenshot@fullPage")
        return self


class ScrapeRequestV2(ScrapeOptions):
    """One page to scrape now, by version 2. The service decides about options that are not given."""

    url: WebAddress
    """Absolute URL of the page."""
    zero_data_retention: StrictBool | None = None
    """Whether the service keeps nothing of this scrape. The account has to have this feature."""

    _has_markdown = model_validator(mode="after")(require_markdown)
