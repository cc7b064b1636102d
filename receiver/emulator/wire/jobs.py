"""From the bodies of crawls and batch scrapes to plans with every default of their version."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import re2
from pydantic import AfterValidator, Field, StrictBool, StrictInt

from receiver.emulator.failures import CallRefused
from receiver.emulator.wire.issues import custom_issue, read_body, refusal
from receiver.emulator.wire.plans import BatchPlan, CrawlPlan
from receiver.emulator.wire.policy import RequestPolicy
from receiver.emulator.wire.scrape import PageOptionsBody, PageOptionsBodyV1, SenderFields, plan_of
from receiver.emulator.wire.urls import WebUrl, split_urls
from receiver.emulator.wire.webhooks import WebhookBody, target_of
from receiver.requests.base import Many
from receiver.requests.jobs import BatchFields, CrawlFields, CrawlRequest
from receiver.requests.webhooks import Operation

# FOLDED: The bodies of crawls and batch scrapes, in both versions: the lenient face of the requests.
MAX_PATTERN = 2_000
"""Characters of an expression for paths."""
_QUIET = re2.Options()
_QUIET.log_errors = False


def _require_pattern(value: str) -> str:
    """Refuse what RE2 does not know: it takes linear time, whatever the pattern."""
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
    """How each page is scraped."""
    max_depth: Annotated[StrictInt, Field(ge=0)] = 10
    """The most path segments below those of `url`."""
    ignore_sitemap: StrictBool = False
    """Whether the sitemap is left out."""
    allow_backward_links: StrictBool = False
    """The older name of `crawl_entire_domain`."""


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


Json = dict[str, Any]
Version = Literal[1, 2]
Path = Sequence[str | int]

_DEFAULT_POLICY = RequestPolicy()


def read_crawl(body: Json, version: Version, policy: RequestPolicy = _DEFAULT_POLICY) -> CrawlPlan:
    """Return the plan of POST /v1/crawl or /v2/crawl. CallRefused is the service's 400, or 403."""
    model: type[CrawlBodyV1 | CrawlBody] = CrawlBodyV1 if version == 1 else CrawlBody
    read = read_body(model, body, policy, version=version)
    return crawl_plan_of(read, body, policy)


def crawl_plan_of(
    read: CrawlBody | CrawlBodyV1, body: Json, policy: RequestPolicy, *, path: Path = (), origin: object = None
) -> CrawlPlan:
    """Return the plan of a crawl that was read from `body`; `path` is where it stands in a larger one."""
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
    """Return the fields of a plan that only one version has, or whose name differs."""
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


def read_batch(body: Json, version: Version, policy: RequestPolicy = _DEFAULT_POLICY) -> BatchPlan:
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
