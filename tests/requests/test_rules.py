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
    MonitorChanges,
    MonitorRequest,
    PdfAction,
    Profile,
    Request,
    Schedule,
    ScrapeOptions,
    ScrapeRequest,
    ScrapeTarget,
    ScreenshotAction,
    ScrollAction,
    SearchTarget,
    ThreatProtection,
    WaitAction,
    WriteAction,
)
from tests.cases import for_each

PAGE = "https://example.com/page"
HOURLY: dict[str, Any] = {"cron": "0 * * * *"}
TARGET: dict[str, Any] = {"type": "scrape", "urls": [PAGE]}
SEARCH: dict[str, Any] = {"type": "search", "queries": ["a"]}
MONITOR: dict[str, Any] = {"name": "m", "schedule": HOURLY, "targets": [TARGET]}
SCRAPE: dict[str, Any] = {"url": PAGE}


def refusal(model: type[Request], **values: Any) -> str:
    """Return the text of the error."""
    with pytest.raises(ValidationError) as caught:
        model.model_validate(values)
    return str(caught.value)


BROKEN: list[tuple[type[Request], dict[str, Any], str, str]] = [
    # addresses
    (ScrapeRequest, {}, "url", "Field required"),
    (ScrapeRequest, {"url": "example.com"}, "url", "begins with https:// or http:// and a host"),
    (ScrapeRequest, {"url": "ftp://example.com"}, "url", "begins with https:// or http:// and a host"),
    (ScrapeRequest, {"url": "https://"}, "url", "begins with https:// or http:// and a host"),
    (ScrapeRequest, {"url": "https://[::1"}, "url", "begins with https:// or http:// and a host"),
    (ScrapeRequest, {"url": "https://a.example/b c"}, "url", "no spaces or control characters"),
    (ScrapeRequest, {"url": "https://a.example/\n"}, "url", "no spaces or control characters"),
    (BatchScrapeRequest, {"urls": []}, "urls", "at least 1 item"),
    (BatchScrapeRequest, {"urls": [PAGE, "nowhere"]}, "urls.1", "begins with https:// or http:// and a host"),
    (CrawlRequest, {"url": "nowhere"}, "url", "begins with https:// or http:// and a host"),
    # unknown keys and wrong types
    (ScrapeRequest, {**SCRAPE, "waitfor": 5}, "waitfor", "Extra inputs are not permitted"),
    (CrawlRequest, {"url": PAGE, "maxDepth": 5}, "maxDepth", "Extra inputs are not permitted"),
    (MonitorRequest, {**MONITOR, "nmae": "x"}, "nmae", "Extra inputs are not permitted"),
    (ScrapeRequest, {**SCRAPE, "timeout": "5"}, "timeout", "valid integer"),
    (ScrapeRequest, {**SCRAPE, "timeout": True}, "timeout", "valid integer"),
    (ScrapeRequest, {**SCRAPE, "mobile": 1}, "mobile", "valid boolean"),
    (ScrapeRequest, {**SCRAPE, "headers": {"a": 1}}, "headers.a", "valid string"),
    (ScrapeRequest, {**SCRAPE, "timeout": 0}, "timeout", "greater than or equal to 1"),
    (ScrapeRequest, {**SCRAPE, "maxAge": -1}, "maxAge", "greater than or equal to 0"),
    (ScrapeRequest, {**SCRAPE, "wait_for": -1}, "waitFor", "greater than or equal to 0"),
    (JsonOptions, {"schema": {"a": object()}}, "schema.a", "valid JSON"),
    # formats and change tracking
    (ScrapeRequest, {**SCRAPE, "formats": ["pdf"]}, "formats.0", "'markdown', 'html', 'rawHtml'"),
    (ScrapeRequest, {**SCRAPE, "formats": ["changeTracking"]}, "formats", "changeTracking needs markdown"),
    (ScrapeRequest, {**SCRAPE, "change_tracking_options": {}}, "changeTrackingOptions", "apply only with"),
    (ChangeTrackingOptions, {"modes": ["words"]}, "modes.0", "'git-diff' or 'json'"),
    (ScrapeRequest, {**SCRAPE, "proxy": "stealth"}, "proxy", "'basic', 'enhanced' or 'auto'"),
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
    (CrawlRequest, {"url": PAGE, "delay": -1.0}, "delay", "greater than or equal to 0"),
    (AgentRequest, {}, "prompt", "Field required"),
    (AgentRequest, {"prompt": "p", "maxCredits": 0}, "maxCredits", "greater than or equal to 1"),
    (ScrapeOptions, {"formats": [{"modes": []}]}, "formats.0", "has its kind as `type`"),
    (AuditMetadata, {}, "username", "Field required"),
    (Profile, {}, "name", "Field required"),
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
    (MonitorChanges, {}, "at least one field", "changes nothing"),
    (MonitorChanges, {"status": "deleted"}, "status", "'active' or 'paused'"),
    (ScrapeTarget, {"urls": []}, "urls", "at least 1 item"),
    (CrawlTarget, {}, "url", "Field required"),
    (SearchTarget, {"queries": []}, "queries", "at least 1 item"),
    (SearchTarget, {"queries": ["q"] * 13}, "queries", "at most 12 items"),
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
    # schedules
    (Schedule, {}, "cron and text", "exactly one"),
    (Schedule, {"cron": "0 * * * *", "text": "hourly"}, "cron and text", "exactly one"),
    (Schedule, {"cron": "0 * * *"}, "cron", "five fields"),
    (Schedule, {"cron": "* * * * *"}, "cron", "at least 5 minutes apart"),
    (Schedule, {"cron": "*/4 * * * *"}, "cron", "at least 5 minutes apart"),
    (Schedule, {"cron": "0,3 9 * * *"}, "cron", "at least 5 minutes apart"),
    (Schedule, {"cron": "10-12 9 * * *"}, "cron", "at least 5 minutes apart"),
    (Schedule, {"cron": "0,57 * * * *"}, "cron", "at least 5 minutes apart"),
    (Schedule, {"cron": "60 * * * *"}, "cron", "minutes are 0 to 59"),
    (Schedule, {"cron": "9-5 * * * *"}, "cron", "the lower one first"),
    (Schedule, {"cron": "*/0 * * * *"}, "cron", "steps are 1 or more"),
    (Schedule, {"cron": "often * * * *"}, "cron", "minutes are named as"),
    (Schedule, {"cron": "0,57 9-17 * * *"}, "cron", "at least 5 minutes apart"),
    (Schedule, {"cron": "58,2 0,1 * * *"}, "cron", "at least 5 minutes apart"),
    (Schedule, {"cron": "0 24 * * *"}, "cron", "hours are 0 to 23"),
]


@for_each(("model", "values", "place", "rule"), BROKEN)
def test_a_broken_rule_is_named_with_its_field(
    model: type[Request], values: dict[str, Any], place: str, rule: str
) -> None:
    """The error comes before anything is sent, and uses the spelling of the caller."""
    text = refusal(model, **values)

    assert place.lower() in text.replace("_", "").lower()
    assert rule in text


@for_each(
    "schedule", ["*/5 * * * *", "0 * * * *", "3-59/10 * * * *", "0,30 9-17 * * 1-5", "0,57 9 * * *", "7/20 * * * *"]
)
def test_a_schedule_may_run_every_five_minutes(schedule: str) -> None:
    """Hours count too: minutes 57 and 0 of one hour a day are far apart."""
    assert Schedule(cron=schedule).wire() == {"cron": schedule}


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
    """`storeInCache` is not even sent for them, whatever was given."""
    for asked in ({}, {"store_in_cache": True}, {"storeInCache": False}):
        request = ScrapeRequest.model_validate({**SCRAPE, **values, **asked})
        assert request.store_in_cache is False
        assert "storeInCache" not in request.wire()
    assert ScrapeRequest(url=PAGE, store_in_cache=False).wire() == {"url": PAGE, "storeInCache": False}


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
        ScrapeRequest(url=PAGE).timeout = 5  # type: ignore[misc]
