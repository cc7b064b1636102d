"""How fast the emulator crawls: `python -m tests.benchmarks.crawl [--pages N] [--json FILE]`.

A made site is crawled in process, each case in a process of its own: pages are fetched, cleaned, converted and
kept, with and without a webhook for each page, with the state in memory and in a file. `jobs alone` crawls without
fetching and converting. Resident memory is taken when the tenth part of the pages is done, and at the end: the
difference is what the other pages have left behind, their results in memory among it.
"""

import argparse
import asyncio
import multiprocessing
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from receiver.core.clock import SystemClock
from receiver.emulator.account.account import TeamSlots
from receiver.emulator.activity import Activity
from receiver.emulator.app import Emulator
from receiver.emulator.contracts import WebhookTarget
from receiver.emulator.ids import IdSource
from receiver.emulator.jobs.crawls import CrawlContext, CrawlEngine
from receiver.emulator.jobs.sites import SiteRules
from receiver.emulator.options import EmulatorOptions
from receiver.emulator.scrapes import ScrapedPage, ScrapePlan
from receiver.emulator.state.database import StateDatabase
from receiver.emulator.webhooks.outbox import Outbox
from receiver.emulator.wire.jobs import CrawlPlan
from tests.benchmarks.report import table, write_json
from tests.benchmarks.servers import memory_kib_of, real_folder
from tests.emulator.world import SCHEMAS, MadeAccount, MadeRules

Row = dict[str, Any]

SITE = "https://site.test"
HOOK = "http://127.0.0.1:9/webhooks"
_MENU, _NEXT = 30, 10
"""Links of each page to the first pages, and to pages that no page before it has."""
_PARAGRAPH = "<p>Lorem <b>ipsum</b> dolor sit amet, <a href='/p/1'>consectetur</a> adipiscing elit, sed do.</p>\n"
_PARAGRAPHS = 30
_LOOK_EVERY_SECONDS = 0.2
_TARGET = WebhookTarget(HOOK)


@dataclass(frozen=True)
class CrawlCase:
    """What is crawled, and how."""

    name: str
    webhooks: bool = False
    in_file: bool = False
    alone: bool = False


CASES = (
    CrawlCase("crawl"),
    CrawlCase("crawl, state in a file", in_file=True),
    CrawlCase("crawl, webhooks", webhooks=True),
    CrawlCase("crawl, webhooks, state in a file", webhooks=True, in_file=True),
    CrawlCase("jobs alone", alone=True),
    CrawlCase("jobs alone, webhooks, state in a file", webhooks=True, in_file=True, alone=True),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 if a crawl did not bring every page."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.crawl", description=__doc__)
    parser.add_argument("--pages", type=int, default=10_000)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--folder", type=Path, default=Path.cwd(), help="on a real disk")
    chosen = parser.parse_args(arguments)
    rows = []
    context = multiprocessing.get_context("spawn")
    for case in CASES:
        with real_folder(chosen.folder) as folder, context.Pool(1) as pool:
            rows.append(pool.apply(measure, (case, chosen.pages, folder / "emulator.db")))
    table(f"a site of {chosen.pages:,} pages", rows)
    write_json(chosen.json, {"crawls": rows})
    return 0 if all(row["completed"] == chosen.pages for row in rows) else 1


def measure(case: CrawlCase, pages: int, state: Path) -> Row:
    """Crawl once in this process."""
    return asyncio.run((_crawl_alone if case.alone else _crawl)(case, pages, state if case.in_file else None))


async def _crawl(case: CrawlCase, pages: int, state: Path | None) -> Row:
    options = EmulatorOptions(sites={SITE: made_site(pages)}, bundled_site=False, state=state)
    emulator = Emulator(options, transport=httpx.MockTransport(lambda request: httpx.Response(200)))
    async with (
        emulator.lifespan(),
        httpx.AsyncClient(transport=httpx.ASGITransport(emulator), base_url="http://emulator.test") as client,
    ):
        client.headers["Authorization"] = "Bearer fc-any"
        body: Row = {"url": f"{SITE}/p/0", "limit": pages, "crawlEntireDomain": True, "sitemap": "skip"}
        body |= {"webhook": HOOK} if case.webhooks else {}

        async def completed(job_id: str) -> int:
            answer = await client.get(f"/v2/crawl/{job_id}", params={"limit": 1})
            return int(answer.json()["completed"])

        began = time.perf_counter()
        job_id = (await client.post("/v2/crawl", json=body)).json()["id"]
        return await _row(case, pages, began, emulator.activity, lambda: completed(job_id))


async def _row(
    case: CrawlCase, pages: int, began: float, activity: Activity, completed: Callable[[], Awaitable[int]]
) -> Row:
    """Return the figures of a crawl that began, and of what followed from it."""
    early: int | None = None
    over = asyncio.create_task(activity.over())
    while not over.done():
        await asyncio.wait((over,), timeout=_LOOK_EVERY_SECONDS)
        if early is None and await completed() >= pages // 10:
            early = _memory_mib()
    seconds = time.perf_counter() - began
    done = await completed()
    return {
        "case": case.name,
        "completed": done,
        "pages/s": done / seconds,
        "MiB at a tenth": early or 0,
        "MiB at the end": _memory_mib(),
    }


def _memory_mib() -> int:
    memory = memory_kib_of(os.getpid())
    return 0 if memory is None else memory[0] // 1024


def made_site(pages: int) -> dict[str, str]:
    """Return a site of which each page is a few kilobytes and has many links."""
    return {f"/p/{number}": _page(number, pages) for number in range(pages)}


def links_of(number: int, pages: int) -> list[str]:
    """Return the links of a page: a menu that all pages have, and pages of its own."""
    first = number * _NEXT + 1
    own = range(first, min(pages, first + _NEXT))
    return [f"/p/{to}" for to in (*range(min(_MENU, pages)), *own)]


def _page(number: int, pages: int) -> str:
    links = "".join(f"<li><a href='{path}'>Page {path}</a></li>" for path in links_of(number, pages))
    title = f"<title>Page {number}</title>"
    return f"<!doctype html>{title}<h1>Page {number}</h1><ul>{links}</ul>{_PARAGRAPH * _PARAGRAPHS}"


class _NoFetching:
    """A Scraper of the made site that neither fetches nor converts."""

    def __init__(self, pages: int, ids: IdSource) -> None:
        self._pages = pages
        self._ids = ids

    async def scrape(self, plan: ScrapePlan, *, history_team: str = "") -> ScrapedPage:
        number = int(plan.url.rpartition("/")[2])
        scrape_id = self._ids.new()
        markdown = f"# Page {number}\n\n" + "Lorem **ipsum** dolor sit amet, consectetur adipiscing elit.\n" * 50
        return ScrapedPage(
            scrape_id=scrape_id,
            source_url=plan.url,
            url=plan.url,
            status=200,
            document={"markdown": markdown, "metadata": {"scrapeId": scrape_id, "sourceURL": plan.url}},
            links=tuple(f"{SITE}{path}" for path in links_of(number, self._pages)),
            credits=1,
        )


async def _crawl_alone(case: CrawlCase, pages: int, state: Path | None) -> Row:
    clock, activity = SystemClock(), Activity()
    ids = IdSource(clock)

    async def open_site(plan: CrawlPlan) -> SiteRules:
        return MadeRules(asked=_Forgetful())

    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(StateDatabase(state, SCHEMAS))
        transport = httpx.MockTransport(lambda request: httpx.Response(200))
        outbox = Outbox(database, clock=clock, ids=ids, activity=activity, transport=transport)
        context = CrawlContext(
            database=database,
            scraper=_NoFetching(pages, ids),
            events=await stack.enter_async_context(outbox),
            account=MadeAccount(),
            clock=clock,
            ids=ids,
            activity=activity,
            open_site=open_site,
            slots=TeamSlots(10),
        )
        engine = await stack.enter_async_context(CrawlEngine(context))
        began = time.perf_counter()
        plan = CrawlPlan(url=f"{SITE}/p/0", limit=pages, webhook=_TARGET if case.webhooks else None)
        job = await engine.start(plan, "team")

        async def completed() -> int:
            return (await engine.get(job.id, "team")).completed

        return await _row(case, pages, began, activity, completed)


class _Forgetful(list[str]):
    def append(self, item: str) -> None:
        """Keep nothing."""


if __name__ == "__main__":
    sys.exit(main())
