"""The fields that requests and the service's answers share, each declared once.

A request is the strict face of such a group, an answer the lenient one. A face declares a field again only where
its form differs: a request takes tuples, typed objects and closed sets of words; an answer takes lists, free
objects and any word. Name, wire name and meaning are those given here (interface specification, sections Scrape
request and Monitor; service documentation, monitor create).
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, Field, StrictBool, StrictInt


class ContentFields(BaseModel):
    """What is taken from a page or a file (section Scrape request)."""

    exclude_tags: Sequence[str] | None = None
    """HTML tags that are removed from the output."""
    include_tags: Sequence[str] | None = None
    """HTML tags that the output keeps; all others are removed."""
    only_main_content: StrictBool | None = None
    """Whether headers, navigation, footers and the like are left out of the output."""
    remove_base64_images: StrictBool | None = None
    """Whether base64 images are removed; their alternative text stays."""
    threat_protection: Any = None
    """Checks of URLs, in place of those of the organisation."""
    timeout: StrictInt | None = None
    """Milliseconds after which the scrape of a page fails, at least 1,000."""


class CommonPageFields(ContentFields):
    """How one page is scraped, in both versions of the interface (section Scrape request)."""

    actions: Sequence[Any] | None = None
    """Steps on the page before its content is taken, in order, at most 50 (section Action objects)."""
    block_ads: StrictBool | None = None
    """Whether advertisements and cookie pop-ups are blocked."""
    headers: Mapping[str, Any] | None = None
    """HTTP headers of the page request, such as cookies or a user agent. They may hold secrets."""
    location: Any = None
    """The country and the languages that the page request comes from."""
    max_age: StrictInt | None = None
    """Milliseconds. The service may answer with a cached copy that is younger than this; 0 asks for a fresh one."""
    mobile: StrictBool | None = None
    """Whether the service emulates a mobile device."""
    proxy: str | None = None
    """`basic`, `enhanced` (up to 5 credits a page; older name `stealth`) or `auto` (`basic`, then `enhanced`)."""
    skip_tls_verification: StrictBool | None = None
    """Whether the page's TLS certificate goes unchecked."""
    store_in_cache: StrictBool | None = None
    """Whether the service keeps the page in its cache. It never keeps one that had `actions` or `headers`."""
    wait_for: StrictInt | None = None
    """Milliseconds between loading the page and taking its content: at most 60,000, and half of `timeout`."""


class FileFields(ContentFields):
    """What version 2 takes from a page or an uploaded file (section Monitor, scrapeOptions)."""

    audit_metadata: Any = None
    """Who asked, for the service's audit log."""
    formats: Sequence[Any] | None = None
    """Names such as `markdown`, or objects such as `{"type": "changeTracking", "modes": ["json"]}`."""
    only_clean_content: StrictBool | None = None
    """Whether the main content is cleaned further. The service does not document how."""
    parsers: Sequence[Any] | None = None
    """Parsers for files, such as `pdf`, or objects with their options. With an empty list no file is parsed."""
    redact_pii: Annotated[StrictBool | None, Field(alias="redactPII")] = None
    """Whether personal data is removed from the output."""


class PageFields(CommonPageFields, FileFields):
    """How version 2 scrapes a page (section Monitor, scrapeOptions)."""

    lockdown: StrictBool | None = None
    """Whether only pages in the service's cache are returned, without any request to the site."""
    min_age: StrictInt | None = None
    """Milliseconds. Only a cached copy that is at least this old is returned."""
    profile: Any = None
    """A browser profile that the service keeps from one scrape to the next."""


class ScheduleFields(BaseModel):
    """When the checks of a monitor run."""

    cron: str | None = None
    """A cron expression in numbers: minute, hour, day, month, weekday. Two runs are at least 5 minutes apart."""
    timezone: str | None = None
    """IANA name of the time zone that the expression is read in; UTC unless it is given."""


class EmailFields(BaseModel):
    """Mails about the checks of a monitor."""

    enabled: StrictBool | None = None
    """Whether mails are sent."""
    include_diffs: StrictBool | None = None
    """Whether a mail shows the differences of changed pages."""
    recipients: Sequence[str] | None = None
    """Addresses as NAME@DOMAIN, at most 25. People outside of the team have to agree first."""


class WebhookFields(BaseModel):
    """Where the service sends events, and what it sends with them (section Webhook configuration)."""

    url: str | None = None
    """Address of the endpoint, https except on a private network."""
    headers: Mapping[str, Any] | None = None
    """HTTP headers of every delivery: name to value. They may hold secrets."""
    metadata: Mapping[str, Any] | None = None
    """What comes back as `metadata` in every event. Texts are safe; the hosted service may refuse other values."""
    events: Sequence[str] | None = None
    """The events to send. Without any, every event of the operation is sent."""


class TargetFields(BaseModel):
    """What a target of any kind has."""

    type: str | None = None
    """`scrape`, `crawl` or `search`."""
    id: str | None = None
    """UUID of a target that exists."""


class ScrapedTargetFields(TargetFields):
    """A target whose pages are scraped."""

    scrape_options: Any = None
    """How its pages are scraped."""


class PagesTargetFields(ScrapedTargetFields):
    """Pages that every check scrapes."""

    urls: Sequence[str] | None = None
    """Absolute URLs of the pages."""


class SiteTargetFields(ScrapedTargetFields):
    """A site that every check crawls."""

    url: str | None = None
    """Absolute URL where the crawl begins."""
    crawl_options: Mapping[str, Any] | None = None
    """Options of the crawl under their wire names. The service does not document which it takes here."""


class SearchTargetFields(TargetFields):
    """Searches that every check makes."""

    queries: Sequence[str] | None = None
    """The searches, 1 to 12, each of 1 to 256 characters."""
    search_window: str | None = None
    """How recent a hit has to be: `5m`, `15m`, `1h`, `6h`, `24h` or `7d`."""
    max_results: StrictInt | None = None
    """The most hits of one search, 1 to 50."""
    include_domains: Sequence[str] | None = None
    """Host names whose pages count, at most 50; all others are left out. Excludes `exclude_domains`."""
    exclude_domains: Sequence[str] | None = None
    """Host names whose pages are left out, at most 50. Excludes `include_domains`."""


class MonitorFields(BaseModel):
    """What a monitor is made with."""

    name: str | None = None
    """A name for people, 1 to 256 characters."""
    schedule: Any = None
    """When checks run."""
    targets: Sequence[Any] | None = None
    """What every check looks at, 1 to 50 targets."""
    webhook: Any = None
    """Where the monitor's events go."""
    notification: Any = None
    """Who else hears of checks."""
    goal: str | None = None
    """The changes that matter, in plain words, at most 2,000 characters. A judge compares changes with it."""
    judge_enabled: StrictBool | None = None
    """Whether a language model judges each change by the goal."""
    retention_days: StrictInt | None = None
    """Days that results are kept, 1 to 365; the service takes 30 unless it is given."""
