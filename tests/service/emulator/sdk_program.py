"""Calls of the service's own SDK that its end-to-end suite lacks: `python -m tests.service.emulator.sdk_program
ADDRESS FOLDER`.

It prints one JSON object: what each call returned. It warns and leaves connections open, so it does not share an
interpreter with the tests. FOLDER has the pages of the site, and it changes one of them.
"""

import asyncio
import json
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ORIGIN = "https://docs.acme.test"
PAGE = f"{ORIGIN}/prices.html"
OLD, NEW = "A lamp costs 12 euros.", "A lamp costs 13 euros."
RUNNING = ("queued", "running")


def page(text: str, *links: str) -> str:
    """Return a page with links."""
    listed = "".join(f'<a href="/{link}">Go to {link}</a> ' for link in links)
    return f"<html><head><title>Acme</title></head><body><main><p>{text}</p>{listed}</main></body></html>"


def write_site(folder: Path) -> None:
    """Write four pages, which the start page leads to."""
    (folder / "index.html").write_text(page("Start", "prices.html", "guide.html", "faq.html"))
    (folder / "prices.html").write_text(page(OLD))
    (folder / "guide.html").write_text(page("The guide"))
    (folder / "faq.html").write_text(page("Questions"))


def scrapes(v1: Any, folder: Path) -> dict[str, Any]:
    """Scrape with formats, extraction, and change tracking over a change."""
    from firecrawl.v1.client import V1ChangeTrackingOptions, V1JsonConfig

    def track() -> Any:
        formats = ["markdown", "html", "links", "changeTracking"]
        options = V1ChangeTrackingOptions(modes=["git-diff"])
        return v1.scrape_url(PAGE, formats=formats, change_tracking_options=options)

    schema = {"type": "object", "properties": {"title": {"type": "string"}}}
    extracted = v1.scrape_url(PAGE, formats=["json"], json_options=V1JsonConfig(schema=schema))
    before = track()
    (folder / "prices.html").write_text(page(NEW))
    after = track()
    (folder / "prices.html").write_text(page(OLD))
    return {
        "markdown": before.markdown,
        "title": before.metadata["title"],
        "json": extracted.json_field,
        "changes": [one.changeTracking.changeStatus for one in (before, after)],
        "diff": after.changeTracking.diff["text"],
        "map": v1.map_url(ORIGIN).links,
    }


def jobs(v1: Any) -> dict[str, Any]:
    """Crawl and scrape in batches: waiting for the end, asking for it, watching it, and cancelling."""
    with ThreadPoolExecutor() as threads:  # the SDK waits two seconds between two questions
        crawl = threads.submit(v1.crawl_url, ORIGIN, limit=10, poll_interval=0)
        batch = threads.submit(v1.batch_scrape_urls, [ORIGIN, PAGE], poll_interval=0)
        watched = threads.submit(watch, v1.crawl_url_and_watch(ORIGIN, limit=10))
        batch_watched = threads.submit(watch, v1.batch_scrape_urls_and_watch([ORIGIN, PAGE]))
    started = v1.async_crawl_url(ORIGIN, limit=10)
    while (status := v1.check_crawl_status(started.id)).status == "scraping":
        pass
    many = v1.async_batch_scrape_urls([ORIGIN, PAGE] * 50)
    other = v1.async_crawl_url(ORIGIN, limit=10, delay=60)
    return {
        "crawl": [crawl.result().status, sorted(one.metadata["sourceURL"] for one in crawl.result().data)],
        "batch": [batch.result().status, len(batch.result().data)],
        "watched": watched.result(),
        "batch watched": batch_watched.result(),
        "status": [status.status, status.completed, status.total, status.creditsUsed],
        "errors": v1.check_crawl_errors(started.id).errors,
        "batch status": v1.check_batch_scrape_status(many.id).total,
        "cancelled": v1.cancel_crawl(other.id)["status"],
    }


def watch(watcher: Any) -> list[Any]:
    """Follow a job over a WebSocket, and return how many documents came, and the end."""
    told: list[Any] = []
    watcher.add_event_listener("document", lambda event: told.append(event["data"]))
    watcher.add_event_listener("done", lambda event: told.append(event["status"]))
    asyncio.run(watcher.connect())
    return [len(told) - 1, told[-1]]


def monitors(app: Any, folder: Path) -> dict[str, Any]:
    """Make, list, read, change, run and delete a monitor, and read its checks."""
    made = app.create_monitor(
        "prices",
        {"cron": "0 * * * *", "timezone": "UTC"},
        [{"type": "scrape", "urls": [PAGE, f"{ORIGIN}/guide.html"]}],
        goal="Tell me of prices",
        retention_days=10,
    )

    def run() -> Any:
        check = app.run_monitor(made.id)
        while (detail := app.get_monitor_check(made.id, check.id, limit=1)).status in RUNNING:
            pass
        return detail

    first = run()
    (folder / "prices.html").write_text(page(NEW))
    second = run()
    paused = app.update_monitor(made.id, status="paused")
    changed = app.get_monitor_check(made.id, second.id, status="changed")
    return {
        "made": [made.status, made.retention_days, made.judge_enabled],
        "listed": [one.id for one in app.list_monitors(limit=5)] == [made.id],
        "read": app.get_monitor(made.id).last_check_summary.model_dump(),
        "checks": [one.trigger for one in app.list_monitor_checks(made.id, limit=5)],
        "pages": [[one.status for one in check.pages] for check in (first, second)],
        "changed": [changed.pages[0].url, changed.pages[0].diff.text, changed.pages[0].judgment.meaningful],
        "paused": paused.status,
        "deleted": app.delete_monitor(made.id),
        "left": app.list_monitors(),
    }


async def in_async(address: str) -> list[Any]:
    """Make and delete a monitor with the client for async code."""
    from firecrawl import AsyncFirecrawl

    app = AsyncFirecrawl(api_key="fc-any", api_url=address)
    targets = [{"type": "crawl", "url": ORIGIN}]
    made = await app.create_monitor("site", {"cron": "0 0 * * *", "timezone": "Europe/Berlin"}, targets)
    check = await app.run_monitor(made.id)
    while (detail := await app.get_monitor_check(made.id, check.id)).status in RUNNING:
        pass
    return [made.schedule.timezone, detail.status, len(detail.pages), await app.delete_monitor(made.id)]


def main(address: str, folder: Path) -> None:
    """Make the calls. An answer that the SDK cannot read ends the program."""
    warnings.simplefilter("ignore")
    from firecrawl import Firecrawl, V1FirecrawlApp

    app = Firecrawl(api_key="fc-any", api_url=address)
    v1 = V1FirecrawlApp(api_key="fc-any", api_url=address)  # `app.v1` has all of its calls but the watchers
    found = {
        "scrapes": scrapes(app.v1, folder),
        "jobs": jobs(v1),
        "monitors": monitors(app, folder),
        "async": asyncio.run(in_async(address)),
    }
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
