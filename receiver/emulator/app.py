"""The emulator: what it consists of, and the ASGI app that routes calls to its operations."""

import asyncio
import random
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import httpx
from starlette.types import ASGIApp, Receive, Scope, Send

from receiver.core.clock import Clock, SystemClock
from receiver.emulator.account import account, keys
from receiver.emulator.account import feedback as feedback_tables
from receiver.emulator.account.account import CreditLedger, RateLimits, TeamSlots, pages_at_once
from receiver.emulator.account.feedback import FeedbackBook
from receiver.emulator.account.keys import ApiKeys, IdempotencyKeys
from receiver.emulator.account.threats import ThreatGuard
from receiver.emulator.api.account import AccountOperations, FeedbackOperations, RegistrationOperations
from receiver.emulator.api.admin import PREFIX as ADMIN_PREFIX
from receiver.emulator.api.admin import AdminEndpoint, AdminOperations
from receiver.emulator.api.browser import BrowserOperations, MediaEndpoint
from receiver.emulator.api.calls import ApiOperation
from receiver.emulator.api.dispatch import CallGate, Dispatcher, RouteTable
from receiver.emulator.api.faults import InjectedFaults
from receiver.emulator.api.jobs import JobOperations, JobSockets
from receiver.emulator.api.journal import Journal
from receiver.emulator.api.map import MapOperations
from receiver.emulator.api.monitors import MonitorOperations
from receiver.emulator.api.research import ResearchOperations
from receiver.emulator.api.scrape import ParseOperations, ScrapeOperations
from receiver.emulator.api.search import OtherSearches, SearchOperations
from receiver.emulator.browser import media as media_tables
from receiver.emulator.browser.executable import find_browser
from receiver.emulator.browser.media import PREFIX as MEDIA_PREFIX
from receiver.emulator.browser.media import MediaStore
from receiver.emulator.browser.session_records import BrowserParts
from receiver.emulator.clock import Activity, EmulatorClock
from receiver.emulator.content.page import PageReaders
from receiver.emulator.content.uploads import PendingUploads
from receiver.emulator.contracts import PublicAddress
from receiver.emulator.extraction.model import LanguageModel
from receiver.emulator.fetching.fetcher import Fetcher
from receiver.emulator.ids import IdSource, open_ids
from receiver.emulator.jobs import table as job_tables
from receiver.emulator.jobs.crawls import CrawlContext, CrawlEngine
from receiver.emulator.jobs.sites import site_opener
from receiver.emulator.monitors import table as monitor_tables
from receiver.emulator.monitors.checks import CheckContext
from receiver.emulator.monitors.findings import ChangeJudge
from receiver.emulator.monitors.service import Monitors
from receiver.emulator.monitors.site_crawls import QuietCrawler
from receiver.emulator.options import EmulatorOptions
from receiver.emulator.research import table as research_tables
from receiver.emulator.research.engine import ResearchContext, ResearchEngine, ResearchSearch
from receiver.emulator.scraping import cache, history
from receiver.emulator.scraping.cache import KeptScrapes
from receiver.emulator.scraping.history import KnownUrls
from receiver.emulator.scraping.scraper import PageScraper
from receiver.emulator.search import index as search_tables
from receiver.emulator.search.engine import SearchEngine, SearchWatcher
from receiver.emulator.search.index import FullTextIndex
from receiver.emulator.search.searxng import SearxngClient
from receiver.emulator.search.site_reading import SiteReader
from receiver.emulator.state import database
from receiver.emulator.state.database import StateDatabase
from receiver.emulator.webhooks import table as webhook_tables
from receiver.emulator.webhooks.outbox import Outbox
from receiver.emulator.wire.bodies import RequestPolicy
from receiver.emulator.wire.scrape import read_scrape
from receiver.emulator.working.processes import WorkProcesses


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatorParts:
    """What an emulator consists of. `open_parts` makes the parts in this order: each needs only those before it."""

    options: EmulatorOptions
    clock: EmulatorClock
    activity: Activity
    faults: InjectedFaults
    journal: Journal
    address: PublicAddress
    policy: RequestPolicy
    keys: ApiKeys
    rates: RateLimits
    state: StateDatabase
    ids: IdSource
    ledger: CreditLedger
    feedback: FeedbackBook
    guard: ThreatGuard
    outbox: Outbox
    fetcher: Fetcher
    model: LanguageModel | None
    media: MediaStore
    browser: BrowserParts | None
    scraper: PageScraper
    kept: KeptScrapes
    uploads: PendingUploads
    sites: SiteReader
    search: SearchEngine
    map: MapOperations
    jobs: CrawlEngine
    monitors: Monitors
    research: ResearchEngine

    async def reset(self) -> None:
        """Stop everything that runs, and forget everything but the time."""
        if self.browser is not None:
            await self.browser.sessions.reset()
        await self.jobs.stop_all()
        await self.monitors.reset()
        await self.research.stop_all()
        await self.sites.close()
        await self.state.run(search_tables.empty)
        self.uploads.forget_all()
        self.rates.forget_all()
        self.ledger.forget_all()
        await self.state.run(_empty_tables)
        self.faults.forget_all()
        self.journal.forget_all()


SCHEMAS = (
    account.SCHEMA,
    feedback_tables.SCHEMA,
    keys.SCHEMA,
    webhook_tables.SCHEMA,
    database.SCHEMA,
    job_tables.SCHEMA,
    cache.SCHEMA,
    history.SCHEMA,
    cache.KEPT_SCHEMA,
    monitor_tables.SCHEMA,
    research_tables.SCHEMA,
    search_tables.SCHEMA,
    media_tables.SCHEMA,
)
"""The tables of all parts."""


@asynccontextmanager
async def open_parts(
    options: EmulatorOptions,
    *,
    clock: EmulatorClock,
    activity: Activity,
    faults: InjectedFaults,
    journal: Journal,
    address: PublicAddress,
    transport: httpx.AsyncBaseTransport | None,
) -> AsyncIterator[EmulatorParts]:
    """Open all parts for as long as the block lasts, and close them in the reverse order."""
    policy, width = RequestPolicy.of(options), pages_at_once(options.plan, options.max_concurrency)
    async with AsyncExitStack() as stack:
        state = await stack.enter_async_context(_open_state(options.state, clock))
        ids = await open_ids(state, clock, options.seed)
        ledger = CreditLedger(state, clock, initial=options.credits)
        feedback = FeedbackBook(state, clock, ids, ledger)
        client = await stack.enter_async_context(httpx.AsyncClient(transport=transport, trust_env=False))
        guard = ThreatGuard(enabled=options.threat_protection != "off", risk_url=options.risk_url, client=client)
        outbox = await stack.enter_async_context(
            Outbox(
                state,
                clock=clock,
                ids=ids,
                secret=options.webhook_secret,
                to_private=options.webhooks_to_private,
                activity=activity,
                transport=transport,
            )
        )
        outbox.treatments = faults
        fetcher = await stack.enter_async_context(Fetcher(options, clock, transport=transport))
        work = await stack.enter_async_context(WorkProcesses())
        readers = await stack.enter_async_context(PageReaders(work))
        model = None
        if options.model_url is not None:
            model = LanguageModel(options.model_url, key=options.model_key, name=options.model_name)
            stack.push_async_callback(model.close)
        index, media = FullTextIndex(), MediaStore(state, clock, ids, address)
        browser = None
        found = await asyncio.to_thread(find_browser, options)
        if found.executable is not None:
            from receiver.emulator.browser.assembly import open_browser  # only the extra has what it imports

            browser = await stack.enter_async_context(
                open_browser(
                    found, options, fetcher, clock=clock, ids=ids, account=ledger, activity=activity, state=state
                )
            )
        scraper = PageScraper(
            fetch=fetcher.fetch,
            read=readers.read,
            work=work,
            database=state,
            clock=clock,
            ids=ids,
            max_concurrency=width,
            refuses=options.plan is not None,
            guard=guard,
            model=model,
            activity=activity,
            cached_delay=options.page_delay,
            index=index,
            render=None if browser is None else browser.render,
            store=media.put,
        )
        sites = SiteReader(
            sites=fetcher.sites,
            read=readers.read,
            index=index,
            state=state,
            clock=clock,
            activity=activity,
            max_bytes=options.max_page_bytes,
        )
        stack.push_async_callback(sites.close)
        searxng = None
        if options.searxng_url is not None:
            searxng = SearxngClient(options.searxng_url, transport=transport)
            stack.push_async_callback(searxng.close)
        search = SearchEngine(state=state, clock=clock, sites=sites, guard=guard, searxng=searxng)
        site_map = MapOperations(
            fetcher=fetcher,
            scraper=scraper,
            account=ledger,
            known=KnownUrls(state),
            ids=ids,
            note=feedback.note,
            policy=policy,
        )
        crawls = CrawlContext(
            database=state,
            scraper=scraper,
            events=outbox,
            account=ledger,
            clock=clock,
            ids=ids,
            activity=activity,
            open_site=site_opener(fetcher),
            slots=TeamSlots(width),
        )
        jobs = await stack.enter_async_context(CrawlEngine(crawls, faults))
        checks = CheckContext(
            database=state,
            scraper=scraper,
            events=outbox,
            account=ledger,
            clock=clock,
            ids=ids,
            activity=activity,
            judge=ChangeJudge(scraper.extractor),
            work=work,
            sites=QuietCrawler(crawls),
            searches=SearchWatcher(search),
        )
        monitors = await stack.enter_async_context(
            Monitors(checks, jitter=options.jitter, policy=policy, horizon=clock.horizon)
        )
        context = ResearchContext(
            database=state,
            scraper=scraper,
            events=outbox,
            account=ledger,
            clock=clock,
            ids=ids,
            activity=activity,
            list_site=site_map.urls_of_site,
            search=ResearchSearch(search),
            width=width,
        )
        research = await stack.enter_async_context(ResearchEngine(context))
        yield EmulatorParts(
            options=options,
            clock=clock,
            activity=activity,
            faults=faults,
            journal=journal,
            address=address,
            policy=policy,
            keys=ApiKeys(options.keys, open_access=options.open_access),
            rates=RateLimits(clock, options.plan),
            state=state,
            ids=ids,
            ledger=ledger,
            feedback=feedback,
            guard=guard,
            outbox=outbox,
            fetcher=fetcher,
            model=model,
            media=media,
            browser=browser,
            scraper=scraper,
            kept=KeptScrapes(state, clock),
            uploads=PendingUploads(clock),
            sites=sites,
            search=search,
            map=site_map,
            jobs=jobs,
            monitors=monitors,
            research=research,
        )


@asynccontextmanager
async def _open_state(file: Path | None, clock: EmulatorClock) -> AsyncIterator[StateDatabase]:
    """Open the state. The clock goes on from where it stood, and nothing that was kept is later than it."""
    async with StateDatabase(file, SCHEMAS) as state:
        kept = database.KeptTime(clock)
        await state.run(kept.restore)
        state.before_commit = kept.keep
        now = clock.now()
        await state.run(lambda connection: cache.end_future(connection, now))
        await state.run(lambda connection: history.end_future(connection, now))

        async def keep_time() -> None:
            await state.run(kept.keep)

        clock.after_advance = keep_time
        try:
            yield state
        finally:
            clock.after_advance = None


def operations_of(parts: EmulatorParts) -> list[ApiOperation]:
    """Return all operations of the API."""
    clock, ledger, kept, policy = parts.clock, parts.ledger, parts.kept, parts.policy
    width = pages_at_once(parts.options.plan, parts.options.max_concurrency)
    sessions = None if parts.browser is None else parts.browser.sessions
    families = (
        AccountOperations(ledger, parts.jobs, clock, max_concurrency=width),
        RegistrationOperations(parts.keys, ledger),
        FeedbackOperations(parts.feedback, kept, policy),
        ScrapeOperations(
            scraper=parts.scraper,
            read=lambda body, version: read_scrape(body, version, policy),
            account=ledger,
            kept=kept,
        ),
        ParseOperations(files=parts.scraper, waiting=parts.uploads, account=ledger, kept=kept, policy=policy),
        BrowserOperations(sessions, kept=kept, clock=clock, policy=policy, model=parts.model),
        SearchOperations(
            engine=parts.search,
            scraper=parts.scraper,
            limits=parts.fetcher,
            account=ledger,
            kept=kept,
            ids=parts.ids,
            note=parts.feedback.note,
            policy=policy,
        ),
        OtherSearches(parts.search, ledger, policy),
        parts.map,
        JobOperations(parts.jobs, policy),
        MonitorOperations(parts.monitors),
        ResearchOperations(parts.research, policy),
    )
    return [operation for family in families for operation in family.operations()]


class Emulator:
    """The service as an ASGI app. It works within its `lifespan`, which a server or a test enters.

    Time passes on `clock`, `options.speed` times as fast, and the admin API can advance it. `transport` takes every
    request that leaves the emulator, pages and webhooks alike; without it they go over the network.
    """

    def __init__(
        self,
        options: EmulatorOptions | None = None,
        *,
        clock: Clock | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        operations: Callable[[EmulatorParts], Sequence[ApiOperation]] = operations_of,
    ) -> None:
        self.options = options or EmulatorOptions()
        self.clock = EmulatorClock(clock or SystemClock(), self.options.speed)
        self.activity = Activity()
        self.faults = InjectedFaults(random.Random(self.options.seed))  # noqa: S311 - chance, not secrets
        self.journal = Journal()
        self.address = PublicAddress()
        self._transport = transport
        self._operations = operations
        self._endpoints: tuple[tuple[str, str, ASGIApp], ...] = ()

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[EmulatorParts]:
        """Open the state and run jobs, monitors and webhooks for as long as the block lasts."""
        async with open_parts(
            self.options,
            clock=self.clock,
            activity=self.activity,
            faults=self.faults,
            journal=self.journal,
            address=self.address,
            transport=self._transport,
        ) as parts:
            self._endpoints = self._endpoints_of(parts)
            try:
                yield parts
            finally:
                self._endpoints = ()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request or a WebSocket, or follow the lifespan of a server."""
        if scope["type"] == "lifespan":
            return await self._live(receive, send)
        path = f"{scope['path']}/"
        for kind, prefix, endpoint in self._endpoints:
            if kind == scope["type"] and path.startswith(prefix):
                return await endpoint(scope, receive, send)
        raise RuntimeError("the emulator works within its lifespan: enter it first")

    async def settled(self) -> None:
        """Return when everything that runs waits for the clock, or for a call."""
        await self.activity.over()

    async def advance(self, duration: timedelta) -> None:
        """Move the clock forward, and let everything happen that is due on the way."""
        await self.settled()
        await self.clock.advance(duration, self.settled)

    def _endpoints_of(self, parts: EmulatorParts) -> tuple[tuple[str, str, ASGIApp], ...]:
        """Return what answers which paths, by the kind of the connection. The first prefix that fits decides."""
        operations = self._operations(parts)
        gate = CallGate(
            keys=parts.keys,
            rates=parts.rates,
            account=parts.ledger,
            idempotency=IdempotencyKeys(parts.state),
            faults=parts.faults,
            journal=parts.journal,
            clock=parts.clock,
            ids=parts.ids,
            address=parts.address,
        )
        admin = AdminOperations(
            clock=parts.clock,
            speed=parts.options.speed,
            journal=parts.journal,
            faults=parts.faults,
            ledger=parts.ledger,
            outbox=parts.outbox,
            operations=frozenset({"*", *(name for one in operations for name in (one.path, one.limit))}),
            reset=parts.reset,
            settled=self.settled,
        )
        browser = parts.browser
        return (
            *(() if browser is None else (("websocket", "/v2/browser/", browser.sockets),)),
            ("websocket", "/", JobSockets(parts.jobs, parts.keys).app()),
            *(() if browser is None else (("http", f"{MEDIA_PREFIX}/live/", browser.views),)),
            ("http", f"{MEDIA_PREFIX}/", MediaEndpoint(parts.media)),
            ("http", f"{ADMIN_PREFIX}/", AdminEndpoint(admin, parts.ids)),
            ("http", "/", Dispatcher(RouteTable(operations), gate)),
        )

    async def _live(self, receive: Receive, send: Send) -> None:
        """Follow the lifespan protocol of ASGI: a server starts and ends the emulator."""
        await receive()
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(self.lifespan())
            except Exception as exc:
                await send({"type": "lifespan.startup.failed", "message": str(exc)})
                raise
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})


def _empty_tables(connection: sqlite3.Connection) -> None:
    # Shadow tables are the inside of virtual ones, which look after them.
    names = connection.execute(
        "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type IN ('table', 'virtual')"
        " AND name NOT LIKE 'sqlite_%'"
    )
    for (name,) in names.fetchall():
        connection.execute(f'DELETE FROM "{name}"')  # noqa: S608 - a name of ours
