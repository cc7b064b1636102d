"""A small web for tests of the emulator's scraper and monitors, and stand-ins for what they talk to."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from receiver.core.clock import VirtualClock
from receiver.emulator.content.page import PageReaders
from receiver.emulator.contracts import WebhookTarget
from receiver.emulator.extraction.model import LanguageModel
from receiver.emulator.failures import ScrapeFailed
from receiver.emulator.ids import IdSource
from receiver.emulator.scrapes import FetchedPage, ScrapePlan
from receiver.emulator.scraping import cache, history
from receiver.emulator.scraping.ports import AddressGuard, ReadPage
from receiver.emulator.scraping.scraper import PageScraper
from receiver.emulator.state.database import StateDatabase
from receiver.emulator.webhooks.table import PreparedDelivery
from receiver.emulator.working.processes import HeavyWork, WorkProcesses

Json = dict[str, Any]
HOME = "https://shop.example/"
TEAM = "team-1"
SCHEMAS = (cache.SCHEMA, history.SCHEMA, cache.KEPT_SCHEMA)


@dataclass(slots=True)
class Web:
    """Pages by their URL. What is not there answers 404."""

    clock: VirtualClock
    pages: dict[str, str | bytes] = field(default_factory=dict)
    statuses: dict[str, int] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    moved: dict[str, str] = field(default_factory=dict)
    failures: dict[str, Exception] = field(default_factory=dict)
    fetched: list[str] = field(default_factory=list)
    gate: asyncio.Event | None = None
    shut_after: int | None = None
    """After so many pages the gate is shut."""

    def show(self, text: str, url: str = HOME) -> None:
        self.pages[url] = page_of(text)

    async def fetch(self, plan: ScrapePlan) -> FetchedPage:
        if self.gate is not None and len(self.fetched) == self.shut_after:
            self.gate.clear()
        self.fetched.append(plan.url)
        if self.gate is not None:
            await self.gate.wait()
        if plan.url in self.failures:
            raise self.failures[plan.url]
        body = self.pages.get(plan.url, page_of("Nothing here"))
        return FetchedPage(
            source_url=plan.url,
            url=self.moved.get(plan.url, plan.url),
            status=self.statuses.get(plan.url, 200 if plan.url in self.pages else 404),
            content_type=self.types.get(plan.url, "text/html; charset=utf-8"),
            body=body.encode() if isinstance(body, str) else body,
            fetched_at=self.clock.now(),
        )


def page_of(text: str, head: str = "<title>A page</title>") -> str:
    return f"<html><head>{head}</head><body><main>{text}</main></body></html>"


@dataclass(slots=True)
class Scene:
    """A scraper, its web and its clock."""

    scraper: PageScraper
    web: Web
    clock: VirtualClock
    database: StateDatabase
    work: HeavyWork

    async def scrape(self, url: str = HOME, *formats: str | Json, team: str = TEAM, **options: Any) -> Json:
        page = await self.scraper.scrape(plan_of(url, *formats, **options), history_team=team)
        return page.document


def plan_of(url: str = HOME, *formats: str | Json, **options: Any) -> ScrapePlan:
    objects = tuple({"type": one} if isinstance(one, str) else one for one in formats or ("markdown",))
    return ScrapePlan(url=url, formats=objects, **options)


def tracking(*modes: str, **options: Any) -> Json:
    return {"type": "changeTracking", "modes": list(modes), **options}


@asynccontextmanager
async def scene(
    file: Path | None = None,
    *,
    clock: VirtualClock | None = None,
    guard: AddressGuard | None = None,
    model: LanguageModel | None = None,
    read: ReadPage | None = None,
    work: HeavyWork | None = None,
    max_concurrency: int = 10,
    schemas: tuple[str, ...] = (),
    refuses: bool = False,
) -> AsyncIterator[Scene]:
    clock = clock or VirtualClock()
    web = Web(clock)
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(StateDatabase(file, (*SCHEMAS, *schemas)))
        processes = await stack.enter_async_context(WorkProcesses())
        readers = await stack.enter_async_context(PageReaders(processes))
        scraper = PageScraper(
            fetch=web.fetch,
            read=read or readers.read,
            database=database,
            clock=clock,
            ids=IdSource(clock, 1),
            guard=guard,
            model=model,
            work=work or processes,
            max_concurrency=max_concurrency,
            refuses=refuses,
        )
        yield Scene(scraper, web, clock, database, work or processes)


async def failure_of(scraping: Any) -> ScrapeFailed:
    """Return how a scrape failed."""
    try:
        await scraping
    except ScrapeFailed as exc:
        return exc
    raise AssertionError("the scrape succeeded")


@dataclass(slots=True)
class Purse:
    """An account with some credits."""

    credits: int = 1_000
    charged: list[int] = field(default_factory=list)

    async def remaining(self, team: str) -> int:
        return self.credits

    async def charge(self, team: str, amount: int) -> None:
        self.charged.append(amount)
        self.credits = max(0, self.credits - amount)

    def charge_within(self, connection: sqlite3.Connection, team: str, amount: int) -> None:
        self.charged.append(amount)
        self.credits = max(0, self.credits - amount)

    def pay_within(self, connection: sqlite3.Connection, team: str, amount: int) -> bool:
        raise AssertionError("a check is paid for whatever is left")


@dataclass(slots=True)
class Mailbox:
    """Keeps events in place of sending them."""

    events: list[Json] = field(default_factory=list)
    woken: list[str] = field(default_factory=list)
    full_after: int | None = None

    def prepare(
        self,
        target: WebhookTarget | None,
        event_type: str,
        job_id: str,
        *,
        success: bool = True,
        data: list[Json] | None = None,
        error: str | None = None,
    ) -> PreparedDelivery | None:
        if target is None:
            return None
        event = {"type": event_type, "id": job_id, "success": success, "data": data, "error": error}
        return PreparedDelivery(
            id=f"{job_id}-{len(self.events)}",
            url=target.url,
            headers={},
            type=event_type,
            job_id=job_id,
            body=json.dumps(event).encode(),
            copies=1,
            state="attempt",
            created_at=VirtualClock().now(),
            due_at=None,
        )

    def keep(self, connection: sqlite3.Connection, *prepared: PreparedDelivery | None) -> None:
        if len(self.events) == self.full_after:
            raise sqlite3.OperationalError("database or disk is full")
        self.events += [json.loads(one.body or b"") for one in prepared if one is not None]

    def wake(self, *prepared: PreparedDelivery | None) -> None:
        self.woken += [one.type for one in prepared if one is not None]

    def of(self, event_type: str) -> list[Json]:
        return [one for one in self.events if one["type"] == event_type]


def model_that(answer: Callable[[httpx.Request], httpx.Response]) -> LanguageModel:
    """Return a model whose endpoint is a function."""
    return LanguageModel("http://model.test/v1", key="k", name="m", transport=httpx.MockTransport(answer))


def said(content: str | None, **message: Any) -> httpx.Response:
    """Return a chat completion with one answer."""
    return httpx.Response(200, json={"choices": [{"message": {"content": content, **message}}]})
