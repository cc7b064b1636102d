"""The scrape request of version 1 (interface specification, section Scrape request)."""

from typing import Any, Literal, Self

from pydantic import Field, StrictBool, model_validator

from receiver.requests.base import Count, Milliseconds, WebAddress
from receiver.requests.options import ChangeTrackingOptions, JsonOptions
from receiver.requests.pages import PageRequest, Proxy

ScrapeFormat = Literal[
    "markdown", "html", "rawHtml", "links", "screenshot", "screenshot@fullPage", "json", "changeTracking"
]


class ScrapeRequest(PageRequest):
    """One page to scrape now. Times are in milliseconds; the defaults are those of the service."""

    url: WebAddress
    """Absolute URL of the page."""
    zero_data_retention: StrictBool = False
    """Whether the service keeps nothing of this scrape. The account has to have this feature."""
    formats: tuple[ScrapeFormat, ...] = ("markdown",)
    """The forms of the content to return. `changeTracking` needs `markdown` beside it."""
    change_tracking_options: ChangeTrackingOptions | None = None
    """How the page is compared with its earlier scrape; only with the format `changeTracking`."""
    block_ads: StrictBool = True
    json_options: JsonOptions | None = None
    """What is extracted for the format `json`."""
    max_age: Milliseconds = 0
    mobile: StrictBool = False
    only_main_content: StrictBool = True
    parse_pdf: StrictBool = Field(True, alias="parsePDF")
    """Whether a PDF becomes Markdown, for 1 credit a page. Otherwise `markdown` holds it in base64 for 1 credit."""
    proxy: Proxy = "basic"
    remove_base64_images: StrictBool = True
    skip_tls_verification: StrictBool = False
    store_in_cache: StrictBool = True
    """Whether the service keeps the page in its cache. It is always False with `actions` or `headers`."""
    timeout: Count = 30_000
    wait_for: Milliseconds = 0

    @model_validator(mode="after")
    def _check_change_tracking(self) -> Self:
        tracked = "changeTracking" in self.formats
        if tracked and "markdown" not in self.formats:
            raise ValueError("formats: changeTracking needs markdown beside it")
        if self.change_tracking_options is not None and not tracked:
            raise ValueError("changeTrackingOptions: they apply only with changeTracking in formats")
        return self

    @model_validator(mode="after")
    def _keep_out_of_cache(self) -> Self:
        if self._sensitive:
            self.__dict__["store_in_cache"] = False
        return self

    def wire(self) -> dict[str, Any]:
        """Return the JSON object to send, without `storeInCache` where it has no effect."""
        body = super().wire()
        if self._sensitive:
            body.pop("storeInCache")
        return body

    @property
    def _sensitive(self) -> bool:
        return bool(self.actions or self.headers)
