"""The request for a list of a site's URLs (the service's SDK and public behaviour)."""

from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictInt

from receiver.requests.base import Count, HttpHeaders, Request, WebAddress
from receiver.requests.options import AuditMetadata, Location, ThreatProtection


class MapFields(Request):
    """What a map has in both versions: the site, which of its URLs count, and how it is reached."""

    url: WebAddress
    """Absolute URL of the site, or of the part of it that counts."""
    search: str | None = None
    """Words; URLs that resemble them come first. None is left out."""
    include_subdomains: StrictBool | None = None
    """Whether URLs of subdomains count; the service's default is True."""
    ignore_query_parameters: StrictBool | None = None
    """Whether URLs that differ only in their query are one; the service's default is True."""
    filter_by_path: StrictBool | None = None
    """Whether only URLs below the path of `url` count; the service's default is True."""
    limit: Annotated[StrictInt, Field(ge=1, le=100_000)] | None = None
    """The most URLs, 1 to 100,000; the service's default is 5,000."""
    timeout: Count | None = None
    """Milliseconds after which the map fails."""
    ignore_cache: StrictBool | None = None
    """Whether the service reads the sitemap anew, not from its cache."""
    location: Location | None = None
    """The country and the languages that requests come from."""
    headers: HttpHeaders | None = Field(default=None, repr=False)
    """HTTP headers of the requests to the site. They may hold secrets."""
    threat_protection: ThreatProtection | None = None
    """Checks of URLs, in place of those of the organisation."""
    audit_metadata: AuditMetadata | None = None
    """Who asked, for the service's audit log."""


class MapRequest(MapFields):
    """The URLs of a site, without their content."""

    sitemap: Literal["skip", "include", "only"] | None = None
    """Whether the site's sitemap is left out, used beside other sources (the service's default), or used alone."""
