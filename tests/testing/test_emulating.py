"""The service in process: a test crawls a site and looks at what its handlers did."""

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from receiver import Context, Router
from receiver.events import (
    AgentAction,
    AgentCompleted,
    BatchScrapePage,
    CrawlCompleted,
    CrawlPage,
    ExtractCompleted,
)
from receiver.testing import RunningEmulator, SteppedClock, Work, assert_handled

SITE = {
    "https://docs.acme.test": {
        "/": '<title>Start</title><main><h1>Start</h1><a href="/install">Install</a> <a href="/faq">FAQ</a></main>',
        "/install": "<title>Install</title><main><h1>Install</h1><p>Do this.</p></main>",
        "/faq": "<title>FAQ</title><main><h1>FAQ</h1><p>Ask that.</p></main>",
    }
}


@pytest.fixture
def seen() -> list[Any]:
    """What the handlers have seen, in order."""
    return []


@pytest.fixture
def receiver_sites() -> dict[str, dict[str, str]]:
    """The site of these tests."""
    return SITE


@pytest.fixture
def receiver_router(seen: list[Any]) -> Router:
    """Handlers that note what they see, and one that asks the service."""
    router = Router()

    @router.on(CrawlPage)
    async def page(event: CrawlPage) -> None:
        seen.append((event.url, event.page.markdown if event.page else None))

    @router.on(CrawlCompleted)
    async def end(event: CrawlCompleted, ctx: Context) -> None:
        status = await ctx.client.crawl_status(ctx.job_id or "")
        seen.append(status.completed)

    @router.on(BatchScrapePage)
    def plain(event: BatchScrapePage, ctx: Context) -> None:
        seen.append(ctx.sync_client.batch_status(ctx.job_id or "").status)

    @router.on(ExtractCompleted)
    async def extracted(event: ExtractCompleted) -> None:
        result = event.result
        seen.append((result.data, result.sources, result.total_urls_scraped, result.credits_billed))

    @router.on(AgentAction)
    async def step(event: AgentAction) -> None:
        seen.append((event.action.action, event.action.input["url"], event.action.credits_used))

    @router.on(AgentCompleted)
    async def found(event: AgentCompleted) -> None:
        seen.append((event.result.data, event.result.credits_used))

    return router


async def test_a_crawl_runs_the_handlers(
    receiver_emulator: RunningEmulator, receiver_work_items: Any, seen: list[Any]
) -> None:
    """Each page of the site arrives with its content, signed, and the end of the job comes last."""
    job = await receiver_emulator.crawl("https://docs.acme.test", limit=10)

    assert (job.status, job.completed) == ("completed", 3)
    work: list[Work] = await receiver_work_items()
    assert_handled(work)
    pages: dict[str, str] = dict(one for one in seen if isinstance(one, tuple))
    assert pages.keys() == {f"https://docs.acme.test{path}" for path in ("", "/install", "/faq")}
    assert pages["https://docs.acme.test/install"] == "# Install\n\nDo this."
    assert 3 in seen


async def test_a_plain_handler_asks_the_service_too(
    receiver_emulator: RunningEmulator, receiver_work_items: Any, seen: list[Any]
) -> None:
    """`ctx.sync_client` reaches the emulator from a thread."""
    await receiver_emulator.batch_scrape(["https://docs.acme.test/faq"])

    assert_handled(await receiver_work_items())
    assert seen in (["scraping"], ["completed"])


async def test_an_extraction_and_an_agent_run_the_handlers(
    receiver_emulator: RunningEmulator, receiver_work_items: Any, seen: list[Any]
) -> None:
    """Results and steps arrive as the classes of `receiver.events`."""
    schema = {"type": "object", "properties": {"title": {"type": "string"}}}
    pages = ["https://docs.acme.test/install"]
    extracted = await receiver_emulator.extract(pages, schema_=schema, show_sources=True)
    found = await receiver_emulator.agent("the title", urls=pages, schema_=schema)

    assert extracted.data == found.data == {"title": "Install"}
    assert_handled(await receiver_work_items())
    assert seen == [
        ({"title": "Install"}, {"title": pages}, 1, 5),
        ("scrape", pages[0], 5),
        ({"title": "Install"}, 5),
    ]


async def test_events_come_with_the_retry_after_an_outage(
    receiver_emulator: RunningEmulator, receiver_app: Any, receiver_clock: SteppedClock, receiver_work_items: Any
) -> None:
    """By the schedule of the service, on the clock of the test."""
    receiver_emulator.reach(None)
    await receiver_emulator.crawl("https://docs.acme.test", limit=10)
    assert await receiver_work_items() == []

    receiver_emulator.reach(receiver_app)
    await receiver_clock.advance(dt.timedelta(minutes=1, seconds=1))

    assert len(await receiver_work_items(type="crawl.page")) == 3


async def test_a_folder_is_a_site_too(tmp_path: Path) -> None:
    """Its files are read at each request."""
    from receiver.testing import open_emulator

    (tmp_path / "index.html").write_text("<title>One</title><main><p>First</p></main>")
    async with open_emulator({"https://docs.acme.test": tmp_path}, SteppedClock()) as emulator:
        first = await emulator.client.scrape("https://docs.acme.test")
        (tmp_path / "index.html").write_text("<title>One</title><main><p>Second</p></main>")
        second = await emulator.client.scrape("https://docs.acme.test", max_age=0)

    assert [first.markdown, second.markdown] == ["First", "Second"]
