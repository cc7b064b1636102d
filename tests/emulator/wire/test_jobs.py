"""Bodies of crawls and batch scrapes: every field, default, limit and allowed value of both versions."""

from dataclasses import replace
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.emulator.contracts import WebhookTarget
from receiver.emulator.failures import CallRefused
from receiver.emulator.scrapes import ScrapePlan
from receiver.emulator.wire.bodies import RequestPolicy
from receiver.emulator.wire.jobs import BatchPlan, CrawlPlan, read_batch, read_crawl
from receiver.emulator.wire.scrape import read_scrape
from tests.cases import for_each
from tests.emulator.wire.cases import RIGHT_PAGE_OPTIONS, URL, WRONG_PAGE_OPTIONS, WRONG_TYPES, paths_of, refused

GUARDED = RequestPolicy(threat_protection="on")
Version = Literal[1, 2]
BOTH = pytest.mark.parametrize("version", [1, 2])


def crawl(version: Version = 2, **body: Any) -> CrawlPlan:
    return read_crawl({"url": URL, **body}, version, GUARDED)


def batch(version: Version = 2, **body: Any) -> BatchPlan:
    return read_batch({"urls": [URL], **body}, version, GUARDED)


def defaults(version: Version) -> ScrapePlan:
    return replace(read_scrape({"url": URL}, version), url="")


@BOTH
def test_a_crawl_has_its_defaults(version: Version) -> None:
    """Version 1 has a depth of 10 besides."""
    assert crawl(version) == CrawlPlan(
        url=URL,
        version=version,
        limit=10_000,
        max_depth=10 if version == 1 else None,
        sitemap="include",
        deduplicate_similar_urls=True,
        scrape=defaults(version),
        body={"url": URL},
    )


def test_version_2_reads_every_field_of_a_crawl() -> None:
    """Each under its wire name."""
    body = {
        "url": "example.com",
        "limit": 5,
        "prompt": "only the blog",
        "includePaths": ["^/blog/.*"],
        "excludePaths": ["/private"],
        "maxDiscoveryDepth": 0,
        "sitemap": "only",
        "ignoreQueryParameters": True,
        "deduplicateSimilarURLs": False,
        "crawlEntireDomain": True,
        "allowExternalLinks": True,
        "allowSubdomains": True,
        "ignoreRobotsTxt": True,
        "robotsUserAgent": "me",
        "delay": 0.5,
        "maxConcurrency": 7,
        "regexOnFullURL": True,
        "zeroDataRetention": True,
        "webhook": "http://127.0.0.1:8000/webhooks",
        "scrapeOptions": {"formats": ["html"], "maxAge": 0},
        "origin": "python-sdk@4.53.2",
        "integration": "x",
    }

    assert read_crawl(body, 2) == CrawlPlan(
        url="http://example.com",
        limit=5,
        prompt="only the blog",
        include_paths=("^/blog/.*",),
        exclude_paths=("/private",),
        max_discovery_depth=0,
        sitemap="only",
        ignore_query_parameters=True,
        deduplicate_similar_urls=False,
        crawl_entire_domain=True,
        allow_external_links=True,
        allow_subdomains=True,
        ignore_robots_txt=True,
        robots_user_agent="me",
        delay=0.5,
        max_concurrency=1,
        regex_on_full_url=True,
        zero_data_retention=True,
        webhook=WebhookTarget("http://127.0.0.1:8000/webhooks"),
        scrape=replace(defaults(2), formats=({"type": "html"},), max_age=0, zero_data_retention=True),
        body=body,
    )


def test_version_1_reads_its_own_fields_of_a_crawl() -> None:
    """Older names mean the same."""
    plan = crawl(1, maxDepth=3, ignoreSitemap=True, allowBackwardLinks=True, scrapeOptions={"formats": ["links"]})

    assert (plan.max_depth, plan.sitemap, plan.crawl_entire_domain) == (3, "skip", True)
    assert plan.scrape.formats == ({"type": "links"},)
    assert plan.scrape.max_age == 0


@BOTH
def test_diffs_have_the_form_that_the_origin_of_the_job_needs(version: Version) -> None:
    """SDKs give their name beside the scrape options, not inside."""
    options = {"formats": ["markdown", "changeTracking"]}

    assert not crawl(version, origin="python-sdk@4", scrapeOptions=options).scrape.diff_as_text
    assert crawl(version, scrapeOptions=options).scrape.diff_as_text is (version == 1)


@BOTH
@for_each(
    ("wrong", "path"),
    [
        ({"url": "nowhere"}, "url"),
        ({"limit": 0}, "limit"),
        ({"limit": -5}, "limit"),
        ({"limit": 1.5}, "limit"),
        ({"limit": "10"}, "limit"),
        ({"limit": 1e300}, "limit"),
        ({"includePaths": "blog"}, "includePaths"),
        ({"includePaths": ["["]}, "includePaths.0"),
        ({"includePaths": ["ok", "*"]}, "includePaths.1"),
        ({"excludePaths": ["(?=a)"]}, "excludePaths.0"),
        ({"excludePaths": ["(a)\\1"]}, "excludePaths.0"),
        ({"excludePaths": ["a{1000}{1000}{1000}"]}, "excludePaths.0"),
        ({"excludePaths": ["a" * 2001]}, "excludePaths.0"),
        ({"excludePaths": ["a"] * 1001}, "excludePaths"),
        ({"maxDiscoveryDepth": -1}, "maxDiscoveryDepth"),
        ({"delay": 0}, "delay"),
        ({"delay": 60.5}, "delay"),
        ({"delay": "1"}, "delay"),
        ({"maxConcurrency": 0}, "maxConcurrency"),
        ({"allowExternalLinks": "yes"}, "allowExternalLinks"),
        ({"allowSubdomains": 1}, "allowSubdomains"),
        ({"crawlEntireDomain": []}, "crawlEntireDomain"),
        ({"ignoreQueryParameters": "no"}, "ignoreQueryParameters"),
        ({"deduplicateSimilarURLs": 0}, "deduplicateSimilarURLs"),
        ({"ignoreRobotsTxt": "x"}, "ignoreRobotsTxt"),
        ({"regexOnFullURL": "x"}, "regexOnFullURL"),
        ({"zeroDataRetention": "x"}, "zeroDataRetention"),
        ({"webhook": 5}, "webhook"),
        ({"webhook": {}}, "webhook.url"),
        ({"webhook": "ftp://a.test"}, "webhook"),
        ({"webhook": {"url": "ftp://a.test"}}, "webhook.url"),
        ({"webhook": {"url": "https://a.test", "secret": "x"}}, "webhook"),
        ({"webhook": {"url": "https://a.test", "headers": {"A": 1}}}, "webhook.headers.A"),
        ({"webhook": {"url": "https://a.test", "headers": {"x-FireCrawl-signature": "1"}}}, "webhook.headers"),
        ({"webhook": {"url": "https://a.test", "metadata": ["a"]}}, "webhook.metadata"),
        ({"webhook": {"url": "https://a.test", "events": ["monitor.page"]}}, "webhook.events.0"),
        ({"webhook": {"url": "https://a.test", "events": ["page", "paused"]}}, "webhook.events.1"),
        ({"webhook": {"url": "https://a.test", "events": "page"}}, "webhook.events"),
        ({"webhook": "https://user:secret@a.test"}, "webhook"),
        ({"scrapeOptions": []}, "scrapeOptions"),
        ({"scrapeOptions": {"url": URL}}, "scrapeOptions"),
        ({"nonsense": True}, ""),
    ],
)
def test_a_wrong_crawl_is_refused_by_its_path(version: Version, wrong: dict[str, Any], path: str) -> None:
    """A bad expression is named."""
    assert path in paths_of(refused(lambda: crawl(version, **wrong)))


def test_a_bad_expression_is_named() -> None:
    """An engine of linear time reads it, so look-ahead and back references are refused."""
    assert "'/blog/['" in refused(lambda: crawl(includePaths=["/blog/["])).error


@BOTH
@for_each(("wrong", "path"), WRONG_PAGE_OPTIONS)
def test_wrong_options_of_pages_are_refused_inside_of_a_crawl(
    version: Version, wrong: dict[str, Any], path: str
) -> None:
    """The path leads through scrapeOptions."""
    assert f"scrapeOptions.{path}".rstrip(".") in paths_of(refused(lambda: crawl(version, scrapeOptions=wrong)))


@BOTH
@for_each("right", RIGHT_PAGE_OPTIONS)
def test_right_options_of_pages_pass_in_jobs(version: Version, right: dict[str, Any]) -> None:
    """In the scrape options of a crawl, and beside the URLs of a batch."""
    assert crawl(version, scrapeOptions=right).url == URL
    assert batch(version, **right).urls == (URL,)


@for_each(
    ("version", "wrong"),
    [
        (1, {"sitemap": "skip"}),
        (1, {"prompt": "x"}),
        (1, {"maxDepth": -1}),
        (1, {"ignoreSitemap": "x"}),
        (2, {"maxDepth": 3}),
        (2, {"ignoreSitemap": True}),
        (2, {"allowBackwardLinks": True}),
        (2, {"sitemap": "maybe"}),
        (2, {"prompt": "p" * 10_001}),
        (2, {"scrapeOptions": {"formats": ["changeTracking"]}}),
    ],
)
def test_each_version_refuses_what_only_the_other_has(version: Version, wrong: dict[str, Any]) -> None:
    """And what is wrong in its own."""
    refused(lambda: crawl(version, **wrong))


@for_each("name", ["started", "page", "completed", "failed", "crawl.page"])
def test_events_have_short_or_full_names(name: str) -> None:
    """They are kept as they were given: the sender compares both."""
    plan = crawl(
        webhook={"url": "https://a.test/x", "events": [name], "metadata": {"a": [1, None]}, "headers": {"X": "y"}}
    )

    assert plan.webhook == WebhookTarget("https://a.test/x", {"X": "y"}, {"a": [1, None]}, (name,))


@BOTH
def test_a_batch_has_its_defaults(version: Version) -> None:
    """Version 2 leaves invalid URLs out, and says which."""
    assert batch(version) == BatchPlan(
        urls=(URL,),
        version=version,
        invalid_urls=() if version == 2 else None,
        scrape=defaults(version),
        body={"urls": [URL]},
    )


def test_invalid_urls_are_listed_or_refused() -> None:
    """The order of the others stays, and duplicates count."""
    urls = ["a.test", "nowhere", "https://b.test", "ftp://c.test", "a.test"]

    plan = read_batch({"urls": urls}, 2)
    assert plan.urls == ("http://a.test", "https://b.test", "http://a.test")
    assert plan.invalid_urls == ("nowhere", "ftp://c.test")
    assert read_batch({"urls": urls, "ignoreInvalidURLs": True}, 1).invalid_urls == plan.invalid_urls
    for body, version in (({"ignoreInvalidURLs": False}, 2), ({}, 1)):
        error = refused(lambda body=body, version=version: read_batch({"urls": urls, **body}, version))
        assert paths_of(error) == ["urls.1", "urls.3"]
    assert refused(lambda: read_batch({"urls": ["nowhere"]}, 2)).error == "No valid URLs provided"


@BOTH
@for_each(
    ("wrong", "path"),
    [
        ({"urls": []}, "urls"),
        ({"urls": URL}, "urls"),
        ({"urls": [5]}, "urls.0"),
        ({"urls": {"a": URL}}, "urls"),
        ({"appendToId": "1"}, "appendToId"),
        ({"maxConcurrency": 0}, "maxConcurrency"),
        ({"ignoreInvalidURLs": "yes"}, "ignoreInvalidURLs"),
        ({"webhook": {"url": "https://a.test", "events": ["crawl.page"]}}, "webhook.events.0"),
        ({"scrapeOptions": {}}, ""),
        ({"url": URL}, ""),
    ],
)
def test_a_wrong_batch_is_refused_by_its_path(version: Version, wrong: dict[str, Any], path: str) -> None:
    """The options of its pages stand beside the URLs."""
    assert path in paths_of(refused(lambda: batch(version, **wrong)))


@BOTH
@for_each(("wrong", "path"), WRONG_PAGE_OPTIONS)
def test_wrong_options_of_pages_are_refused_in_a_batch(version: Version, wrong: dict[str, Any], path: str) -> None:
    """They have the same rules as those of a scrape."""
    assert path in paths_of(refused(lambda: batch(version, **wrong)))


def test_a_batch_reads_its_fields() -> None:
    """Beside the options of its pages."""
    known = "019f2c10-0000-7000-8000-000000000001"
    plan = batch(
        appendToId=known, maxConcurrency=3, zeroDataRetention=True, webhook="https://a.test", formats=["links"]
    )

    assert (plan.append_to_id, plan.max_concurrency, plan.zero_data_retention) == (known, 3, True)
    assert plan.webhook == WebhookTarget("https://a.test")
    assert plan.scrape.formats == ({"type": "links"},)
    assert plan.scrape.zero_data_retention


FIELDS = [
    "url",
    "urls",
    "limit",
    "webhook",
    "scrapeOptions",
    "includePaths",
    "delay",
    "sitemap",
    "prompt",
    "formats",
]


@BOTH
@for_each("field", FIELDS)
@for_each("value", WRONG_TYPES)
def test_every_field_takes_every_type_without_a_crash(version: Version, field: str, value: Any) -> None:
    """A wrong type is an issue, never a fault of ours."""
    for read in (crawl, batch):
        try:
            read(version, **{field: value})
        except CallRefused as exc:
            assert exc.status == 400  # noqa: PT017 - one of two right ends


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9) | st.sampled_from(["page", "only", URL, "["]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*FIELDS, "events"]), inner),
    max_leaves=10,
)


@given(body=st.dictionaries(st.sampled_from(FIELDS), JSON), version=st.sampled_from([1, 2]))
def test_any_body_is_a_plan_or_the_services_400(body: dict[str, Any], version: Version) -> None:
    """Nothing else can come out of the readers."""
    for read in (read_crawl, read_batch):
        try:
            read(body, version, GUARDED)
        except CallRefused as exc:
            assert (exc.status, exc.code) == (400, "BAD_REQUEST")  # noqa: PT017 - one of two right ends
