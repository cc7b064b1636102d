"""Requests that the service would refuse are refused here. The error names field and rule, and no value."""

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from receiver.requests import (
    AgentRequest,
    AuditMetadata,
    BatchScrapeRequest,
    ChangeTrackingOptions,
    ClickAction,
    CrawlRequest,
    CrawlTarget,
    EmailNotification,
    ExtractRequest,
    JsonOptions,
    Location,
    MapRequest,
    MonitorChanges,
    MonitorRequest,
    ParseRequest,
    PdfAction,
    Profile,
    Request,
    ScrapeOptions,
    ScrapeRequest,
    ScrapeRequestV2,
    ScrapeTarget,
    ScreenshotAction,
    ScrollAction,
    SearchRequest,
    SearchTarget,
    ThreatProtection,
    WaitAction,
    WebhookConfig,
    WriteAction,
)
from tests.cases import for_each

PAGE = "https://example.com/page"
HOURLY: dict[str, Any] = {"cron": "0 * * * *"}
TARGET: dict[str, Any] = {"type": "scrape", "urls": [PAGE]}
SEARCH: dict[str, Any] = {"type": "search", "queries": ["a"]}
MONITOR: dict[str, Any] = {"name": "m", "schedule": HOURLY, "targets": [TARGET]}
SCRAPE: dict[str, Any] = {"url": PAGE}
FILE: dict[str, Any] = {"file": b"%PDF", "filename": "a.pdf"}


def refusal(model: type[Request], /, **values: Any) -> str:
    """Return the text of the error."""
    with pytest.raises(ValidationError) as caught:
        model.model_validate(values)
    return str(caught.value)


BROKEN: list[tuple[type[Request], dict[str, Any], str, str]] = [
    # addresses
    (ScrapeRequest, {}, "url", "Field required"),
    (ScrapeRequest, {"url": "example.com"}, "url", "write a whole address, with https://"),
    (ScrapeRequest, {"url": "ftp://example.com"}, "url", "write a whole address, with https://"),
    (ScrapeRequest, {"url": "https://"}, "url", "write a whole address, with https://"),
    (ScrapeRequest, {"url": "https://[::1"}, "url", "write a whole address, with https://"),
    (ScrapeRequest, {"url": "https://a.example/b c"}, "url", "no spaces or control characters"),
    (ScrapeRequest, {"url": "https://a.example/\n"}, "url", "no spaces or control characters"),
    (ScrapeRequest, {"url": f"https://www.{'a' * 64}.example"}, "url", "1 to 63 characters between two dots"),
    (ScrapeRequest, {"url": f"https://{'ü' * 60}.example"}, "url", "1 to 63 characters between two dots"),
    (ScrapeRequest, {"url": f"https://{'ü' * 5000}.example"}, "url", "1 to 63 characters between two dots"),
    (ScrapeRequest, {"url": f"https://{'a.' * 124}example"}, "url", "at most 253 in all"),
    (ScrapeRequest, {"url": "https://www..example"}, "url", "1 to 63 characters between two dots"),
    (CrawlTarget, {"url": f"https://{'a' * 64}"}, "url", "1 to 63 characters between two dots"),
    (BatchScrapeRequest, {"urls": []}, "urls", "at least 1 item"),
    (BatchScrapeRequest, {"urls": [PAGE, "nowhere"]}, "urls.1", "write a whole address, with https://"),
    (CrawlRequest, {"url": "nowhere"}, "url", "write a whole address, with https://"),
    # unknown keys and wrong types
    (ScrapeRequest, {**SCRAPE, "waitfor": 5}, "waitfor", "Extra inputs are not permitted"),
    (CrawlRequest, {"url": PAGE, "maxDepth": 5}, "maxDepth", "Extra inputs are not permitted"),
    (MonitorRequest, {**MONITOR, "nmae": "x"}, "nmae", "Extra inputs are not permitted"),
    (ScrapeRequest, {**SCRAPE, "timeout": "5"}, "timeout", "valid integer"),
    (ScrapeRequest, {**SCRAPE, "timeout": True}, "timeout", "valid integer"),
    (ScrapeRequest, {**SCRAPE, "mobile": 1}, "mobile", "valid boolean"),
    (ScrapeRequest, {**SCRAPE, "headers": {"a": 1}}, "headers.a", "valid string"),
    (ScrapeRequest, {**SCRAPE, "timeout": 999}, "timeout", "greater than or equal to 1000"),
    (ScrapeOptions, {"timeout": 999}, "timeout", "greater than or equal to 1000"),
    (ScrapeRequest, {**SCRAPE, "maxAge": -1}, "maxAge", "greater than or equal to 0"),
    (ScrapeRequest, {**SCRAPE, "wait_for": -1}, "waitFor", "greater than or equal to 0"),
    (JsonOptions, {"schema": {"a": object()}}, "schema.a", "valid JSON"),
    (JsonOptions, {"prompt": "p" * 10_001}, "prompt", "at most 10000 characters"),
    # headers
    (ScrapeRequest, {**SCRAPE, "headers": {"X-A": "a\r\nX-B: b"}}, "headers", "X-A is one line"),
    (ScrapeOptions, {"headers": {"X-A": "a\0"}}, "headers", "X-A is one line"),
    (ScrapeOptions, {"headers": {"X-A:\n": "a"}}, "headers", "letters, digits and hyphens"),
    (ScrapeOptions, {"headers": {"": "a"}}, "headers", "letters, digits and hyphens"),
    (WebhookConfig, {"url": PAGE, "headers": {"X-A": "a\nb"}}, "headers", "X-A is one line"),
    (MapRequest, {**SCRAPE, "headers": {"X A": "a"}}, "headers", "letters, digits and hyphens"),
    # formats and change tracking
    (ScrapeRequest, {**SCRAPE, "formats": ["pdf"]}, "formats.0", "'markdown', 'html', 'rawHtml'"),
    (ScrapeRequest, {**SCRAPE, "formats": ["changeTracking"]}, "formats", "changeTracking needs markdown"),
    (ScrapeRequest, {**SCRAPE, "change_tracking_options": {}}, "changeTrackingOptions", "apply only with"),
    (ChangeTrackingOptions, {"modes": ["words"]}, "modes.0", "'git-diff' or 'json'"),
    (ScrapeRequest, {**SCRAPE, "proxy": "secret"}, "proxy", "'basic', 'stealth', 'enhanced' or 'auto'"),
    (ScrapeRequest, {**SCRAPE, "formats": ["json"]}, "jsonOptions", "together with json in formats"),
    (ScrapeRequest, {**SCRAPE, "jsonOptions": {"prompt": "p"}}, "jsonOptions", "together with json in formats"),
    (ScrapeRequest, {**SCRAPE, "formats": ["screenshot", "screenshot@fullPage"]}, "formats", "give one of"),
    (ScrapeOptions, {"formats": ["markdwon"]}, "formats.0", "'markdown', 'html', 'rawHtml'"),
    (ScrapeOptions, {"formats": ["screenshot@fullPage"]}, "formats.0", "'screenshot' or 'changeTracking'"),
    (ScrapeOptions, {"formats": ["json"]}, "formats.0", "json needs options: give an object"),
    (ScrapeOptions, {"formats": [{"type": "jsn"}]}, "formats.0", "'json', 'deterministicJson'"),
    (ScrapeOptions, {"formats": [{"modes": []}]}, "formats.0", "discriminator 'type'"),
    (ScrapeOptions, {"formats": [{"type": "json"}]}, "formats.0", "json needs a prompt or a schema"),
    (ScrapeOptions, {"formats": [{"type": "json", "schma": {}}]}, "formats.0.options.json.schma", "not permitted"),
    (ScrapeOptions, {"formats": [{"type": "html", "prompt": "p"}]}, "prompt", "not permitted"),
    (ScrapeOptions, {"formats": ["screenshot", {"type": "screenshot"}]}, "formats", "only one screenshot"),
    (ScrapeOptions, {"formats": ["rawBase64", "html"]}, "formats", "rawBase64 stands alone"),
    (
        ScrapeOptions,
        {"formats": [{"type": "json", "prompt": "p"}, {"type": "deterministicJson", "prompt": "p"}]},
        "formats",
        "give one of json and deterministicJson",
    ),
    (ScrapeRequestV2, {**SCRAPE, "formats": ["changeTracking"]}, "formats", "changeTracking needs markdown"),
    (BatchScrapeRequest, {"urls": [PAGE], "formats": ["changeTracking"]}, "formats", "needs markdown"),
    (CrawlRequest, {**SCRAPE, "scrapeOptions": {"formats": ["changeTracking"]}}, "scrapeOptions", "needs markdown"),
    (ScrapeOptions, {"parsers": ["pfd"]}, "parsers.0", "'pdf' or 'image'"),
    (ScrapeOptions, {"parsers": [{"type": "pdf", "maxPages": 10_001}]}, "maxPages", "less than or equal to 10000"),
    # waits
    (WaitAction, {}, "milliseconds and selector", "exactly one"),
    (WaitAction, {"milliseconds": 5, "selector": "a"}, "milliseconds and selector", "exactly one"),
    (ScrapeRequest, {**SCRAPE, "actions": [{"type": "wait"}]}, "actions.0.wait", "exactly one"),
    (ScrapeRequest, {**SCRAPE, "actions": [{"type": "scrape"}] * 51}, "actions", "at most 50 items"),
    (ScrapeRequest, {**SCRAPE, "waitFor": 15_001}, "waitFor", "half of the timeout, which is 30000 ms"),
    (ScrapeOptions, {"waitFor": 5_001, "timeout": 10_000}, "waitFor", "half of the timeout, which is 10000 ms"),
    (ScrapeOptions, {"waitFor": 60_001}, "waitFor", "less than or equal to 60000"),
    (
        ScrapeOptions,
        {"waitFor": 1, "actions": [{"type": "wait", "milliseconds": 60_000}]},
        "waitFor",
        "60,000 ms in all",
    ),
    (
        ScrapeOptions,
        {"actions": [{"type": "wait", "milliseconds": 30_000}, {"type": "wait", "selector": "a"}] * 2},
        "waitFor",
        "60,000 ms in all",
    ),
    # location
    (Location, {"country": "us"}, "country", "^[A-Z]{2}$"),
    (Location, {"country": "USA"}, "country", "^[A-Z]{2}$"),
    # actions
    (ScrapeRequest, {**SCRAPE, "actions": [{"type": "dance"}]}, "actions.0", "'wait', 'screenshot', 'click'"),
    (ScrapeRequest, {**SCRAPE, "actions": [{"milliseconds": 5}]}, "actions.0", "discriminator 'type'"),
    (ScrapeRequest, {**SCRAPE, "actions": [{"type": "click"}]}, "actions.0.click.selector", "Field required"),
    (ScrapeRequest, {**SCRAPE, "actions": [{"type": "write"}]}, "actions.0.write.text", "Field required"),
    (ScrapeRequest, {**SCRAPE, "actions": [{"type": "press"}]}, "actions.0.press.key", "Field required"),
    (
        ScrapeRequest,
        {**SCRAPE, "actions": [{"type": "executeJavascript"}]},
        "actions.0.executeJavascript.script",
        "Field required",
    ),
    (WaitAction, {"milliseconds": 0}, "milliseconds", "greater than or equal to 1"),
    (ScreenshotAction, {"quality": 0}, "quality", "greater than or equal to 1"),
    (ScreenshotAction, {"quality": 101}, "quality", "less than or equal to 100"),
    (ScrollAction, {"direction": "left"}, "direction", "'up' or 'down'"),
    (PdfAction, {"format": "A7"}, "format", "'A6', 'Letter'"),
    (PdfAction, {"scale": float("nan")}, "scale", "finite number"),
    (ClickAction, {"selector": "a", "type": "press"}, "type", "'click'"),
    # threat protection
    (ThreatProtection, {"blacklist": ["https://a.example"]}, "blacklist.0", "without protocol, path or port"),
    (ThreatProtection, {"blacklist": ["a.example/path"]}, "blacklist.0", "without protocol, path or port"),
    (ThreatProtection, {"whitelist": ["a.example:443"]}, "whitelist.0", "without protocol, path or port"),
    (ThreatProtection, {"whitelist": [""]}, "whitelist.0", "without protocol, path or port"),
    (ThreatProtection, {"blocked_tlds": [".zip"]}, "blockedTlds.0", "lower case, without leading dot"),
    (ThreatProtection, {"blockedTlds": ["ZIP"]}, "blockedTlds.0", "lower case, without leading dot"),
    (ThreatProtection, {"blacklist": ["a.example"] * 1001}, "blacklist", "at most 1000 items"),
    (ThreatProtection, {"whitelist": ["a.example"] * 1001}, "whitelist", "at most 1000 items"),
    (ThreatProtection, {"blockedTlds": ["zip"] * 1001}, "blockedTlds", "at most 1000 items"),
    (ThreatProtection, {"riskScoreThreshold": 101}, "riskScoreThreshold", "less than or equal to 100"),
    (ThreatProtection, {"riskScoreThreshold": -1}, "riskScoreThreshold", "greater than or equal to 0"),
    (ThreatProtection, {"failurePolicy": "ajar"}, "failurePolicy", "'open' or 'closed'"),
    (ThreatProtection, {"mode": "strict"}, "mode", "'off' or 'normal'"),
    # jobs
    (CrawlRequest, {"url": PAGE, "limit": 0}, "limit", "greater than or equal to 1"),
    (CrawlRequest, {"url": PAGE, "sitemap": "yes"}, "sitemap", "'skip', 'include' or 'only'"),
    (CrawlRequest, {"url": PAGE, "delay": 0.0}, "delay", "greater than 0"),
    (CrawlRequest, {"url": PAGE, "delay": 60.5}, "delay", "less than or equal to 60"),
    (CrawlRequest, {"url": PAGE, "includePaths": ["*/blog"]}, "includePaths.0", "not a pattern with wildcards"),
    (CrawlRequest, {"url": PAGE, "excludePaths": ["a(b"]}, "excludePaths.0", "a regular expression"),
    (CrawlRequest, {"url": PAGE, "excludePaths": ["[a"]}, "excludePaths.0", "a regular expression"),
    (CrawlRequest, {"url": PAGE, "excludePaths": ["a)"]}, "excludePaths.0", "a regular expression"),
    (CrawlRequest, {"url": PAGE, "excludePaths": ["/a/**"]}, "excludePaths.0", "a regular expression"),
    (BatchScrapeRequest, {"urls": [PAGE], "appendToId": "7"}, "appendToId", "a UUID"),
    (ExtractRequest, {}, "urls, prompt", "or both"),
    (ExtractRequest, {"urls": [PAGE] * 11}, "urls", "at most 10 items"),
    (AgentRequest, {}, "prompt", "Field required"),
    (AgentRequest, {"prompt": ""}, "prompt", "at least 1 character"),
    (AgentRequest, {"prompt": "p", "model": "spark-9"}, "model", "'spark-1-pro'"),
    # maps, searches, files
    (MapRequest, {**SCRAPE, "limit": 100_001}, "limit", "less than or equal to 100000"),
    (MapRequest, {**SCRAPE, "sitemap": "also"}, "sitemap", "'skip', 'include' or 'only'"),
    (SearchRequest, {"query": "q", "limit": 101}, "limit", "less than or equal to 100"),
    (SearchRequest, {"query": "q", "sources": ["books"]}, "sources.0", "'web', 'news' or 'images'"),
    (SearchRequest, {"query": "q", "categories": ["pdf", "developer"]}, "categories", "developer stands alone"),
    (SearchRequest, {"query": "q", "categories": ["gov", "pdf"]}, "categories", "gov stands alone"),
    (SearchRequest, {"query": "q", "includeDomains": ["*.a.example"]}, "includeDomains.0", "a host name such as"),
    (SearchRequest, {"query": "q", "includeDomains": ["localhost"]}, "includeDomains.0", "a host name such as"),
    (SearchRequest, {"query": "q", "includeDomains": ["192.0.2.1"]}, "includeDomains.0", "a host name such as"),
    (SearchRequest, {"query": "q", "includeDomains": ["-a.example"]}, "includeDomains.0", "a host name such as"),
    (SearchRequest, {"query": "q", "includeDomains": ["a-.example"]}, "includeDomains.0", "a host name such as"),
    (SearchRequest, {"query": "q", "includeDomains": ["a..example"]}, "includeDomains.0", "a host name such as"),
    (SearchRequest, {"query": "q", "includeDomains": ["ä.example"]}, "includeDomains.0", "a host name such as"),
    (SearchRequest, {"query": "q", "includeDomains": ["a" * 64 + ".example"]}, "includeDomains.0", "a host name"),
    (
        SearchRequest,
        {"query": "q", "includeDomains": ["a.example"], "excludeDomains": ["b.example"]},
        "includeDomains and excludeDomains",
        "give one of",
    ),
    (SearchRequest, {"query": "q", "scrapeOptions": {"formats": ["audio"]}}, "formats", "a search takes no audio"),
    (ParseRequest, {**FILE, "formats": ["screenshot"]}, "formats", "a file takes no screenshot"),
    (ParseRequest, {**FILE, "waitFor": 5}, "waitFor", "not permitted"),
    (ParseRequest, {**FILE, "file": b""}, "file", "at least 1 byte"),
    (ParseRequest, {**FILE, "filename": " "}, "filename", "one line"),
    (ParseRequest, {**FILE, "contentType": "pdf"}, "contentType", "a media type such as"),
    (ParseRequest, {**FILE, "contentType": "a b/pdf"}, "contentType", "a media type such as"),
    (ParseRequest, {**FILE, "contentType": "a/b\r\nc"}, "contentType", "a media type such as"),
    (ParseRequest, {**FILE, "filename": "a\r\nb.pdf"}, "filename", "one line"),
    (AgentRequest, {"prompt": "p", "maxCredits": 0}, "maxCredits", "greater than or equal to 1"),
    (AuditMetadata, {}, "username", "Field required"),
    (AuditMetadata, {"username": "u" * 1025}, "username", "at most 1024 characters"),
    (Profile, {}, "name", "Field required"),
    (Profile, {"name": ""}, "name", "at least 1 character"),
    # monitors
    (MonitorRequest, {**MONITOR, "name": ""}, "name", "at least 1 character"),
    (MonitorRequest, {**MONITOR, "name": "n" * 257}, "name", "at most 256 characters"),
    (MonitorRequest, {**MONITOR, "targets": []}, "targets", "at least 1 item"),
    (MonitorRequest, {**MONITOR, "targets": [TARGET] * 51}, "targets", "at most 50 items"),
    (MonitorRequest, {**MONITOR, "targets": [{"type": "map"}]}, "targets.0", "'scrape', 'crawl', 'search'"),
    (MonitorRequest, {**MONITOR, "goal": "g" * 2001}, "goal", "at most 2000 characters"),
    (MonitorRequest, {**MONITOR, "retentionDays": 0}, "retentionDays", "greater than or equal to 1"),
    (MonitorRequest, {**MONITOR, "retention_days": 366}, "retentionDays", "less than or equal to 365"),
    (MonitorRequest, {**MONITOR, "targets": [SEARCH]}, "goal", "unless judgeEnabled is false"),
    (MonitorRequest, {**MONITOR, "targets": [SEARCH], "goal": " "}, "goal", "unless judgeEnabled is false"),
    (MonitorChanges, {}, "at least one field", "changes nothing"),
    (MonitorChanges, {"name": None}, "at least one field", "changes nothing"),
    (MonitorChanges, {"targets": [SEARCH], "goal": None}, "goal", "unless judgeEnabled is false"),
    (MonitorChanges, {"status": "deleted"}, "status", "'active' or 'paused'"),
    (ScrapeTarget, {"urls": []}, "urls", "at least 1 item"),
    (CrawlTarget, {}, "url", "Field required"),
    (SearchTarget, {"queries": []}, "queries", "at least 1 item"),
    (SearchTarget, {"queries": ["q"] * 13}, "queries", "at most 12 items"),
    (SearchTarget, {"queries": ["q" * 257]}, "queries.0", "at most 256 characters"),
    (SearchTarget, {"queries": ["q"], "excludeDomains": ["a.example"] * 51}, "excludeDomains", "at most 50 items"),
    (SearchTarget, {"queries": ["q"], "id": "7"}, "id", "a UUID"),
    (SearchTarget, {"queries": ["q"], "searchWindow": "2h"}, "searchWindow", "'5m', '15m', '1h'"),
    (SearchTarget, {"queries": ["q"], "maxResults": 51}, "maxResults", "less than or equal to 50"),
    (
        SearchTarget,
        {"queries": ["q"], "includeDomains": ["a.example"], "excludeDomains": ["b.example"]},
        "includeDomains and excludeDomains",
        "give one of",
    ),
    (EmailNotification, {"recipients": ["a@b.example"] * 26}, "recipients", "at most 25 items"),
    (EmailNotification, {"recipients": ["nobody"]}, "recipients.0", "NAME@DOMAIN"),
    (EmailNotification, {"recipients": ["a@b@c"]}, "recipients.0", "NAME@DOMAIN"),
    (EmailNotification, {"recipients": ["@b.example"]}, "recipients.0", "NAME@DOMAIN"),
    (EmailNotification, {"recipients": ["a@b.example "]}, "recipients.0", "NAME@DOMAIN"),
]


@for_each(("model", "values", "place", "rule"), BROKEN)
def test_a_broken_rule_is_named_with_its_field(
    model: type[Request], values: dict[str, Any], place: str, rule: str
) -> None:
    """The error comes before anything is sent, and uses the spelling of the caller."""
    text = refusal(model, **values)

    assert place.lower() in text.replace("_", "").lower()
    assert rule in text


@for_each("domain", ["example.com", "*.example.com", "bücher.example", "ads.*"])
def test_a_domain_may_be_plain_or_a_pattern(domain: str) -> None:
    """A list may have up to 1,000 of them."""
    assert ThreatProtection(blacklist=[domain] * 1000).blacklist == (domain,) * 1000


def test_a_search_needs_a_goal_only_for_the_judge() -> None:
    """Without a judge, or with a goal, the request is valid."""
    assert MonitorRequest.model_validate({**MONITOR, "targets": [SEARCH], "judgeEnabled": False})
    assert MonitorRequest.model_validate({**MONITOR, "targets": [SEARCH], "goal": "news of us"})


@pytest.mark.parametrize("values", [{"headers": {"Cookie": "s3cret"}}, {"actions": [WriteAction(text="s3cret")]}])
def test_sensitive_pages_are_not_kept_by_the_service(values: dict[str, Any]) -> None:
    """The request says False, whatever was given, as the service does."""
    for asked in ({"store_in_cache": True}, {"storeInCache": False}):
        request = ScrapeRequest.model_validate({**SCRAPE, **values, **asked})
        assert request.store_in_cache is False
        assert request.wire()["storeInCache"] is False
    unasked = ScrapeRequest.model_validate({**SCRAPE, **values})
    assert unasked.store_in_cache is False
    assert "storeInCache" not in unasked.wire()


def test_an_error_quotes_no_value() -> None:
    """The headers of a request may contain a login."""
    text = refusal(ScrapeRequest, url=PAGE, headers={"Cookie": 5, "Authorization": ["s3cret"]}, proxy="s3cret")

    assert "s3cret" not in text


def test_a_repr_shows_no_headers() -> None:
    """This holds for the headers of pages and of webhooks."""
    headers = {"Authorization": "s3cret"}
    webhook = {"url": "https://hooks.example.com", "headers": headers}
    made: list[BaseModel] = [
        ScrapeRequest(url=PAGE, headers=headers),
        CrawlRequest(url=PAGE, webhook=webhook, scrape_options={"headers": headers}),
        BatchScrapeRequest(urls=[PAGE], headers=headers),
    ]

    assert "s3cret" not in "".join(repr(one) + str(one) for one in made)


def test_a_schema_may_be_a_class() -> None:
    """Its JSON Schema is sent."""

    class Price(BaseModel):
        amount: float

    sent = ExtractRequest(urls=[PAGE], schema_=Price).wire()["schema"]

    assert sent["properties"] == {"amount": {"title": "Amount", "type": "number"}}


def test_requests_are_immutable() -> None:
    """A request can be sent twice and is the same."""
    with pytest.raises(ValidationError, match="frozen"):
        ScrapeRequest(url=PAGE).timeout = 5000  # type: ignore[misc]


@for_each(
    ("model", "values"),
    [
        (ScrapeRequest, {**SCRAPE, "waitFor": 15_000, "actions": [{"type": "wait", "milliseconds": 45_000}]}),
        (ScrapeRequest, {**SCRAPE, "actions": [{"type": "scrape"}] * 50}),
        (ScrapeRequest, {**SCRAPE, "formats": ["json"], "jsonOptions": {}}),
        (ScrapeOptions, {"actions": [{"type": "wait", "selector": "a"}] * 50, "waitFor": 10_000}),
        (ScrapeTarget, {"urls": [PAGE], "scrapeOptions": {"formats": [{"type": "changeTracking"}]}}),
        (ScrapeRequestV2, {**SCRAPE, "formats": ["markdown", "changeTracking"], "proxy": "stealth"}),
        (CrawlRequest, {**SCRAPE, "delay": 0.5, "includePaths": ["blog/.*", "(?<year>\\d{4})", "^/a/?$"]}),
        (CrawlRequest, {**SCRAPE, "delay": 60.0}),
        (SearchRequest, {"query": "q", "includeDomains": ["a.example"], "excludeDomains": []}),
        (
            SearchRequest,
            {"query": "q", "includeDomains": [f"{'a' * 63}.example", "xn--bro-hoa.example"]},
        ),
        (ScrapeRequest, {"url": f"http://{'a' * 63}.example.:8080/a"}),
        (ScrapeRequest, {"url": f"http://{'ü' * 50}.example"}),
        (ScrapeRequest, {"url": "http://[2001:db8::1]/"}),
        (ScrapeRequest, {"url": "http://my_host"}),
        (ParseRequest, {**FILE, "filename": "Größe 1.docx", "contentType": "application/pdf"}),
    ],
)
def test_what_the_service_takes_is_not_refused(model: type[Request], values: dict[str, Any]) -> None:
    """Such as a value at its limit, or a regular expression that only the service understands."""
    assert model.model_validate(values)


def test_a_repr_of_a_file_shows_no_content() -> None:
    """It may be large, and private."""
    assert repr(ParseRequest.model_validate(FILE)).startswith("ParseRequest(")
    assert "PDF" not in repr(ParseRequest.model_validate(FILE))
