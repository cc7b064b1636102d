"""From the bodies of crawls and batch scrapes to plans with every default of their version."""

from collections.abc import Sequence
from typing import Any, Literal

from receiver.requests.webhooks import Operation
from receiver.service.emulator.failures import CallRefused
from receiver.service.emulator.wire.issues import custom_issue, read_body, refusal
from receiver.service.emulator.wire.job_bodies import BatchBody, BatchBodyV1, CrawlBody, CrawlBodyV1
from receiver.service.emulator.wire.plans import BatchPlan, CrawlPlan
from receiver.service.emulator.wire.policy import RequestPolicy
from receiver.service.emulator.wire.scrape import plan_of
from receiver.service.emulator.wire.scrape_bodies import PageOptionsBody, PageOptionsBodyV1
from receiver.service.emulator.wire.urls import split_urls
from receiver.service.emulator.wire.webhooks import target_of

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
