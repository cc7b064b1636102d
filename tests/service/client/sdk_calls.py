"""Calls of the service's own SDK, in a process of its own: `python -m tests.service.client.sdk_calls ADDRESS`.

It warns and leaves connections open, so it does not share an interpreter with the tests.
"""

import sys
import warnings
from collections.abc import Callable
from typing import Any

KEY = "fc-0123456789abcdef-sentinel"
PAGE = "https://example.com/"
HOOK = "https://hooks.example.com/webhooks"
EVERYTHING = {
    "formats": ["markdown", "links"],
    "headers": {"X-A": "b"},
    "include_tags": ["main"],
    "exclude_tags": ["nav"],
    "only_main_content": False,
    "timeout": 20_000,
    "wait_for": 500,
    "mobile": True,
    "skip_tls_verification": True,
    "remove_base64_images": False,
    "block_ads": False,
    "proxy": "auto",
    "max_age": 3_600_000,
    "store_in_cache": False,
}


def calls(firecrawl: Any) -> list[Callable[[], Any]]:
    """Return one call for each request that is compared, in the order of the test."""
    from firecrawl.v1.client import V1ChangeTrackingOptions, V1JsonConfig, V1LocationConfig, V1WaitAction
    from firecrawl.v2.types import AgentWebhookConfig, ScrapeOptions, WaitAction, WebhookConfig

    webhook = WebhookConfig(url=HOOK, headers={"X-Token": "t"}, metadata={"a": "b"}, events=["page", "completed"])
    monitor = {
        "name": "prices",
        "schedule": {"cron": "0 * * * *", "timezone": "Europe/Berlin"},
        "targets": [
            {"type": "scrape", "urls": [PAGE], "scrapeOptions": {"formats": ["markdown"]}},
            {"type": "search", "queries": ["q"], "searchWindow": "1h", "maxResults": 5},
        ],
        "webhook": {"url": HOOK, "events": ["monitor.check.completed"]},
        "goal": "prices",
        "judge_enabled": True,
        "retention_days": 10,
    }
    v1 = {name: value for name, value in EVERYTHING.items() if name not in ("max_age", "store_in_cache")}
    return [
        lambda: firecrawl.v1.scrape_url(PAGE, timeout=None),
        lambda: firecrawl.v1.scrape_url(PAGE, **v1),
        lambda: firecrawl.v1.scrape_url(
            PAGE,
            timeout=None,
            formats=["markdown", "json", "changeTracking"],
            json_options=V1JsonConfig(prompt="p", schema={"type": "object"}),
            change_tracking_options=V1ChangeTrackingOptions(modes=["json"], prompt="c"),
            location=V1LocationConfig(country="DE", languages=["de"]),
            actions=[V1WaitAction(type="wait", milliseconds=5)],
            parse_pdf=False,
        ),
        lambda: firecrawl.start_crawl(PAGE),
        lambda: firecrawl.start_crawl(
            PAGE,
            limit=5,
            include_paths=["^/a"],
            exclude_paths=["^/b"],
            max_discovery_depth=2,
            sitemap="skip",
            crawl_entire_domain=True,
            allow_subdomains=True,
            max_concurrency=3,
            webhook=webhook,
            scrape_options=ScrapeOptions(**EVERYTHING, actions=[WaitAction(milliseconds=5)]),
        ),
        lambda: firecrawl.get_crawl_status("1"),
        lambda: firecrawl.get_crawl_errors("1"),
        lambda: firecrawl.cancel_crawl("1"),
        lambda: firecrawl.get_active_crawls(),
        lambda: firecrawl.start_batch_scrape([PAGE], webhook=webhook, ignore_invalid_urls=False, **EVERYTHING),
        lambda: firecrawl.get_batch_scrape_status("1"),
        lambda: firecrawl.get_batch_scrape_errors("1"),
        lambda: firecrawl.cancel_batch_scrape("1"),
        lambda: firecrawl.start_extract([PAGE], prompt="p", schema={"type": "object"}, show_sources=True),
        lambda: firecrawl.get_extract_status("1"),
        lambda: firecrawl.start_agent(
            [PAGE],
            prompt="p",
            schema={"type": "object"},
            max_credits=5,
            strict_constrain_to_urls=True,
            webhook=AgentWebhookConfig(url=HOOK, events=["action"]),
        ),
        lambda: firecrawl.get_agent_status("1"),
        lambda: firecrawl.cancel_agent("1"),
        lambda: firecrawl.create_monitor(**monitor),
        lambda: firecrawl.list_monitors(limit=5, offset=10),
        lambda: firecrawl.get_monitor("1"),
        lambda: firecrawl.update_monitor("1", status="paused"),
        lambda: firecrawl.run_monitor("1"),
        lambda: firecrawl.list_monitor_checks("1", limit=5),
        lambda: firecrawl.get_monitor_check("1", "2", limit=5, skip=10, status="removed"),
        lambda: firecrawl.delete_monitor("1"),
        lambda: firecrawl.get_queue_status(),
    ]


def main(address: str) -> None:
    """Make the calls. How the SDK reads the answers is not compared."""
    warnings.simplefilter("ignore")
    from firecrawl import Firecrawl

    for call in calls(Firecrawl(api_key=KEY, api_url=address)):
        try:
            call()
        except Exception as exc:
            sys.stderr.write(f"{type(exc).__name__}: {exc}\n")


if __name__ == "__main__":
    main(sys.argv[1])
