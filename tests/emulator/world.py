"""A made site, an endpoint and a clock for jobs and webhooks: nothing here waits or touches a network."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx

from receiver.core.clock import VirtualClock
from receiver.emulator.account.account import TeamSlots
from receiver.emulator.activity import Activity
from receiver.emulator.api.calls import Answer, ApiCall, ApiOperation
from receiver.emulator.api.jobs import batch_operations, crawl_operations
from receiver.emulator.contracts import JobFaults, WebhookTarget
from receiver.emulator.failures import ScrapeFailed, TooManyAtOnce
from receiver.emulator.ids import IdSource, open_ids
from receiver.emulator.jobs import table as jobs
from receiver.emulator.jobs.crawls import CrawlContext, CrawlEngine
from receiver.emulator.jobs.records import JobRecord
from receiver.emulator.jobs.sites import LinkDenial, SiteRules
from receiver.emulator.json_text import to_json
from receiver.emulator.scrapes import ScrapedPage, ScrapePlan
from receiver.emulator.state.database import StateDatabase
from receiver.emulator.webhooks import table
from receiver.emulator.webhooks.outbox import Outbox
from receiver.emulator.wire.bodies import RequestPolicy
from receiver.emulator.wire.jobs import BatchPlan, CrawlPlan
from tests.doubles import soon

SITE = "https://site.test"
HOOK = "http://127.0.0.1:9/webhooks"
SCHEMAS = (jobs.SCHEMA, table.SCHEMA)
TEAM = "team-1"


@dataclass(frozen=True)
class MadePage:
    """A page of the made site."""

    links: Sequence[str] = ()
    fails: str | None = None
    """Code of the failure."""
    fails_for: int = 0
    """What the failure costs."""
    leads_to: str | None = None
    markdown: str = "# Page"
    warning: str | None = None
    crashes: bool = False


@dataclass
class MadeScraper:
    """A Scraper over pages by URL."""

    pages: Mapping[str, MadePage]
    ids: IdSource
    scraped: list[str] = field(default_factory=list)
    running: int = 0
    most: int = 0
    refusals: int = 0
    """How many of the next scrapes find no place."""
    _free: int = 1 << 30
    _held: asyncio.Event = field(default_factory=asyncio.Event)

    def hold_after(self, count: int) -> asyncio.Event:
        """Let this many pages end; the others are begun and do not end before the event is set."""
        self._free = count
        return self._held

    async def scrape(self, plan: ScrapePlan, *, history_team: str = "") -> ScrapedPage:
        self.scraped.append(plan.url)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(0)
            if self.refusals:
                self.refusals -= 1
                raise TooManyAtOnce(1)
            self._free -= 1
            if self._free < 0:
                await self._held.wait()
            return self._page(plan)
        finally:
            self.running -= 1

    def _page(self, plan: ScrapePlan) -> ScrapedPage:
        page = self.pages.get(plan.url, MadePage(fails="SCRAPE_SITE_ERROR"))
        if page.crashes:
            raise RuntimeError("a fault in the code")
        if page.fails is not None:
            raise ScrapeFailed(page.fails, f"no page: {page.fails}", credits=page.fails_for)
        final = page.leads_to or plan.url
        scrape_id = self.ids.new()
        return ScrapedPage(
            scrape_id=scrape_id,
            source_url=plan.url,
            url=final,
            status=200,
            document={
                "markdown": page.markdown,
                "metadata": {
                    "scrapeId": scrape_id,
                    "sourceURL": plan.url,
                    "url": final,
                    "statusCode": 200,
                    "creditsUsed": 1,
                },
            },
            links=tuple(page.links),
            credits=1,
            warning=page.warning,
        )


@dataclass
class MadeRules:
    """Rules of a crawl: all of the made site but what is said to be forbidden."""

    robots: Sequence[str] = ()
    left_out: Sequence[str] = ()
    listed: Sequence[Sequence[str]] = ()
    origin: str = SITE
    asked: list[str] = field(default_factory=list)

    def key(self, url: str) -> str:
        return url.rstrip("/")

    def denial(self, url: str) -> LinkDenial | None:
        self.asked.append(url)
        if url in self.robots:
            return LinkDenial("robots.txt forbids it", by_robots=True)
        if url in self.left_out:
            return LinkDenial("a filter leaves it out", by_paths=True)
        return None if url.startswith(self.origin) else LinkDenial("it is elsewhere")

    def nearest(self, url: str) -> int:
        return 2

    async def move_to(self, url: str) -> None:
        self.origin = "/".join(url.split("/")[:3])

    async def sitemap(self) -> AsyncGenerator[Sequence[str], None]:
        for some in self.listed:
            yield some


@dataclass
class MadeAccount:
    """An account that counts."""

    charged: int = 0
    had: int = 1_000_000

    async def remaining(self, team: str) -> int:
        return self.had - self.charged

    async def charge(self, team: str, amount: int) -> None:
        self.charged += amount

    def charge_within(self, connection: sqlite3.Connection, team: str, amount: int) -> None:
        self.charged += amount

    def pay_within(self, connection: sqlite3.Connection, team: str, amount: int) -> bool:
        paid = self.charged + amount <= self.had
        self.charged += amount if paid else 0
        return paid


@dataclass
class MadeEndpoint:
    """An endpoint for webhooks. It answers 200 unless it is told otherwise."""

    requests: list[httpx.Request] = field(default_factory=list)
    answer: Callable[[httpx.Request], httpx.Response] = lambda request: httpx.Response(200)
    silent: bool = False
    """Whether no answer comes."""

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if self.silent:
            await asyncio.Event().wait()
        return self.answer(request)

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(request.content) for request in self.requests]

    @property
    def types(self) -> list[str]:
        return [event["type"] for event in self.events]


@dataclass
class World:
    """An emulator's jobs and webhooks over a made site."""

    clock: VirtualClock
    activity: Activity
    database: StateDatabase
    scraper: MadeScraper
    rules: MadeRules
    account: MadeAccount
    endpoint: MadeEndpoint
    outbox: Outbox
    engine: CrawlEngine
    context: CrawlContext
    ids: IdSource

    async def quiet(self) -> None:
        """Return when all that can happen now has happened."""
        await soon(self.activity.over())

    async def pass_time(self, **units: float) -> None:
        """Let time pass, and everything happen that waits for it."""
        await self.quiet()
        self.clock.advance(timedelta(**units))
        await self.quiet()

    async def put(self, target: WebhookTarget, event_type: str, job_id: str, **more: Any) -> None:
        """Keep an event for delivery."""
        await put(self.outbox, self.database, target, event_type, job_id, **more)

    async def crawl(self, url: str = f"{SITE}/", *, webhook: bool = False, **options: Any) -> JobRecord:
        """Start a crawl and return it as it is when nothing is left to do now."""
        target = WebhookTarget(HOOK) if webhook else None
        job = await self.engine.start(CrawlPlan(url=url, webhook=target, **options), TEAM)
        await self.quiet()
        return await self.engine.get(job.id, TEAM)

    async def batch(self, *urls: str, webhook: bool = False, **options: Any) -> JobRecord:
        """Start a batch scrape and return it as it is when nothing is left to do now."""
        target = WebhookTarget(HOOK) if webhook else None
        job = await self.engine.start(BatchPlan(urls=urls, webhook=target, **options), TEAM)
        await self.quiet()
        return await self.engine.get(job.id, TEAM)

    async def sources(self, job: JobRecord) -> list[str]:
        """Return the URLs of a job's results, in their order."""
        page = await self.engine.documents(job, limit=1000)
        return [document["metadata"]["sourceURL"] for document in page.documents]

    async def call(self, method: str, path: str, body: dict[str, Any] | None = None, **more: Any) -> Answer:
        """ApiCall an operation as the dispatcher does."""
        operations = [
            *crawl_operations(self.engine, RequestPolicy()),
            *batch_operations(self.engine, RequestPolicy()),
        ]
        operation, parameters = _found(operations, method, path)
        call = ApiCall(
            version=1 if path.startswith("/v1/") else 2,
            team=more.pop("team", TEAM),
            path=parameters,
            body=body or {},
            base_url="http://127.0.0.1:3002",
            **more,
        )
        answer = await operation.handle(call)
        return replace(answer, body=json.loads(to_json(answer.body)))


async def put(
    outbox: Outbox, database: StateDatabase, target: WebhookTarget, event_type: str, job_id: str, **more: Any
) -> None:
    """Keep an event for delivery. When this returns, it survives the end of the process."""
    prepared = outbox.prepare(target, event_type, job_id, **more)
    await database.run(lambda connection: outbox.keep(connection, prepared))
    outbox.wake(prepared)


def _found(operations: Sequence[ApiOperation], method: str, path: str) -> tuple[ApiOperation, dict[str, str]]:
    for operation in operations:
        pattern, parts = operation.path.split("/"), path.split("/")
        if operation.method == method and len(pattern) == len(parts):
            pairs = list(zip(pattern, parts, strict=True))
            if all(one == other or one.startswith("{") for one, other in pairs):
                return operation, {one.strip("{}"): other for one, other in pairs if one.startswith("{")}
    raise AssertionError(f"no operation {method} {path}")


OpenWorld = Callable[..., Awaitable[World]]


@asynccontextmanager
async def open_world(
    pages: Mapping[str, MadePage] | None = None,
    *,
    rules: MadeRules | None = None,
    state: Path | None = None,
    clock: VirtualClock | None = None,
    max_concurrency: int = 4,
    secret: str | None = None,
    to_private: bool = True,
    network_clock: VirtualClock | None = None,
    faults: JobFaults | None = None,
) -> AsyncIterator[World]:
    """Open jobs and webhooks over a made site."""
    clock = clock or VirtualClock()
    activity, endpoint, account = Activity(), MadeEndpoint(), MadeAccount()
    made_rules = rules or MadeRules()

    async def open_site(plan: CrawlPlan) -> SiteRules:
        return made_rules

    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(StateDatabase(state, SCHEMAS))
        ids = await open_ids(database, clock, seed=1)
        scraper = MadeScraper(pages or {}, ids)
        outbox = await stack.enter_async_context(
            Outbox(
                database,
                clock=clock,
                ids=ids,
                secret=secret,
                to_private=to_private,
                activity=activity,
                transport=httpx.MockTransport(endpoint),
                network_clock=network_clock or VirtualClock(),
            )
        )
        context = CrawlContext(
            database=database,
            scraper=scraper,
            events=outbox,
            account=account,
            clock=clock,
            ids=ids,
            activity=activity,
            open_site=open_site,
            slots=TeamSlots(max_concurrency),
        )
        engine = await stack.enter_async_context(CrawlEngine(context, faults))
        yield World(clock, activity, database, scraper, made_rules, account, endpoint, outbox, engine, context, ids)


def site(**links: str) -> dict[str, MadePage]:
    """Return a site of which each page has some links: `site(home="a b", a="", b="a")`."""

    def url(name: str) -> str:
        return f"{SITE}/" if name == "home" else f"{SITE}/{name}"

    return {url(name): MadePage([url(one) for one in linked.split()]) for name, linked in links.items()}
