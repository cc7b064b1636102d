"""For the same calls, both clients send the requests of the service's own SDK, captured from a stub."""

import subprocess
import sys
from pathlib import Path
from typing import Any

from receiver.requests import (
    AgentRequest,
    BatchScrapeRequest,
    CrawlRequest,
    ExtractRequest,
    MonitorChanges,
    MonitorRequest,
    ScrapeRequest,
    WebhookConfig,
)
from receiver.service.client import Client
from tests.cases import named
from tests.doubles import LONG
from tests.service.client.sdk_calls import EVERYTHING, HOOK, KEY, PAGE
from tests.service.client.stub import Connection, serving

# Every field that some operation needs, so that one answer suits all of them.
ANSWER = {
    "success": True,
    "id": "1",
    "status": "completed",
    "url": "u",
    "errors": [],
    "crawls": [],
    "jobsInQueue": 0,
}

# What the SDK sends unasked: its own mark, and for crawls and pages defaults of the service.
UNASKED: dict[str, Any] = {
    "ignoreQueryParameters": False,
    "deduplicateSimilarURLs": True,
    "crawlEntireDomain": False,
    "allowExternalLinks": False,
    "allowSubdomains": False,
    "ignoreRobotsTxt": False,
    "regexOnFullURL": False,
    "zeroDataRetention": False,
    "fastMode": False,
}


def our_calls(client: Client) -> list[Any]:
    """Return the same calls as `sdk_calls` has, in its order."""
    webhook = WebhookConfig(url=HOOK, headers={"X-Token": "t"}, metadata={"a": "b"}, events=["page", "completed"])
    v1 = {name: value for name, value in EVERYTHING.items() if name not in ("max_age", "store_in_cache")}
    crawl = CrawlRequest(
        url=PAGE,
        limit=5,
        include_paths=["^/a"],
        exclude_paths=["^/b"],
        max_discovery_depth=2,
        sitemap="skip",
        crawl_entire_domain=True,
        allow_subdomains=True,
        max_concurrency=3,
        scrape_options={**EVERYTHING, "actions": [{"type": "wait", "milliseconds": 5}]},
    )
    tracked = ScrapeRequest(
        url=PAGE,
        formats=["markdown", "json", "changeTracking"],
        json_options={"prompt": "p", "schema": {"type": "object"}},
        change_tracking_options={"modes": ["json"], "prompt": "c"},
        location={"country": "DE", "languages": ["de"]},
        actions=[{"type": "wait", "milliseconds": 5}],
        parse_pdf=False,
    )
    agent = AgentRequest(
        urls=[PAGE], prompt="p", schema_={"type": "object"}, max_credits=5, strict_constrain_to_urls=True
    )
    monitor = MonitorRequest.model_validate(
        {
            "name": "prices",
            "schedule": {"cron": "0 * * * *", "timezone": "Europe/Berlin"},
            "targets": [
                {"type": "scrape", "urls": [PAGE], "scrapeOptions": {"formats": ["markdown"]}},
                {"type": "search", "queries": ["q"], "searchWindow": "1h", "maxResults": 5},
            ],
            "webhook": {"url": HOOK, "events": ["check.completed"]},
            "goal": "prices",
            "judge_enabled": True,
            "retention_days": 10,
        }
    )
    return [
        lambda: client.scrape(PAGE),
        lambda: client.scrape(ScrapeRequest(url=PAGE, **v1)),
        lambda: client.scrape(tracked),
        lambda: client.crawl(PAGE),
        lambda: client.crawl(crawl, webhook=webhook),
        lambda: client.crawl_status("1"),
        lambda: client.crawl_errors("1"),
        lambda: client.cancel_crawl("1"),
        lambda: client.active_crawls(),
        lambda: client.batch_scrape(
            BatchScrapeRequest(urls=[PAGE], ignore_invalid_urls=False, **EVERYTHING), webhook=webhook
        ),
        lambda: client.batch_status("1"),
        lambda: client.batch_errors("1"),
        lambda: client.cancel_batch("1"),
        lambda: client.extract(
            ExtractRequest(urls=[PAGE], prompt="p", schema_={"type": "object"}, show_sources=True)
        ),
        lambda: client.extract_status("1"),
        lambda: client.agent(agent, webhook=WebhookConfig(url=HOOK, events=["agent.action"])),
        lambda: client.agent_status("1"),
        lambda: client.cancel_agent("1"),
        lambda: client.create_monitor(monitor),
        lambda: client.monitors(limit=5, offset=10),
        lambda: client.monitor("1"),
        lambda: client.update_monitor("1", MonitorChanges(status="paused")),
        lambda: client.run_monitor("1"),
        lambda: client.checks("1", limit=5),
        lambda: client.check("1", "2", limit=5, skip=10, status="removed"),
        lambda: client.delete_monitor("1"),
        lambda: client.queue_status(),
    ]


def answered(connection: Connection) -> None:
    """Answer with what its operation expects: a list for listings, an object for the others."""
    lists = connection.method == "GET" and connection.path.partition("?")[0].endswith(("/monitor", "/checks"))
    connection.answer(200, {**ANSWER, "data": [] if lists else {"id": "1"}})


def compared(connection: Connection) -> tuple[Any, ...]:
    """Return the compared parts of a request: method, path, key, and its body without the SDK's own additions."""
    return connection.method, connection.path, connection.headers["authorization"], asked_for(connection.body)


def asked_for(body: Any) -> Any:
    """Return a body without the SDK's own additions, None if nothing else is in it."""
    if not isinstance(body, dict):
        return body
    asked = {
        name: asked_for(value) if name == "scrapeOptions" else value
        for name, value in body.items()
        if name != "origin" and not (name in UNASKED and value == UNASKED[name])
    }
    return asked or None


def theirs() -> list[Connection]:
    """Return the requests of the SDK."""
    with serving(answered) as stub:
        subprocess.run(
            [sys.executable, "-m", "tests.service.client.sdk_calls", stub.address],
            cwd=Path(__file__).parents[3],
            capture_output=True,
            timeout=3 * LONG,
            check=True,
        )
    return stub.connections


def ours() -> list[Connection]:
    """Return the requests of our plain client. The tests of operations show that the async one sends the same."""
    with serving(answered) as stub, Client(KEY, stub.address) as client:
        for call in our_calls(client):
            call()
    return stub.connections


def test_our_requests_equal_those_of_the_sdk() -> None:
    """Both have the same method, path, query and key, and a body with the same meaning, call for call.

    The SDK adds defaults of its own; we send only what was given.
    """
    sent_by_us, sent_by_sdk = ours(), theirs()

    assert len(sent_by_us) == len(sent_by_sdk) == 27
    for mine, expected in zip(sent_by_us, sent_by_sdk, strict=True):
        with named({"call": f"{expected.method} {expected.path}"}):
            assert compared(mine) == compared(expected)
            assert asked_for(mine.body) == mine.body
