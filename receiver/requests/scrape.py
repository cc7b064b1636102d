"""The scrape request of version 1 (interface specification, section Scrape request)."""

from typing import Any, Literal, Self

from pydantic import Field, StrictBool, model_validator

from receiver.requests.actions import Action
from receiver.requests.base import Count, Milliseconds, Request, WebAddress
from receiver.requests.options import ChangeTrackingOptions, JsonOptions, Location, ThreatProtection

ScrapeFormat = Literal[
    "markdown", "html", "rawHtml", "links", "screenshot", "screenshot@fullPage", "json", "changeTracking"
]
Proxy = Literal["basic", "enhanced", "auto"]


class ScrapeRequest(Request):
    """One page to scrape now. Times are in milliseconds."""

    url: WebAddress
    zero_data_retention: StrictBool = False
    formats: tuple[ScrapeFormat, ...] = ("markdown",)
    change_tracking_options: ChangeTrackingOptions | None = None
    actions: tuple[Action, ...] | None = None
    block_ads: StrictBool = True
    exclude_tags: tuple[str, ...] | None = None
    include_tags: tuple[str, ...] | None = None
    headers: dict[str, str] | None = Field(None, repr=False)
    json_options: JsonOptions | None = None
    location: Location | None = None
    max_age: Milliseconds = 0
    """A cached copy younger than this will do; 0 is always a fresh one."""
    mobile: StrictBool = False
    only_main_content: StrictBool = True
    parse_pdf: StrictBool = Field(True, alias="parsePDF")
    """Costs 1 credit per page; without it a PDF comes base64-encoded in `markdown`, for 1 credit."""
    proxy: Proxy = "basic"
    remove_base64_images: StrictBool = True
    skip_tls_verification: StrictBool = False
    store_in_cache: StrictBool = True
    """Always False with `actions` or `headers`: the service then keeps no copy, whatever was asked."""
    threat_protection: ThreatProtection | None = None
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
        """Return the JSON object to send; `storeInCache` is left out where it has no say."""
        body = super().wire()
        if self._sensitive:
            body.pop("storeInCache")
        return body

    @property
    def _sensitive(self) -> bool:
        return bool(self.actions or self.headers)
