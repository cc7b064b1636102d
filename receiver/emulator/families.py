"""The families of operations, put together."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from starlette.types import ASGIApp, Receive, Scope, Send

from receiver.emulator.account.account import TeamSlots
from receiver.emulator.account.feedback import FeedbackBook
from receiver.emulator.account.keys import ApiKeys
from receiver.emulator.api.browser import BrowserOperations
from receiver.emulator.api.calls import ApiOperation
from receiver.emulator.api.feedback import FeedbackOperations
from receiver.emulator.api.jobs import batch_operations, crawl_operations
from receiver.emulator.api.map import MapOperations
from receiver.emulator.api.monitors import MonitorOperations
from receiver.emulator.api.parse import ParseOperations
from receiver.emulator.api.research import agent_operations, extract_operations
from receiver.emulator.api.scrape import MediaEndpoint, ScrapeOperations
from receiver.emulator.api.search import OtherSearches, SearchOperations
from receiver.emulator.api.sockets import JobSockets
from receiver.emulator.browser import media as media_tables
from receiver.emulator.browser.assembly import BrowserParts
from receiver.emulator.browser.media import MediaStore
from receiver.emulator.content.uploads import PendingUploads
from receiver.emulator.jobs import table as job_tables
from receiver.emulator.jobs.crawls import CrawlContext, CrawlEngine
from receiver.emulator.monitors import table as monitor_tables
from receiver.emulator.monitors.checks import CheckContext
from receiver.emulator.monitors.findings import ChangeJudge
from receiver.emulator.monitors.service import Monitors
from receiver.emulator.monitors.site_crawls import QuietCrawler
from receiver.emulator.parts import EmulatorBase, EmulatorParts
from receiver.emulator.research import table as research_tables
from receiver.emulator.research.engine import ResearchContext, ResearchEngine, ResearchSearch
from receiver.emulator.scraping import cache as cache_tables
from receiver.emulator.scraping import cache as kept_tables
from receiver.emulator.scraping import history as history_tables
from receiver.emulator.scraping.history import KnownUrls
from receiver.emulator.search import index as search_tables
from receiver.emulator.search.engine import SearchEngine, SearchWatcher
from receiver.emulator.search.searxng import SearxngClient
from receiver.emulator.search.site_reading import SiteReader
from receiver.emulator.tools import ScrapingTools, open_tools
from receiver.emulator.wire.scrape import read_scrape

SCHEMAS = (
    job_tables.SCHEMA,
    cache_tables.SCHEMA,
    history_tables.SCHEMA,
    kept_tables.KEPT_SCHEMA,
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
        crawls = _crawls(base, tools)
        jobs = await stack.enter_async_context(CrawlEngine(crawls, base.faults))
        monitors = await stack.enter_async_context(_monitors(base, tools, finder, QuietCrawler(crawls)))
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


def _crawls(base: EmulatorBase, tools: ScrapingTools) -> CrawlContext:
    return CrawlContext(
        database=base.state,
        scraper=tools.scraper,
        events=base.outbox,
        account=base.ledger,
        clock=base.clock,
        ids=base.ids,
        activity=base.activity,
        open_site=tools.open_site,
        slots=TeamSlots(tools.at_once),
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


def _monitors(base: EmulatorBase, tools: ScrapingTools, finder: SearchEngine, sites: QuietCrawler) -> Monitors:
    context = CheckContext(
        database=base.state,
        scraper=tools.scraper,
        events=base.outbox,
        account=base.ledger,
        clock=base.clock,
        ids=base.ids,
        activity=base.activity,
        judge=ChangeJudge(tools.scraper.extractor),
        work=tools.work,
        sites=sites,
        searches=SearchWatcher(finder),
    )
    return Monitors(context, jitter=base.options.jitter, policy=base.policy, horizon=base.clock.horizon)


def _research(
    base: EmulatorBase, tools: ScrapingTools, maps: MapOperations, finder: SearchEngine
) -> ResearchEngine:
    context = ResearchContext(
        database=base.state,
        scraper=tools.scraper,
        events=base.outbox,
        account=base.ledger,
        clock=base.clock,
        ids=base.ids,
        activity=base.activity,
        list_site=maps.urls_of_site,
        search=ResearchSearch(finder),
        width=tools.at_once,
    )
    return ResearchEngine(context)


def _sockets(engine: CrawlEngine, keys: ApiKeys, browser: BrowserParts | None) -> ASGIApp:
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
