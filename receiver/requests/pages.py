"""How version 2 scrapes the pages of crawls, batches and monitors.

The fields are those of a monitor target's `scrapeOptions` (interface specification, section Monitor). The service
does not document their defaults, so everything that is set is sent.
"""

from typing import Literal

from pydantic import Field

from receiver.requests.actions import Action
from receiver.requests.base import Count, Milliseconds, NamedOption, Request
from receiver.requests.fields import CommonPageFields, PageFields
from receiver.requests.options import AuditMetadata, Location, Profile, ThreatProtection

Proxy = Literal["basic", "enhanced", "auto"]


class PageRequest(Request, CommonPageFields):
    """How a page is scraped. Times are in milliseconds."""

    actions: tuple[Action, ...] | None = None
    exclude_tags: tuple[str, ...] | None = None
    include_tags: tuple[str, ...] | None = None
    headers: dict[str, str] | None = Field(None, repr=False)
    location: Location | None = None
    max_age: Milliseconds | None = None
    proxy: Proxy | None = None
    threat_protection: ThreatProtection | None = None
    timeout: Count | None = None
    wait_for: Milliseconds | None = None


class ScrapeOptions(PageRequest, PageFields):
    """How each page of a job is scraped. The service decides about options that are not given."""

    audit_metadata: AuditMetadata | None = None
    formats: tuple[NamedOption, ...] | None = None
    min_age: Milliseconds | None = None
    parsers: tuple[NamedOption, ...] | None = None
    profile: Profile | None = None
