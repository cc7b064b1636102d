"""Both clients against the emulator: each operation is carried out, and its real answer is read."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from receiver.errors import BadRequest, Conflict, KeyRefused, NotFound, PaymentRequired, ServerError, ServiceError
from receiver.requests import ChangeTrackingFormat, CrawlTarget, Schedule, ScrapeTarget
from receiver.service.client import AsyncClient
from receiver.testing import RunningEmulator, SteppedClock, open_emulator

ORIGIN = "https://docs.acme.test"
UNKNOWN = "019f2c10-0000-7000-8000-000000000001"
NOT_YET = {"parse", "search"}
"""Operations that the emulator does not have. It answers them with 404."""


def page(text: str, *links: str) -> str:
    """Return a page with links."""
    listed = "".join(f'<a href="{link}">Go to {link}</a> ' for link in links)
    return f"<html><head><title>Acme</title></head><body><main><p>{text}</p>{listed}</main></body></html>"


@dataclass
class Caller:
    """One of the two clients of an emulator, called by the names of its operations."""

    kind: str
    emulator: RunningEmulator
    clock: SteppedClock
    site: dict[str, str]
    called: set[str] = field(default_factory=set)

    async def call(self, name: str, *args: Any, **options: Any) -> Any:
        """Call an operation and return its result."""
        self.called.add(name)
        if self.kind == "async":
            return await getattr(self.emulator.client, name)(*args, **options)
        return await asyncio.to_thread(getattr(self.emulator.clients.for_plain, name), *args, **options)

    async def pages(self, name: str, *args: Any, **options: Any) -> list[Any]:
        """Go through all pages of an operation."""
        self.called.add(name)
        if self.kind == "async":
            return [one async for one in getattr(self.emulator.client, name)(*args, **options)]
        plain = self.emulator.clients.for_plain
        return await asyncio.to_thread(lambda: list(getattr(plain, name)(*args, **options)))


@asynccontextmanager
async def calling(kind: str, **options: Any) -> AsyncIterator[Caller]:
    """Run an emulator with a small site, and one of the clients."""
    site = {
        "/": page("Start", "/prices", "/guide", "/loop", "/private"),
        "/prices": page("A lamp costs 12 euros."),
        "/guide": page("The guide"),
        "/private": page("Nobody reads this."),
        "/robots.txt": "User-agent: *\nDisallow: /private",
        "/_redirects": "/loop /loop 302!\n",
    }
    clock = SteppedClock()
    async with open_emulator({ORIGIN: site}, clock, **options) as emulator:
        yield Caller(kind, emulator, clock, site)


async def scrapes_and_maps(caller: Caller) -> None:
    """Version 1 and 2 of a scrape, a map, the queue."""
    first = await caller.call("scrape", f"{ORIGIN}/prices", formats=["markdown", "links"])
    assert (first.markdown, first.links, first.metadata.status_code) == ("A lamp costs 12 euros.", [], 200)
    options = {"version": 2, "max_age": 0, "formats": ["markdown", ChangeTrackingFormat(modes=["git-diff"])]}
    caller.site["/prices"] = page("A lamp costs 13 euros.")
    second = await caller.call("scrape", f"{ORIGIN}/prices", **options)
    assert second.change_tracking.change_status == "changed"
    assert "+A lamp costs 13 euros." in second.change_tracking.diff.text
    found = await caller.call("map", ORIGIN, search="guide")
    assert found.links[0].url == f"{ORIGIN}/guide"
    queue = await caller.call("queue_status")
    assert (queue.jobs_in_queue, queue.max_concurrency) == (0, 10)


async def crawls(caller: Caller) -> None:
    """Start, running and ended status, pages, errors, active crawls, cancel."""
    started = await caller.call("crawl", ORIGIN, limit=10, delay=1)
    assert [one.id for one in await caller.call("active_crawls")] == [started.id]
    assert not (await caller.call("crawl_status", started.id)).finished
    await caller.clock.advance(minutes=1)
    status = await caller.call("crawl_status", started.id)
    assert (status.status, status.completed, status.credits_used) == ("completed", 3, 3)
    pages = await caller.pages("crawl_pages", started.id, limit=2)
    assert [[one.metadata.source_url for one in part.data] for part in pages] == [
        [one.metadata.source_url for one in status.data[:2]],
        [status.data[2].metadata.source_url],
    ]
    errors = await caller.call("crawl_errors", started.id)
    assert [one.code for one in errors.errors] == ["SCRAPE_SITE_ERROR"]
    assert errors.robots_blocked == [f"{ORIGIN}/private"]
    other = await caller.call("crawl", ORIGIN, prompt="3 pages", delay=1)
    assert other.final_crawler_options["limit"] == 3
    await caller.call("cancel_crawl", other.id)
    await caller.clock.settle()
    assert (await caller.call("crawl_status", other.id)).status == "cancelled"
    with pytest.raises(Conflict, match="already completed"):
        await caller.call("cancel_crawl", started.id)


async def batches(caller: Caller) -> None:
    """Start, status, pages, errors, cancel."""
    urls = [ORIGIN, f"{ORIGIN}/prices", f"{ORIGIN}/loop"]
    started = await caller.call("batch_scrape", urls, ignore_invalid_urls=True, formats=["html"])
    assert started.invalid_urls == []
    await caller.clock.settle()
    status = await caller.call("batch_status", started.id)
    assert (status.status, status.completed, len(status.data)) == ("completed", 2, 2)
    assert len(await caller.pages("batch_pages", started.id, limit=1)) == 2
    (error,) = (await caller.call("batch_errors", started.id)).errors
    assert error.url == f"{ORIGIN}/loop"
    other = await caller.call("batch_scrape", urls * 100, max_concurrency=1)
    await caller.call("cancel_batch", other.id)
    assert (await caller.call("batch_status", other.id)).status == "cancelled"
    await caller.clock.settle()


async def extractions_and_agents(caller: Caller) -> None:
    """Start, status and result of both; the cancel of an agent."""
    schema = {"type": "object", "properties": {"price": {"type": "number"}}}
    caller.site["/offer"] = page("Price: 12 euros")
    started = await caller.call("extract", [f"{ORIGIN}/offer"], schema_=schema, show_sources=True)
    assert not (await caller.call("extract_status", started.id)).finished
    await caller.clock.settle()
    extracted = await caller.call("extract_status", started.id)
    assert (extracted.status, extracted.data, extracted.tokens_used) == ("completed", {"price": 12}, 75)
    assert extracted.sources == {"price": [f"{ORIGIN}/offer"]}
    begun = await caller.call("agent", "the price", urls=[f"{ORIGIN}/offer"], schema_=schema)
    assert begun.thread_turn == 1
    await caller.clock.settle()
    found = await caller.call("agent_status", begun.id)
    assert (found.status, found.data, found.credits_used) == ("completed", {"price": 12}, 5)
    with pytest.raises(Conflict, match="ended"):
        await caller.call("cancel_agent", begun.id)


async def monitors(caller: Caller) -> None:
    """Made, listed, read, changed, run, deleted; checks and their pages."""
    made = await caller.call(
        "create_monitor",
        "prices",
        schedule=Schedule(cron="0 * * * *", timezone="Europe/Berlin"),
        targets=[ScrapeTarget(urls=[f"{ORIGIN}/prices"]), CrawlTarget(url=ORIGIN)],
        goal="Tell me of prices",
    )
    assert (made.status, made.judge_enabled, made.schedule.timezone) == ("active", True, "Europe/Berlin")
    queued = await caller.call("run_monitor", made.id)
    assert (queued.status, queued.finished) == ("queued", False)
    await caller.clock.settle()
    caller.site["/prices"] = page("A lamp costs 14 euros.")
    await caller.clock.advance(hours=1)
    done, first = await caller.call("checks", made.id)
    assert (first.id, done.trigger, done.status) == (queued.id, "scheduled", "partial")
    (changed,) = (await caller.call("check", made.id, done.id, status="changed", limit=1)).pages
    assert "+A lamp costs 14 euros." in changed.diff.text
    assert (changed.judgment.meaningful, changed.judgment.confidence) == (True, "low")
    pages = [one for part in await caller.pages("check_pages", made.id, done.id, limit=2) for one in part.pages]
    assert len(pages) == done.summary.total_pages == 5
    assert (await caller.call("update_monitor", made.id, status="paused")).next_run_at is None
    (listed,) = await caller.call("monitors", limit=5)
    read = await caller.call("monitor", made.id)
    assert (listed.id, read.last_check_summary) == (made.id, done.summary)
    await caller.call("delete_monitor", made.id)
    with pytest.raises(NotFound, match="Monitor not found"):
        await caller.call("monitor", made.id)


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_each_operation_is_carried_out(kind: str) -> None:
    """Every operation that the client has, but those that the emulator does not have yet."""
    async with calling(kind) as caller:
        await scrapes_and_maps(caller)
        await crawls(caller)
        await batches(caller)
        await monitors(caller)
        await extractions_and_agents(caller)

    operations = {name for name, value in vars(AsyncClient).items() if hasattr(value, "__wrapped__")}
    assert caller.called == operations - NOT_YET


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_refusals_are_errors_by_who_has_to_act(kind: str) -> None:
    """The status of the real answer chooses the class; its text is shown."""
    async with calling(kind, credits=1) as caller:
        expected: list[tuple[type[ServiceError], str, tuple[Any, ...]]] = [
            (NotFound, "crawl_status", (UNKNOWN,)),
            (BadRequest, "crawl_status", ("1",)),
            (ServerError, "scrape", (f"{ORIGIN}/loop",)),
            (NotFound, "agent_status", (UNKNOWN,)),
        ]
        for error, name, args in expected:
            with pytest.raises(error):
                await caller.call(name, *args)
        await caller.call("scrape", ORIGIN)
        with pytest.raises(PaymentRequired, match="credits"):
            await caller.call("scrape", ORIGIN)
    async with calling(kind, keys=("fc-another",)) as caller:
        with pytest.raises(KeyRefused, match="Invalid token"):
            await caller.call("scrape", ORIGIN)
