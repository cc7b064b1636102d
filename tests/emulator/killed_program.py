"""A program that tests kill: `python -m tests.emulator.killed_program crawl|check|put STATE HOOK`.

It crawls a made site, checks it by a monitor, or puts webhooks into the outbox, and prints a line for what is kept.
"""

import asyncio
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from receiver.core.clock import SystemClock
from receiver.emulator.account.account import SCHEMA as CREDIT_SCHEMA
from receiver.emulator.account.account import CreditLedger, TeamSlots
from receiver.emulator.contracts import WebhookTarget
from receiver.emulator.ids import IdSource
from receiver.emulator.jobs.crawls import CrawlContext, CrawlEngine
from receiver.emulator.jobs.sites import SiteRules
from receiver.emulator.monitors import table as monitor_tables
from receiver.emulator.monitors.checks import CheckContext
from receiver.emulator.monitors.service import Monitors
from receiver.emulator.monitors.site_crawls import QuietCrawler
from receiver.emulator.state.database import StateDatabase
from receiver.emulator.webhooks.outbox import Outbox
from receiver.emulator.wire.jobs import CrawlPlan
from tests.emulator.world import SCHEMAS, SITE, TEAM, MadePage, MadeRules, MadeScraper, put

PAGES = 400
CREDITS = 100_000


def made_site() -> dict[str, MadePage]:
    """Return a site in which each page leads to the next two."""
    numbers = range(PAGES)
    return {
        f"{SITE}/{one}": MadePage([f"{SITE}/{to}" for to in (2 * one + 1, 2 * one + 2) if to < PAGES])
        for one in numbers
    }


async def open_context(stack: AsyncExitStack, state: Path) -> tuple[CrawlContext, Outbox]:
    """Open what runs jobs over the made site, on the clock of the machine and over the network."""
    clock = SystemClock()
    ids = IdSource(clock)

    async def open_site(plan: CrawlPlan) -> SiteRules:
        return MadeRules()

    schemas = (*SCHEMAS, CREDIT_SCHEMA, monitor_tables.SCHEMA)
    database = await stack.enter_async_context(StateDatabase(state, schemas))
    outbox = await stack.enter_async_context(Outbox(database, clock=clock, ids=ids))
    context = CrawlContext(
        database=database,
        scraper=MadeScraper(made_site(), ids),
        events=outbox,
        account=CreditLedger(database, clock, initial=CREDITS),
        clock=clock,
        ids=ids,
        open_site=open_site,
        slots=TeamSlots(10),
    )
    return context, outbox


async def open_jobs(stack: AsyncExitStack, state: Path) -> tuple[CrawlEngine, Outbox]:
    """Open jobs over the made site."""
    context, outbox = await open_context(stack, state)
    return await stack.enter_async_context(CrawlEngine(context)), outbox


async def open_monitors(stack: AsyncExitStack, state: Path) -> tuple[Monitors, Outbox]:
    """Open monitors over the made site."""
    context, outbox = await open_context(stack, state)
    checks = CheckContext(
        database=context.database,
        scraper=context.scraper,
        events=outbox,
        account=context.account,
        clock=context.clock,
        ids=context.ids,
        sites=QuietCrawler(context),
    )
    return await stack.enter_async_context(Monitors(checks)), outbox


def made_monitor(hook: str) -> dict[str, Any]:
    """Return a monitor of one half of the pages by their URLs, and of all of them by a crawl."""
    listed = [f"{SITE}/{number}" for number in range(PAGES // 2)]
    return {
        "name": "The made site",
        "schedule": {"cron": "0 0 1 1 *"},
        "webhook": hook,
        "targets": [
            {"type": "scrape", "urls": listed},
            {"type": "crawl", "url": f"{SITE}/0", "crawlOptions": {"sitemap": "skip"}},
        ],
    }


async def main(what: str, state: Path, hook: str) -> None:
    """Work until somebody kills the program."""
    target = WebhookTarget(hook)
    async with AsyncExitStack() as stack:
        if what == "check":
            monitors, _ = await open_monitors(stack, state)
            monitor = await monitors.create(TEAM, made_monitor(hook))
            _tell(f"{monitor['id']} {(await monitors.run(TEAM, monitor['id']))['id']}")
            await asyncio.Event().wait()
        if what == "crawl":
            engine, _ = await open_jobs(stack, state)
            job = await engine.start(CrawlPlan(url=f"{SITE}/0", webhook=target, sitemap="skip"), TEAM)
            _tell(job.id)
            await asyncio.Event().wait()
        context, outbox = await open_context(stack, state)
        number = 0
        while True:
            await put(outbox, context.database, target, "crawl.page", "job-1", data=[{"number": number}])
            _tell(str(number))
            number += 1


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3]))
