"""What crawls, batch scrapes and monitors have to do, with every default filled in, whatever the version."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from receiver.emulator.contracts import WebhookTarget
from receiver.emulator.scrapes import ScrapePlan

Json = dict[str, Any]
SitemapUse = Literal["include", "skip", "only"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlPlan:
    """A crawl of a site, from one URL on."""

    url: str
    """Absolute URL with a scheme, otherwise as it was written."""
    version: Literal[1, 2] = 2
    """The version of the API."""
    limit: int = 10_000
    """The most pages."""
    prompt: str | None = None
    """What to crawl, in plain words. The answer to the start then has the options that were made of it."""
    include_paths: tuple[str, ...] = ()
    """Regular expressions, each of which compiles."""
    exclude_paths: tuple[str, ...] = ()
    """Regular expressions, each of which compiles."""
    regex_on_full_url: bool = False
    """Whether the expressions are searched in the whole URL, not in its path."""
    max_discovery_depth: int | None = None
    """How many links away from `url` pages are found; None sets no bound."""
    max_depth: int | None = None
    """The most path segments below those of `url`: version 1 only, where it is 10 unless it is given."""
    sitemap: SitemapUse = "include"
    """`skip` also stands for version 1's ignoreSitemap."""
    ignore_query_parameters: bool = False
    """Whether URLs that differ only in their query are one page."""
    deduplicate_similar_urls: bool = True
    """Whether http and https, `www.`, a slash at the end and index files make no difference."""
    crawl_entire_domain: bool = False
    """Whether pages outside of the path of `url` are followed; version 1's allowBackwardLinks."""
    allow_external_links: bool = False
    """Whether links to other hosts are followed."""
    allow_subdomains: bool = False
    """Whether links to other hosts of the same domain are followed."""
    ignore_robots_txt: bool = False
    """Whether what robots.txt forbids is scraped."""
    robots_user_agent: str | None = None
    """The agent that robots.txt is read for; None stands for the service's own."""
    delay: float | None = None
    """Seconds between two pages. With a delay, `max_concurrency` is 1."""
    max_concurrency: int | None = None
    """The most pages at one time; None sets no bound of its own."""
    zero_data_retention: bool = False
    """Whether nothing of the crawl is kept."""
    webhook: WebhookTarget | None = None
    """Where its events go."""
    scrape: ScrapePlan = field(default_factory=lambda: ScrapePlan(url=""))
    """How each page is scraped, without its URL: `dataclasses.replace(plan.scrape, url=...)`."""
    body: Json = field(default_factory=dict, repr=False)
    """The JSON it was read from, for `/crawl/active`, and to be read again after a restart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    """A scrape of a list of URLs."""

    urls: tuple[str, ...]
    """Absolute URLs, each with a scheme; at least one."""
    version: Literal[1, 2] = 2
    """The version of the API."""
    invalid_urls: tuple[str, ...] | None = None
    """What was left out, for the answer's `invalidURLs`; None when the answer has no such key."""
    append_to_id: str | None = None
    """UUID of the batch that grows by these URLs; the answer is 404 if the team has none with it."""
    max_concurrency: int | None = None
    """The most pages at one time; None sets no bound of its own."""
    zero_data_retention: bool = False
    """Whether nothing of the batch is kept."""
    webhook: WebhookTarget | None = None
    """Where its events go."""
    scrape: ScrapePlan = field(default_factory=lambda: ScrapePlan(url=""))
    """How each page is scraped, without its URL: `dataclasses.replace(plan.scrape, url=...)`."""
    body: Json = field(default_factory=dict, repr=False)
    """The JSON it was read from, to be read again after a restart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PagesTarget:
    """Pages that each check of a monitor scrapes."""

    id: str
    """UUID."""
    urls: tuple[str, ...]
    """Absolute URLs of the pages."""
    scrape: ScrapePlan
    """Without a URL. It has Markdown among its formats, and no cached page answers it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteTarget:
    """A site that each check of a monitor crawls."""

    id: str
    """UUID."""
    crawl: CrawlPlan
    """Its `scrape` has Markdown among its formats, and no cached page answers it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueriesTarget:
    """Searches that each check of a monitor makes."""

    id: str
    """UUID."""
    queries: tuple[str, ...]
    """What is searched for."""
    search_window: str | None = None
    """`5m`, `15m`, `1h`, `6h`, `24h` or `7d`."""
    max_results: int = 10
    """The most hits of each search."""
    include_domains: tuple[str, ...] = ()
    """Only hits of these hosts count; without any, all."""
    exclude_domains: tuple[str, ...] = ()
    """Hits of these hosts do not count."""


PlannedTarget = PagesTarget | SiteTarget | QueriesTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorPlan:
    """A monitor: what it looks at, when, and who hears of it."""

    name: str
    """For people."""
    cron: str
    """Five fields; a schedule in words was translated."""
    timezone: str = "UTC"
    """An IANA name."""
    targets: tuple[PlannedTarget, ...]
    """What each check looks at."""
    webhook: WebhookTarget | None = None
    """Where its events go."""
    goal: str | None = None
    """The changes that matter, in plain words."""
    judge_enabled: bool = False
    """True without being asked for if there is a goal."""
    retention_days: int = 30
    """How long checks are kept."""
    notification: Mapping[str, Any] = field(default_factory=dict)
    """Who else wants to hear of checks. It is kept, and nobody is told."""
    status: Literal["active", "paused"] = "active"
    """Only a change can pause a monitor."""
    body: Json = field(default_factory=dict, repr=False)
    """The fields of its record as the answer shows them: name, schedule with cron and timezone, targets with ids,
    webhook, goal, judgeEnabled, retentionDays, notification, status. `read_monitor_changes` lays changes over it.
    """
