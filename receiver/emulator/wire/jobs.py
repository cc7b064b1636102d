"""Crawls and batch scrapes: from the body to a plan with every default of its version."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import re2
from pydantic import AfterValidator, Field, StrictBool, StrictInt

from receiver.emulator.contracts import WebhookTarget
from receiver.emulator.failures import CallRefused
from receiver.emulator.fetching.scope import CrawlRules
from receiver.emulator.scrapes import ScrapePlan
from receiver.emulator.wire.bodies import DEFAULT_POLICY, RequestPolicy, custom_issue, read_body, refusal
from receiver.emulator.wire.scrape import PageOptionsBody, PageOptionsBodyV1, SenderFields, plan_of
from receiver.emulator.wire.urls import WebhookBody, WebUrl, split_urls, target_of
from receiver.requests.base import Many
from receiver.requests.jobs import BatchFields, CrawlFields, CrawlRequest
from receiver.requests.webhooks import Operation

Json = dict[str, Any]
Version = Literal[1, 2]
Path = Sequence[str | int]
SitemapUse = Literal["include", "skip", "only"]


@dataclass(frozen=True, kw_only=True)
class PagesJobPlan:
    """What the plans of crawls and batch scrapes share."""

    version: Version = 2
    max_concurrency: int | None = None
    """The most pages at one time; None for no limit of its own."""
    zero_data_retention: bool = False
    webhook: WebhookTarget | None = None
    scrape: ScrapePlan = field(default_factory=lambda: ScrapePlan(url=""))
    """How each page is scraped, without its URL: `dataclasses.replace(plan.scrape, url=...)`."""
    body: Json = field(default_factory=dict, repr=False)
    """The JSON it was read from, for `/crawl/active`, and to be read again after a restart."""


@dataclass(frozen=True, kw_only=True)
class CrawlPlan(PagesJobPlan, CrawlRules):
    """A crawl of a site, beginning at one URL. Its expressions compile. With a `delay`, `max_concurrency` is 1."""

    url: str
    """Absolute URL with a scheme, otherwise as it was written."""
    limit: int = 10_000
    prompt: str | None = None
    """What to crawl, in plain words. The answer to the start then has the options that were made of it."""
    max_discovery_depth: int | None = None
    """The most links from `url` to a page; None for no limit."""
    sitemap: SitemapUse = "include"
    """`skip` is also version 1's ignoreSitemap."""
    ignore_robots_txt: bool = False
    robots_user_agent: str | None = None
    """The agent whose rules in robots.txt count; None for the service's own."""
    delay: float | None = None
    """Seconds between two pages."""


@dataclass(frozen=True, kw_only=True)
class BatchPlan(PagesJobPlan):
    """A scrape of a list of URLs."""

    urls: tuple[str, ...]
    """Absolute URLs, each with a scheme; at least one."""
    invalid_urls: tuple[str, ...] | None = None
    """What was left out, for the answer's `invalidURLs`; None when the answer has no such key."""
    append_to_id: str | None = None
    """UUID of the batch that gets these URLs; the answer is 404 if the team does not have it."""


MAX_PATTERN = 2_000
"""Characters of an expression for paths."""
_QUIET = re2.Options()
_QUIET.log_errors = False


def _require_pattern(value: str) -> str:
    """Refuse what RE2 does not support: RE2 takes linear time for any pattern."""
    try:
        re2.compile(value, _QUIET)
    except re2.error as exc:
        why = exc.args[0].decode(errors="replace") if exc.args and isinstance(exc.args[0], bytes) else "unknown"
        raise ValueError(f"Invalid regular expression {value[:100]!r}: {why[:200]}") from None
    return value


PathPattern = Annotated[str, Field(max_length=MAX_PATTERN), AfterValidator(_require_pattern)]
PathPatterns = Annotated[Many[PathPattern], Field(max_length=1_000)]


class CrawlBody(CrawlRequest, SenderFields):
    """The body of POST /v2/crawl."""

    url: WebUrl
    webhook: WebhookBody | None = None
    include_paths: PathPatterns | None = None
    exclude_paths: PathPatterns | None = None
    scrape_options: PageOptionsBody | None = None


class CrawlBodyV1(CrawlFields, SenderFields):
    """The body of POST /v1/crawl."""

    url: WebUrl
    webhook: WebhookBody | None = None
    include_paths: PathPatterns | None = None
    exclude_paths: PathPatterns | None = None
    scrape_options: PageOptionsBodyV1 | None = None
    max_depth: Annotated[StrictInt, Field(ge=0)] = 10
    """The most path segments below those of `url`."""
    ignore_sitemap: StrictBool = False
    allow_backward_links: StrictBool = False
    """Version 1's name of `crawl_entire_domain`."""


class BatchBody(PageOptionsBody, BatchFields):
    """The body of POST /v2/batch/scrape. Its URLs are checked one by one."""

    urls: Annotated[Many[str], Field(min_length=1)]
    webhook: WebhookBody | None = None


class BatchBodyV1(PageOptionsBodyV1, BatchFields):
    """The body of POST /v1/batch/scrape. Its URLs are checked one by one."""

    urls: Annotated[Many[str], Field(min_length=1)]
    webhook: WebhookBody | None = None
    ignore_invalid_urls: Annotated[StrictBool, Field(alias="ignoreInvalidURLs")] = False
    zero_data_retention: StrictBool = False


def read_crawl(body: Json, version: Version, policy: RequestPolicy = DEFAULT_POLICY) -> CrawlPlan:
    """Return the plan of POST /v1/crawl or /v2/crawl. CallRefused is the service's 400, or 403."""
    model: type[CrawlBodyV1 | CrawlBody] = CrawlBodyV1 if version == 1 else CrawlBody
    read = read_body(model, body, policy, version=version)
    return crawl_plan_of(read, body, policy)


def crawl_plan_of(
    read: CrawlBody | CrawlBodyV1, body: Json, policy: RequestPolicy, *, path: Path = (), origin: object = None
) -> CrawlPlan:
    """Return the plan of a crawl that was read from `body`; `path` is its place in a larger body."""
    version: Version = 1 if isinstance(read, CrawlBodyV1) else 2
    unkept = read.zero_data_retention is True
    options: PageOptionsBody | PageOptionsBodyV1 | None = read.scrape_options
    if options is None:
        options = PageOptionsBodyV1() if version == 1 else PageOptionsBody()
    return CrawlPlan(
        url=read.url,
        version=version,
        limit=read.limit,
        include_paths=tuple(read.include_paths or ()),
        exclude_paths=tuple(read.exclude_paths or ()),
        regex_on_full_url=read.regex_on_full_url is True,
        max_discovery_depth=read.max_discovery_depth,
        ignore_query_parameters=read.ignore_query_parameters is True,
        deduplicate_similar_urls=read.deduplicate_similar_urls is not False,
        allow_external_links=read.allow_external_links is True,
        allow_subdomains=read.allow_subdomains is True,
        ignore_robots_txt=read.ignore_robots_txt is True,
        delay=read.delay,
        max_concurrency=1 if read.delay is not None else read.max_concurrency,
        zero_data_retention=unkept,
        webhook=target_of(read.webhook, Operation.CRAWL),
        scrape=plan_of(
            options,
            policy,
            path=(*path, "scrapeOptions"),
            origin=options.origin or read.origin or origin,
            unkept=unkept,
        ),
        body=body,
        **_of_version(read),
    )


def _of_version(read: CrawlBody | CrawlBodyV1) -> Json:
    """Return the fields of a plan that only one version has, or under another name."""
    if isinstance(read, CrawlBodyV1):
        return {
            "max_depth": read.max_depth,
            "sitemap": "skip" if read.ignore_sitemap else "include",
            "crawl_entire_domain": read.crawl_entire_domain is True or read.allow_backward_links,
        }
    return {
        "prompt": read.prompt,
        "sitemap": read.sitemap or "include",
        "crawl_entire_domain": read.crawl_entire_domain is True,
        "robots_user_agent": read.robots_user_agent,
    }


def read_batch(body: Json, version: Version, policy: RequestPolicy = DEFAULT_POLICY) -> BatchPlan:
    """Return the plan of POST /v1/batch/scrape or /v2/batch/scrape. CallRefused is the service's 400, or 403."""
    model: type[BatchBodyV1 | BatchBody] = BatchBodyV1 if version == 1 else BatchBody
    read = read_body(model, body, policy, version=version)
    urls = list(read.urls)
    valid, reasons = split_urls(urls, policy)
    if reasons and not read.ignore_invalid_urls:
        raise refusal([custom_issue(why, "urls", place) for place, why in reasons.items()], version=version)
    if not valid:
        raise CallRefused(400, "No valid URLs provided", code="BAD_REQUEST")
    unkept = read.zero_data_retention is True
    return BatchPlan(
        urls=tuple(valid),
        version=version,
        invalid_urls=tuple(urls[place] for place in reasons) if read.ignore_invalid_urls else None,
        append_to_id=read.append_to_id,
        max_concurrency=read.max_concurrency,
        zero_data_retention=unkept,
        webhook=target_of(read.webhook, Operation.BATCH_SCRAPE),
        scrape=plan_of(read, policy, origin=read.origin, unkept=unkept),
        body=body,
    )
