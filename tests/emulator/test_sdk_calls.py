"""Version 1 of the service's own SDK against the emulator over HTTP and WebSocket, and its client for async code.

The end-to-end suite of the SDK has none of these calls.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from firecrawl import AsyncFirecrawl, V1FirecrawlApp

from tests.doubles import soon
from tests.emulator.shop import SHOP, Shop, shop

pytestmark = pytest.mark.filterwarnings("ignore:The `.*` method is deprecated")
"""What the SDK does not do as pydantic wants it."""
ALL = [SHOP, f"{SHOP}/about", f"{SHOP}/contact"]


@pytest.fixture
async def one() -> AsyncIterator[Shop]:
    async with shop() as made:
        made.pages["/about"] = '<main><h1>About us</h1><a href="/contact">Contact</a></main>'
        made.pages["/contact"] = "<main><h1>Contact</h1></main>"
        yield made


@pytest.fixture
def app(one: Shop) -> Any:
    """The client of version 1: `v1` of the other client has all of its calls but the watchers."""
    return V1FirecrawlApp(api_key="fc-any", api_url=one.address)


async def call(function: Any, /, *args: Any, **options: Any) -> Any:
    """Make a call in a thread: the client blocks."""
    return await soon(asyncio.to_thread(function, *args, **options))


def sources(job: Any) -> list[str]:
    """Return where the documents of a job come from."""
    return sorted(one.metadata["sourceURL"] for one in job.data)


async def test_jobs_of_version_1_are_waited_for(one: Shop, app: Any) -> None:
    """The client asks every two seconds, and fails for a status that it does not know."""
    crawl, batch = await asyncio.gather(
        call(app.crawl_url, SHOP, limit=10),
        call(app.batch_scrape_urls, [SHOP, f"{SHOP}/about"], formats=["markdown", "links"]),
    )

    assert (crawl.status, crawl.completed, crawl.creditsUsed, sources(crawl)) == ("completed", 3, 3, ALL)
    assert (batch.status, sources(batch)) == ("completed", ALL[:2])


async def test_jobs_of_version_1_are_asked_for(one: Shop, app: Any) -> None:
    """Start, status, errors and cancel of a crawl and of a batch scrape; the client needs every field."""
    one.pages["/_redirects"] = "/contact /contact 302!\n"
    crawl = await call(app.async_crawl_url, SHOP, limit=10)
    batch = await call(app.async_batch_scrape_urls, [SHOP, f"{SHOP}/contact"])
    slow = await call(app.async_crawl_url, SHOP, delay=60)
    running = await call(app.check_crawl_status, slow.id)
    cancelled = await call(app.cancel_crawl, slow.id)
    await soon(one.emulator.settled())

    status = await call(app.check_crawl_status, crawl.id)
    assert (running.status, cancelled["status"]) == ("scraping", "cancelled")
    assert (status.status, status.completed, status.total, sources(status)) == ("completed", 2, 2, ALL[:2])
    many = await call(app.check_batch_scrape_status, batch.id)
    assert (many.status, sources(many)) == ("completed", ALL[:1])
    for name, job in (("check_crawl_errors", crawl), ("check_batch_scrape_errors", batch)):
        (error,) = (await call(getattr(app, name), job.id)).errors
        assert (error.url, error.code) == (ALL[2], "SCRAPE_SITE_ERROR")


@pytest.mark.parametrize("kind", ["crawl", "batch"])
async def test_a_watcher_of_version_1_sees_the_end(one: Shop, app: Any, kind: str) -> None:
    """It opens the same path for both kinds of jobs, and waits for a last message."""
    if kind == "crawl":
        watcher = await call(app.crawl_url_and_watch, SHOP, limit=10)
    else:
        watcher = await call(app.batch_scrape_urls_and_watch, ALL)
    documents, ends = list[Any](), list[Any]()
    watcher.add_event_listener("document", documents.append)
    for name in ("done", "error"):
        watcher.add_event_listener(name, ends.append)
    await soon(watcher.connect())

    assert sorted(one["data"]["metadata"]["sourceURL"] for one in documents) == ALL
    assert [(end["status"], len(end["data"])) for end in ends] == [("completed", 3)]


async def test_a_map_of_version_1_is_a_list_of_urls(one: Shop, app: Any) -> None:
    found = await call(app.map_url, SHOP, search="about")

    assert (found.links[0], sorted(found.links)) == (ALL[1], ALL)


async def test_the_client_for_async_code_runs_monitors(one: Shop) -> None:
    client = AsyncFirecrawl(api_key="fc-any", api_url=one.address)
    schedule = {"cron": "0 0 * * *", "timezone": "Europe/Berlin"}
    made = await client.create_monitor("Site", schedule, [{"type": "crawl", "url": SHOP}])
    run = await client.run_monitor(made.id)
    await soon(one.emulator.settled())
    check = await client.get_monitor_check(made.id, run.id, limit=1)

    assert (made.schedule.timezone, check.status, len(check.pages)) == ("Europe/Berlin", "completed", 3)
    assert [item.id for item in await client.list_monitor_checks(made.id)] == [run.id]
    assert (await client.update_monitor(made.id, name="Shop")).name == "Shop"
    assert await client.delete_monitor(made.id)
    assert await client.list_monitors() == []
