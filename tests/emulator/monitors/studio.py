"""Monitors over a small web, as the operations use them."""

import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from receiver.core.clock import VirtualClock
from receiver.emulator.activity import Activity
from receiver.emulator.api.calls import Answer, ApiCall
from receiver.emulator.api.monitors import MonitorOperations
from receiver.emulator.extraction.model import LanguageModel
from receiver.emulator.failures import ScrapeFailed
from receiver.emulator.ids import IdSource
from receiver.emulator.monitors import table
from receiver.emulator.monitors.checks import CheckContext
from receiver.emulator.monitors.findings import ChangeJudge, SitePage
from receiver.emulator.monitors.service import Monitors
from receiver.emulator.wire.jobs import CrawlPlan
from receiver.emulator.working.processes import HeavyWork
from tests.doubles import turns
from tests.emulator.pages import HOME, TEAM, Mailbox, Purse, Scene, Web, plan_of, scene

Json = dict[str, Any]
HOURLY = {"cron": "0 * * * *"}
_SKIPPED = "SELECT 1 FROM monitor_checks WHERE status LIKE 'skipped%'"
HOOK = "https://hook.example/"


@dataclass(slots=True)
class MadeSite:
    """A site whose pages a test names."""

    scene: Scene
    urls: list[str] = field(default_factory=list)
    failure: ScrapeFailed | None = None
    crawled: list[CrawlPlan] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)

    async def pages(self, plan: CrawlPlan, *, team: str, crawl_id: str) -> AsyncGenerator[SitePage, None]:
        self.crawled.append(plan)
        if self.failure is not None:
            raise self.failure
        for url in self.urls:
            try:
                scraping = plan_of(url, *plan.scrape.formats)
                yield SitePage(url, await self.scene.scraper.scrape(scraping, history_team=team))
            except ScrapeFailed as exc:
                yield SitePage(url, exc)

    def forget(self, connection: sqlite3.Connection, crawl_id: str) -> None:
        self.forgotten.append(crawl_id)


@dataclass(slots=True)
class Studio:
    """Monitors, their operations, and what they talk to."""

    scene: Scene
    monitors: Monitors
    operations: MonitorOperations
    web: Web
    clock: VirtualClock
    mailbox: Mailbox
    purse: Purse
    site: MadeSite
    activity: Activity

    async def create(self, *targets: Json, **body: Any) -> Json:
        made = {"name": "A monitor", "schedule": HOURLY, "targets": list(targets) or [pages_target()]}
        return await self.monitors.create(TEAM, {**made, "webhook": HOOK, **body})

    async def check(self, monitor: Json) -> Json:
        """Run a check to its end, and return its record with its pages."""
        started = await self.monitors.run(TEAM, monitor["id"])
        await self.monitors.over()
        return await self.answer(monitor, started["id"])

    async def answer(self, monitor: Json, check_id: str, **query: str) -> Json:
        call = self.call(id=monitor["id"], checkId=check_id)
        answer = await self.operations.check(
            ApiCall(version=2, team=TEAM, path=call.path, query=query, base_url="http://e")
        )
        data: Json = answer.body["data"]
        return data

    async def checks(self, monitor: Json, **query: str) -> list[Json]:
        answer = await self.operations.checks(
            ApiCall(version=2, team=TEAM, path={"id": monitor["id"]}, query=query, base_url="http://e")
        )
        data: list[Json] = answer.body["data"]
        return data

    def call(self, body: Json | None = None, nulls: frozenset[str] = frozenset(), **path: str) -> ApiCall:
        return ApiCall(version=2, team=TEAM, path=path, body=body or {}, nulls=nulls)

    async def passes(self, duration: timedelta) -> None:
        """Let time pass, and everything happen that is due."""
        await self.idle()
        self.clock.advance(duration)
        await self.idle()

    async def skipped(self) -> None:
        """Return when a run was skipped."""
        while True:
            await turns(1)
            if await self.scene.database.run(lambda connection: connection.execute(_SKIPPED).fetchone()):
                return

    async def idle(self) -> None:
        for _ in range(3):
            await turns()
            await self.activity.over()
            await self.monitors.over()


def pages_target(*urls: str, **options: Any) -> Json:
    return {"type": "scrape", "urls": list(urls) or [HOME], **({"scrapeOptions": options} if options else {})}


def site_target(**options: Any) -> Json:
    return {"type": "crawl", "url": HOME, **({"scrapeOptions": options} if options else {})}


@asynccontextmanager
async def studio(
    file: Path | None = None,
    *,
    clock: VirtualClock | None = None,
    model: LanguageModel | None = None,
    work: HeavyWork | None = None,
    **options: Any,
) -> AsyncIterator[Studio]:
    async with scene(file, clock=clock, model=model, work=work, schemas=(table.SCHEMA,)) as one:
        mailbox, purse, site, activity = Mailbox(), Purse(), MadeSite(one), Activity()
        context = CheckContext(
            database=one.database,
            scraper=one.scraper,
            work=one.work,
            events=mailbox,
            account=purse,
            clock=one.clock,
            ids=IdSource(one.clock, 2),
            sites=site,
            judge=ChangeJudge(one.scraper.extractor),
            activity=activity,
        )
        async with Monitors(context, **options) as monitors:
            yield Studio(
                one, monitors, MonitorOperations(monitors), one.web, one.clock, mailbox, purse, site, activity
            )


async def succeeded(answer: Awaitable[Answer]) -> Any:
    """Return the data of an answer."""
    body = (await answer).body
    assert body["success"] is True
    return body.get("data")
