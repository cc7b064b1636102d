"""The families of operations, put together: pages are fetched, read and scraped in one place for all of them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from starlette.types import ASGIApp, Receive, Scope, Send

from receiver.service.emulator.account.keys import ApiKeys
from receiver.service.emulator.account.slots import pages_at_once
from receiver.service.emulator.api.batch import batch_operations
from receiver.service.emulator.api.browser import BrowserOperations
from receiver.service.emulator.api.crawl import crawl_operations
from receiver.service.emulator.api.map import MapOperations
from receiver.service.emulator.api.media import MediaEndpoint
from receiver.service.emulator.api.monitors import MonitorOperations
from receiver.service.emulator.api.scrape import ScrapeOperations
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
from receiver.service.emulator.scraping import cache as cache_tables
from receiver.service.emulator.scraping import history as history_tables
from receiver.service.emulator.scraping import kept as kept_tables
from receiver.service.emulator.scraping.kept import KeptScrapes
from receiver.service.emulator.scraping.known_urls import KnownUrls
from receiver.service.emulator.scraping.scraper import PageScraper
from receiver.service.emulator.wire.scrape import read_scrape

SCHEMAS = (
    job_tables.SCHEMA,
    cache_tables.SCHEMA,
    history_tables.SCHEMA,
    kept_tables.SCHEMA,
    monitor_tables.SCHEMA,
    media_tables.SCHEMA,
)
"""The tables of the families."""


@asynccontextmanager
async def open_families(base: EmulatorBase) -> AsyncIterator[EmulatorParts]:
    """Open what scrapes, crawls and monitors for as long as the block lasts."""
    options = base.options
    at_once = pages_at_once(options.plan, options.max_concurrency)
    async with AsyncExitStack() as stack:
        fetcher = await stack.enter_async_context(Fetcher(options, base.clock, transport=base.transport))
        readers = await stack.enter_async_context(PageReaders())
        model = _model(options)
        if model is not None:
            stack.push_async_callback(model.close)
        media = MediaStore(base.state, base.clock, base.ids, base.address)
        browser = await _browser(base, stack, fetcher)
        scraper = PageScraper(
            fetch=fetcher.fetch,
            read=readers.read,
            database=base.state,
            clock=base.clock,
            ids=base.ids,
            max_concurrency=at_once,
            refuses=options.plan is not None,
            guard=base.guard,
            model=model,
            activity=base.activity,
            cached_delay=options.page_delay,
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
        )
        monitors = Monitors(
            database=base.state,
            scraper=scraper,
            outgoing=base.outbox,
            account=base.ledger,
            clock=base.clock,
            ids=base.ids,
            sites=QuietCrawler(scraper, open_site),
            model=model,
            jitter=options.jitter,
            activity=base.activity,
            policy=base.policy,
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
        maps = MapOperations(
            fetcher=fetcher,
            scraper=scraper,
            account=base.ledger,
            known=KnownUrls(base.state),
            policy=base.policy,
        )
        await stack.enter_async_context(engine)
        await stack.enter_async_context(monitors)
        keys = ApiKeys(options.keys, open_access=options.open_access)

        async def reset() -> None:
            if browser is not None:
                await browser.sessions.reset()
            await engine.stop_all()
            await monitors.reset()

        yield EmulatorParts(
            operations=[
                *scrapes.operations(),
                *crawl_operations(engine, base.policy),
                *batch_operations(engine, base.policy),
                *MonitorOperations(monitors).operations(),
                *maps.operations(),
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
