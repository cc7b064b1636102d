"""The request for a web search (version 2; the service's SDK and public behaviour)."""

from typing import Annotated, Literal, Self

from pydantic import Field, StrictBool, StrictInt, model_validator

from receiver.requests.base import Count, Many, Request
from receiver.requests.options import HostNames, ThreatProtection
from receiver.requests.pages import ScrapeOptions

_NOT_OF_A_SEARCH = ("rawBase64", "deterministicJson", "changeTracking", "attributes", "branding", "audio", "video")

_ALONE = ("developer", "gov")
"""Categories with an index of their own, which the service's SDK says cannot be combined with others."""


class SearchRequest(Request):
    """A search of the web. With `scrape_options` the service also scrapes each hit."""

    query: str
    """What to search for."""
    limit: Annotated[StrictInt, Field(ge=1, le=100)] | None = None
    """The most hits of each source, 1 to 100; the service's default is 10."""
    sources: Many[Literal["web", "news", "images"]] | None = None
    """Where to search; the service's default is the web alone."""
    categories: Many[Literal["github", "research", "pdf", "developer", "gov"]] | None = None
    """Kinds of sites or files that hits are narrowed to. `developer` and `gov` stand alone."""
    include_domains: HostNames | None = None
    """Host names whose pages count; all others are left out. Excludes `exclude_domains`."""
    exclude_domains: HostNames | None = None
    """Host names whose pages are left out. Excludes `include_domains`."""
    tbs: str | None = None
    """How recent a hit has to be, in the words of the search engine: `qdr:d` is the past day."""
    location: str | None = None
    """Name of the place that the search comes from, such as `Berlin,Germany`."""
    country: str | None = None
    """Code of the country that the search comes from, ISO 3166-1 alpha-2."""
    timeout: Count | None = None
    """Milliseconds after which the search fails; the service's default is 60,000."""
    ignore_invalid_urls: Annotated[StrictBool | None, Field(alias="ignoreInvalidURLs")] = None
    """Whether hits that the service cannot scrape are left out."""
    threat_protection: ThreatProtection | None = None
    """Checks of URLs, in place of those of the organisation."""
    scrape_options: ScrapeOptions | None = None
    """How each hit is scraped; without it, hits are not scraped."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.include_domains and self.exclude_domains:
            raise ValueError("give one of includeDomains and excludeDomains")
        alone = next((one for one in _ALONE if one in (self.categories or ())), None)
        if alone is not None and len(self.categories or ()) > 1:
            raise ValueError(f"categories: {alone} stands alone")
        if self.scrape_options is not None:
            self.scrape_options.refuse_formats(*_NOT_OF_A_SEARCH, by="a search")
        return self
