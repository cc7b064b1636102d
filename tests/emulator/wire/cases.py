"""Rows that the tests of the readers share: what each field refuses, whichever body it stands in."""

from typing import Any

import pytest

from receiver.emulator.failures import CallRefused

URL = "https://example.com/page"
Row = tuple[dict[str, Any], str]

WRONG_TYPES: tuple[Any, ...] = ("x", 5, 1.5, True, [], [1], {}, {"a": 1})
"""One value of each JSON type, null left out: it is absent."""

WRONG_PAGE_OPTIONS: list[Row] = [
    ({"timeout": 999}, "timeout"),
    ({"timeout": 0}, "timeout"),
    ({"timeout": -1}, "timeout"),
    ({"timeout": 1e20}, "timeout"),
    ({"timeout": "30000"}, "timeout"),
    ({"timeout": True}, "timeout"),
    ({"waitFor": -1}, "waitFor"),
    ({"waitFor": 60_001}, "waitFor"),
    ({"waitFor": 15_001}, "waitFor"),
    ({"waitFor": 501, "timeout": 1000}, "waitFor"),
    ({"maxAge": -1}, "maxAge"),
    ({"maxAge": 0.5}, "maxAge"),
    ({"proxy": "tor"}, "proxy"),
    ({"onlyMainContent": "yes"}, "onlyMainContent"),
    ({"onlyMainContent": 1}, "onlyMainContent"),
    ({"mobile": "true"}, "mobile"),
    ({"blockAds": 0}, "blockAds"),
    ({"skipTlsVerification": "no"}, "skipTlsVerification"),
    ({"removeBase64Images": []}, "removeBase64Images"),
    ({"storeInCache": {}}, "storeInCache"),
    ({"excludeTags": "nav"}, "excludeTags"),
    ({"excludeTags": [1]}, "excludeTags.0"),
    ({"includeTags": {"a": "b"}}, "includeTags"),
    ({"headers": []}, "headers"),
    ({"headers": {"X-A": 1}}, "headers.X-A"),
    ({"headers": {"X A": "1"}}, "headers"),
    ({"headers": {"X-A": "a\r\nb"}}, "headers"),
    ({"location": "US"}, "location"),
    ({"location": {"country": "USA"}}, "location.country"),
    ({"location": {"country": "U1"}}, "location.country"),
    ({"location": {"languages": "en"}}, "location.languages"),
    ({"location": {"city": "Berlin"}}, "location"),
    ({"formats": "markdown"}, "formats"),
    ({"formats": [5]}, "formats.0"),
    ({"formats": ["pdf"]}, "formats.0"),
    ({"formats": ["changeTracking"]}, "formats"),
    ({"actions": {}}, "actions"),
    ({"actions": ["wait"]}, "actions.0"),
    ({"actions": [{}]}, "actions.0"),
    ({"actions": [{"type": "dance"}]}, "actions.0"),
    ({"actions": [{"type": "wait"}]}, "actions.0"),
    ({"actions": [{"type": "wait", "milliseconds": 0}]}, "actions.0.milliseconds"),
    ({"actions": [{"type": "wait", "milliseconds": 1, "selector": "a"}]}, "actions.0"),
    ({"actions": [{"type": "wait", "milliseconds": 60_001}]}, ""),
    ({"actions": [{"type": "wait", "milliseconds": 30_000}] * 3}, ""),
    ({"actions": [{"type": "scrape"}] * 51}, "actions"),
    ({"actions": [{"type": "click"}]}, "actions.0.selector"),
    ({"actions": [{"type": "click", "selector": "a", "all": "yes"}]}, "actions.0.all"),
    ({"actions": [{"type": "write"}]}, "actions.0.text"),
    ({"actions": [{"type": "press"}]}, "actions.0.key"),
    ({"actions": [{"type": "scroll", "direction": "left"}]}, "actions.0.direction"),
    ({"actions": [{"type": "executeJavascript"}]}, "actions.0.script"),
    ({"actions": [{"type": "screenshot", "quality": 0}]}, "actions.0.quality"),
    ({"actions": [{"type": "screenshot", "quality": 101}]}, "actions.0.quality"),
    ({"actions": [{"type": "screenshot", "full_page": True}]}, "actions.0"),
    ({"actions": [{"type": "pdf", "format": "B5"}]}, "actions.0.format"),
    ({"actions": [{"type": "pdf", "scale": "1"}]}, "actions.0.scale"),
    ({"actions": [{"type": "pdf", "landscape": 1}]}, "actions.0.landscape"),
    ({"threatProtection": []}, "threatProtection"),
    ({"threatProtection": {"mode": "zscaler"}}, "threatProtection.mode"),
    ({"threatProtection": {"failurePolicy": "ajar"}}, "threatProtection.failurePolicy"),
    ({"threatProtection": {"riskScoreThreshold": -1}}, "threatProtection.riskScoreThreshold"),
    ({"threatProtection": {"riskScoreThreshold": 101}}, "threatProtection.riskScoreThreshold"),
    ({"threatProtection": {"blacklist": ["a.test"] * 1001}}, "threatProtection.blacklist"),
    ({"threatProtection": {"whitelist": ["a.test"] * 1001}}, "threatProtection.whitelist"),
    ({"threatProtection": {"blockedTlds": ["zip"] * 1001}}, "threatProtection.blockedTlds"),
    ({"threatProtection": {"blacklist": ["https://a.test"]}}, "threatProtection.blacklist.0"),
    ({"threatProtection": {"blacklist": ["a.test/x"]}}, "threatProtection.blacklist.0"),
    ({"threatProtection": {"blacklist": ["a.test:80"]}}, "threatProtection.blacklist.0"),
    ({"threatProtection": {"blockedTlds": [".zip"]}}, "threatProtection.blockedTlds.0"),
    ({"threatProtection": {"blockedTlds": ["ZIP"]}}, "threatProtection.blockedTlds.0"),
    ({"threatProtection": {"colour": "red"}}, "threatProtection"),
    ({"nonsense": 1}, ""),
    ({"only_main_content": False}, ""),
]
"""A wrong option of pages, in both versions, and the path of the issue."""

RIGHT_PAGE_OPTIONS: list[dict[str, Any]] = [
    {"timeout": 1000},
    {"waitFor": 15_000},
    {"waitFor": 60_000, "timeout": 120_000},
    {"proxy": "basic"},
    {"proxy": "stealth"},
    {"proxy": "enhanced"},
    {"proxy": "auto"},
    {"headers": {"Cookie": "a=b"}},
    {"location": {}},
    {"location": {"country": "DE", "languages": ["de"]}},
    {"excludeTags": [], "includeTags": ["main", "#id", ".a > b"]},
    {"actions": [{"type": "wait", "milliseconds": 1}, {"type": "wait", "selector": "a"}]},
    {"actions": [{"type": "screenshot", "fullPage": True, "quality": 100}]},
    {"actions": [{"type": "click", "selector": "a", "all": True}, {"type": "write", "text": ""}]},
    {"actions": [{"type": "press", "key": "Enter"}, {"type": "scroll"}, {"type": "scroll", "direction": "up"}]},
    {"actions": [{"type": "scrape"}] * 50},
    {"actions": [{"type": "executeJavascript", "script": "1"}, {"type": "pdf"}]},
    {"actions": [{"type": "pdf", "format": "A6", "landscape": True, "scale": 0.5}]},
    {"actions": [{"type": "wait", "milliseconds": 60_000}]},
    {"origin": "python-sdk@4.53.2", "integration": "x"},
    {"fastMode": False, "useMock": "m", "checkPromptInjection": True, "domainTools": True, "toolDetail": "full"},
    {"profile": {"name": "p"}, "lockdown": False, "redactPII": False, "auditMetadata": {"username": "u"}},
    {"parsers": ["pdf"], "mobile": True},
]
"""Options that both versions take."""


def refused(call: Any) -> CallRefused:
    """Return the refusal of a call, after checking that it has the service's form for wrong bodies."""
    with pytest.raises(CallRefused) as caught:
        call()
    error = caught.value
    assert (error.status, error.code) == (400, "BAD_REQUEST")
    assert error.error
    for issue in error.details or []:
        assert {"code", "path", "message"} <= issue.keys()
        assert isinstance(issue["path"], list)
    return error


def paths_of(error: CallRefused) -> list[str]:
    """Return the paths of the issues, with dots."""
    return [".".join(map(str, issue["path"])) for issue in error.details or []]
