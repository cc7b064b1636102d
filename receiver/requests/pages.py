"""How version 2 scrapes the pages of crawls, batches and monitors.

The fields are those of a monitor target's `scrapeOptions` (interface specification, section Monitor); their
defaults are not documented, so everything that is set is sent.
"""

from pydantic import Field, StrictBool

from receiver.requests.actions import Action
from receiver.requests.base import Count, Milliseconds, NamedOption, Request
from receiver.requests.options import AuditMetadata, Location, Profile, ThreatProtection
from receiver.requests.scrape import Proxy


class ScrapeOptions(Request):
    """What is done with each page. Times are in milliseconds; what is left out is as the service has it."""

    actions: tuple[Action, ...] | None = None
    audit_metadata: AuditMetadata | None = None
    block_ads: StrictBool | None = None
    exclude_tags: tuple[str, ...] | None = None
    include_tags: tuple[str, ...] | None = None
    formats: tuple[NamedOption, ...] | None = None
    """Names such as `markdown`, or objects such as `{"type": "changeTracking", "modes": ["json"]}`."""
    headers: dict[str, str] | None = Field(None, repr=False)
    location: Location | None = None
    lockdown: StrictBool | None = None
    max_age: Milliseconds | None = None
    min_age: Milliseconds | None = None
    mobile: StrictBool | None = None
    only_clean_content: StrictBool | None = None
    only_main_content: StrictBool | None = None
    parsers: tuple[NamedOption, ...] | None = None
    """`pdf`, or objects; an empty list parses nothing."""
    profile: Profile | None = None
    proxy: Proxy | None = None
    redact_pii: StrictBool | None = Field(None, alias="redactPII")
    remove_base64_images: StrictBool | None = None
    skip_tls_verification: StrictBool | None = None
    store_in_cache: StrictBool | None = None
    threat_protection: ThreatProtection | None = None
    timeout: Count | None = None
    wait_for: Milliseconds | None = None
