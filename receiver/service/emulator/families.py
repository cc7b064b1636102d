"""The families of operations, put together: pages are fetched, read and scraped in one place for all of them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from starlette.types import ASGIApp, Receive, Scope, Send

from receiver.service.emulator.account.keys import ApiKeys
from receiver.service.emulator.account.slots import pages_at_once
from receiver.service.emulator.api.agent import agent_operations
from receiver.service.emulator.api.batch import batch_operations
from receiver.service.emulator.api.browser import BrowserOperations
from receiver.service.emulator.api.crawl import crawl_operations
from receiver.service.emulator.api.extract import extract_operations
from receiver.service.emulator.api.map import MapOperations
from receiver.service.emulator.api.media import MediaEndpoint
from receiver.service.emulator.api.monitors import MonitorOperations
from receiver.service.emulator.api.parse import ParseOperations
from receiver.service.emulator.api.scrape import ScrapeOperations
from receiver.service.emulator.api.search import SearchOperations
from receiver.service.emulator.api.sockets import JobSockets
from receiver.service.emulator.browser import media as media_tables
from receiver.service.emulator.browser.finding import find_browser
from receiver.service.emulator.browser.media import MediaStore
from receiver.service.emulator.browser.parts import BrowserParts
from receiver.service.emulator.content.readers import PageReaders
from receiver.service.emulator.extraction.model import LanguageModel
from receiver.service.emulator.fetching.fetcher import Fetcher
from receiver.service.emulator.jobs import engine as job_tables
from receiver.service.emulator.jobs.crawl_site import site_opener
from receiver.service.emulator.jobs.engine import JobEngine
from receiver.service.emulator.jobs.quiet_crawl import QuietCrawler
from receiver.service.emulator.monitors import table as monitor_tables
from receiver.service.emulator.monitors.service import Monitors
from receiver.service.emulator.options import EmulatorOptions
from receiver.service.emulator.parts import EmulatorBase, EmulatorParts
from receiver.service.emulator.research import engine as research_tables
from receiver.service.emulator.research.context import ResearchContext
from receiver.service.emulator.research.engine import ResearchEngine
from receiver.service.emulator.research.searching import ResearchSearch
from receiver.service.emulator.scraping import cache as cache_tables
from receiver.service.emulator.scraping import history as history_tables
from receiver.service.emulator.scraping import kept as kept_tables
from receiver.service.emulator.scraping.kept import KeptScrapes
from receiver.service.emulator.scraping.known_urls import KnownUrls
from receiver.service.emulator.scraping.scraper import PageScraper
from receiver.service.emulator.search import index as search_tables
from receiver.service.emulator.search.engine import SearchEngine
from receiver.service.emulator.search.index import FullTextIndex
from receiver.service.emulator.search.searxng import SearxngClient
from receiver.service.emulator.search.site_reading import SiteReader
from receiver.service.emulator.search.watching import SearchWatcher
from receiver.service.emulator.wire.scrape import read_scrape
from receiver.service.emulator.working.processes import WorkProcesses

SCHEMAS = (
    job_tables.SCHEMA,
    cache_tables.SCHEMA,
    history_tables.SCHEMA,
    kept_tables.SCHEMA,
    monitor_tables.SCHEMA,
    research_tables.SCHEMA,
    search_tables.SCHEMA,
    media_tables.SCHEMA,
)
"""The tables of the families."""


@asynccontextmanager
async def open_families(base: EmulatorBase) -> AsyncIterator[EmulatorParts]:
    """Open what scrapes, crawls and monitors for as long as the block lasts."""
    options = base.options
    at_once = pages_at_once(options.plan, options.max_concurrency)
    async with AsyncExitStack() as stack:
        now = base.clock.now()
        await base.state.run(lambda connection: cache_tables.end_future(connection, now))
        await base.state.run(lambda connection: history_tables.end_future(connection, now))
        fetcher = await stack.enter_async_context(Fetcher(options, base.clock, transport=base.transport))
        work = await stack.enter_async_context(WorkProcesses())
        readers = await stack.enter_async_context(PageReaders(work))
        model = _model(options)
        if model is not None:
            stack.push_async_callback(model.close)
        index = FullTextIndex()
        media = MediaStore(base.state, base.clock, base.ids, base.address)
        browser = await _browser(base, stack, fetcher)
        scraper = PageScraper(
            fetch=fetcher.fetch,
            read=readers.read,
            work=work,
            database=base.state,
            clock=base.clock,
            ids=base.ids,
            max_concurrency=at_once,
            refuses=options.plan is not None,
            guard=base.guard,
            model=model,
            activity=base.activity,
            cached_delay=options.page_delay,
            index=index,
            render=None if browser is None else browser.render,
            store=media.put,
        )
        open_site = site_opener(fetcher)
        engine = JobEngine(
            base.state,
            scraper=scraper,
            outbox=base.outbox,
            account=base.ledger,
            clock=base.clock,
            ids=base.ids,
            open_site=open_site,
            max_concurrency=at_once,
            activity=base.activity,
            faults=base.faults,
        )
        sites = SiteReader(
            sites=fetcher.sites,
            read=readers.read,
            index=index,
            state=base.state,
            clock=base.clock,
            activity=base.activity,
            max_bytes=options.max_page_bytes,
        )
        stack.push_async_callback(sites.close)
        searxng = _searxng(base)
        if searxng is not None:
            stack.push_async_callback(searxng.close)
        finder = SearchEngine(state=base.state, clock=base.clock, sites=sites, guard=base.guard, searxng=searxng)
        monitors = Monitors(
            database=base.state,
            scraper=scraper,
            work=work,
            events=base.outbox,
            account=base.ledger,
            clock=base.clock,
            ids=base.ids,
            sites=QuietCrawler(base.state, scraper, open_site, clock=base.clock, activity=base.activity),
            searches=SearchWatcher(finder),
            model=model,
            jitter=options.jitter,
            activity=base.activity,
            policy=base.policy,
            horizon=base.clock.horizon,
        )
        kept = KeptScrapes(base.state, base.clock)
        sessions = BrowserOperations(
            None if browser is None else browser.sessions,
            kept=kept,
            clock=base.clock,
            policy=base.policy,
            model=model,
        )
        scrapes = ScrapeOperations(
            scraper=scraper,
            read=lambda body, version: read_scrape(body, version, base.policy),
            account=base.ledger,
            kept=kept,
        )
        files = ParseOperations(files=scraper, account=base.ledger, kept=kept, policy=base.policy)
        maps = MapOperations(
            fetcher=fetcher,
            scraper=scraper,
            account=base.ledger,
            known=KnownUrls(base.state),
            policy=base.policy,
        )
        searches = SearchOperations(
            engine=finder,
            scraper=scraper,
            limits=fetcher,
            account=base.ledger,
            kept=kept,
            ids=base.ids,
            policy=base.policy,
        )
        research = ResearchEngine(
            ResearchContext(
                database=base.state,
                scraper=scraper,
                outbox=base.outbox,
                account=base.ledger,
                clock=base.clock,
                ids=base.ids,
                list_site=maps.urls_of_site,
                search=ResearchSearch(finder),
                width=at_once,
            ),
            base.activity,
        )
        await stack.enter_async_context(engine)
        await stack.enter_async_context(monitors)
        await stack.enter_async_context(research)
        keys = ApiKeys(options.keys, open_access=options.open_access)

        async def reset() -> None:
            if browser is not None:
                await browser.sessions.reset()
            await engine.stop_all()
            await monitors.reset()
            await research.stop_all()
            await sites.close()
            await base.state.run(search_tables.empty)

        yield EmulatorParts(
            operations=[
                *scrapes.operations(),
                *files.operations(),
                *searches.operations(),
                *crawl_operations(engine, base.policy),
                *batch_operations(engine, base.policy),
                *MonitorOperations(monitors).operations(),
                *maps.operations(),
                *extract_operations(research, base.policy),
                *agent_operations(research, base.policy),
                *sessions.operations(),
            ],
            sockets=_sockets(engine, keys, browser),
            media=_files(media, browser),
            queues=engine,
            reset=reset,
        )


async def _browser(base: EmulatorBase, stack: AsyncExitStack, fetcher: Fetcher) -> BrowserParts | None:
    """Return the browser, which starts when something needs it; None without one."""
    found = await asyncio.to_thread(find_browser, base.options)
    if found.executable is None:
        return None
    from receiver.service.emulator.browser.assembly import open_browser  # only the extra has what it imports

    return await stack.enter_async_context(
        open_browser(
            found,
            base.options,
            fetcher,
            clock=base.clock,
            ids=base.ids,
            account=base.ledger,
            activity=base.activity,
        )
    )


def _sockets(engine: JobEngine, keys: ApiKeys, browser: BrowserParts | None) -> ASGIApp:
    watchers = JobSockets(engine, keys).app()

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        is_session = browser is not None and scope["path"].startswith("/v2/browser/")
        app = browser.sockets if browser is not None and is_session else watchers
        await app(scope, receive, send)

    return serve


def _files(media: MediaStore, browser: BrowserParts | None) -> ASGIApp:
    files: ASGIApp = MediaEndpoint(media)

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        is_view = browser is not None and scope["path"].startswith("/_media/live/")
        app = browser.views if browser is not None and is_view else files
        await app(scope, receive, send)

    return serve


def _model(options: EmulatorOptions) -> LanguageModel | None:
    if options.model_url is None:
        return None
    return LanguageModel(options.model_url, key=options.model_key, name=options.model_name)


def _searxng(base: EmulatorBase) -> SearxngClient | None:
    if base.options.searxng_url is None:
        return None
    return SearxngClient(base.options.searxng_url, transport=base.transport)
