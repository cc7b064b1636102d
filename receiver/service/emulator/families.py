"""The families of operations, put together."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from starlette.types import ASGIApp, Receive, Scope, Send

from receiver.service.emulator.account.feedback import FeedbackBook
from receiver.service.emulator.account.keys import ApiKeys
from receiver.service.emulator.api.agent import agent_operations
from receiver.service.emulator.api.batch import batch_operations
from receiver.service.emulator.api.browser import BrowserOperations
from receiver.service.emulator.api.calls import ApiOperation
from receiver.service.emulator.api.crawl import crawl_operations
from receiver.service.emulator.api.extract import extract_operations
from receiver.service.emulator.api.feedback import FeedbackOperations
from receiver.service.emulator.api.map import MapOperations
from receiver.service.emulator.api.media import MediaEndpoint
from receiver.service.emulator.api.monitors import MonitorOperations
from receiver.service.emulator.api.other_searches import OtherSearches
from receiver.service.emulator.api.parse import ParseOperations
from receiver.service.emulator.api.scrape import ScrapeOperations
from receiver.service.emulator.api.search import SearchOperations
from receiver.service.emulator.api.sockets import JobSockets
from receiver.service.emulator.browser import media as media_tables
from receiver.service.emulator.browser.media import MediaStore
from receiver.service.emulator.browser.parts import BrowserParts
from receiver.service.emulator.content.pending_uploads import PendingUploads
from receiver.service.emulator.jobs import engine as job_tables
from receiver.service.emulator.jobs.engine import JobEngine
from receiver.service.emulator.jobs.quiet_crawl import QuietCrawler
from receiver.service.emulator.monitors import table as monitor_tables
from receiver.service.emulator.monitors.service import Monitors
from receiver.service.emulator.parts import EmulatorBase, EmulatorParts
from receiver.service.emulator.research import engine as research_tables
from receiver.service.emulator.research.context import ResearchContext
from receiver.service.emulator.research.engine import ResearchEngine
from receiver.service.emulator.research.searching import ResearchSearch
from receiver.service.emulator.scraping import cache as cache_tables
from receiver.service.emulator.scraping import history as history_tables
from receiver.service.emulator.scraping import kept as kept_tables
from receiver.service.emulator.scraping.known_urls import KnownUrls
from receiver.service.emulator.search import index as search_tables
from receiver.service.emulator.search.engine import SearchEngine
from receiver.service.emulator.search.searxng import SearxngClient
from receiver.service.emulator.search.site_reading import SiteReader
from receiver.service.emulator.search.watching import SearchWatcher
from receiver.service.emulator.tools import ScrapingTools, open_tools
from receiver.service.emulator.wire.scrape import read_scrape

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
    """Open what scrapes, crawls, searches, watches and extracts for as long as the block lasts."""
    async with open_tools(base) as tools, AsyncExitStack() as stack:
        sites = _site_reader(base, tools)
        stack.push_async_callback(sites.close)
        finder = _finder(base, sites, stack)
        feedback = FeedbackBook(base.state, base.clock, base.ids, base.ledger)
        uploads = PendingUploads(base.clock)
        maps = MapOperations(
            fetcher=tools.fetcher,
            scraper=tools.scraper,
            account=base.ledger,
            known=KnownUrls(base.state),
            ids=base.ids,
            note=feedback.note,
            policy=base.policy,
        )
        jobs = await stack.enter_async_context(_jobs(base, tools))
        monitors = await stack.enter_async_context(_monitors(base, tools, finder))
        research = await stack.enter_async_context(_research(base, tools, maps, finder))
        browser = tools.browser

        async def reset() -> None:
            if browser is not None:
                await browser.sessions.reset()
            await jobs.stop_all()
            await monitors.reset()
            await research.stop_all()
            await sites.close()
            await base.state.run(search_tables.empty)
            uploads.forget_all()

        keys = ApiKeys(base.options.keys, open_access=base.options.open_access)
        yield EmulatorParts(
            operations=[
                *_operations_of_pages(base, tools, finder, feedback, uploads),
                *OtherSearches(finder, base.ledger, base.policy).operations(),
                *FeedbackOperations(feedback, tools.kept, base.policy).operations(),
                *crawl_operations(jobs, base.policy),
                *batch_operations(jobs, base.policy),
                *MonitorOperations(monitors).operations(),
                *maps.operations(),
                *extract_operations(research, base.policy),
                *agent_operations(research, base.policy),
            ],
            sockets=_sockets(jobs, keys, browser),
            media=_files(tools.media, browser),
            queues=jobs,
            reset=reset,
        )


def _operations_of_pages(
    base: EmulatorBase, tools: ScrapingTools, finder: SearchEngine, feedback: FeedbackBook, uploads: PendingUploads
) -> list[ApiOperation]:
    """Return the operations about single pages and files, and those of a browser."""
    scrapes = ScrapeOperations(
        scraper=tools.scraper,
        read=lambda body, version: read_scrape(body, version, base.policy),
        account=base.ledger,
        kept=tools.kept,
    )
    files = ParseOperations(
        files=tools.scraper, waiting=uploads, account=base.ledger, kept=tools.kept, policy=base.policy
    )
    searches = SearchOperations(
        engine=finder,
        scraper=tools.scraper,
        limits=tools.fetcher,
        account=base.ledger,
        kept=tools.kept,
        ids=base.ids,
        note=feedback.note,
        policy=base.policy,
    )
    sessions = BrowserOperations(
        None if tools.browser is None else tools.browser.sessions,
        kept=tools.kept,
        clock=base.clock,
        policy=base.policy,
        model=tools.model,
    )
    return [*scrapes.operations(), *files.operations(), *searches.operations(), *sessions.operations()]


def _jobs(base: EmulatorBase, tools: ScrapingTools) -> JobEngine:
    return JobEngine(
        base.state,
        scraper=tools.scraper,
        outbox=base.outbox,
        account=base.ledger,
        clock=base.clock,
        ids=base.ids,
        open_site=tools.open_site,
        max_concurrency=tools.at_once,
        activity=base.activity,
        faults=base.faults,
    )


def _site_reader(base: EmulatorBase, tools: ScrapingTools) -> SiteReader:
    return SiteReader(
        sites=tools.fetcher.sites,
        read=tools.readers.read,
        index=tools.index,
        state=base.state,
        clock=base.clock,
        activity=base.activity,
        max_bytes=base.options.max_page_bytes,
    )


def _finder(base: EmulatorBase, sites: SiteReader, stack: AsyncExitStack) -> SearchEngine:
    searxng = None
    if base.options.searxng_url is not None:
        searxng = SearxngClient(base.options.searxng_url, transport=base.transport)
        stack.push_async_callback(searxng.close)
    return SearchEngine(state=base.state, clock=base.clock, sites=sites, guard=base.guard, searxng=searxng)


def _monitors(base: EmulatorBase, tools: ScrapingTools, finder: SearchEngine) -> Monitors:
    crawler = QuietCrawler(base.state, tools.scraper, tools.open_site, clock=base.clock, activity=base.activity)
    return Monitors(
        database=base.state,
        scraper=tools.scraper,
        work=tools.work,
        events=base.outbox,
        account=base.ledger,
        clock=base.clock,
        ids=base.ids,
        sites=crawler,
        searches=SearchWatcher(finder),
        extractor=tools.scraper.extractor,
        jitter=base.options.jitter,
        activity=base.activity,
        policy=base.policy,
        horizon=base.clock.horizon,
    )


def _research(
    base: EmulatorBase, tools: ScrapingTools, maps: MapOperations, finder: SearchEngine
) -> ResearchEngine:
    context = ResearchContext(
        database=base.state,
        scraper=tools.scraper,
        outbox=base.outbox,
        account=base.ledger,
        clock=base.clock,
        ids=base.ids,
        list_site=maps.urls_of_site,
        search=ResearchSearch(finder),
        width=tools.at_once,
    )
    return ResearchEngine(context, base.activity)


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
