"""The families of operations, put together: pages are fetched, read and scraped in one place for all of them."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from receiver.service.emulator.account.keys import ApiKeys
from receiver.service.emulator.account.slots import pages_at_once
from receiver.service.emulator.api.batch import batch_operations
from receiver.service.emulator.api.crawl import crawl_operations
from receiver.service.emulator.api.map import MapOperations
from receiver.service.emulator.api.monitors import MonitorOperations
from receiver.service.emulator.api.scrape import ScrapeOperations
from receiver.service.emulator.api.sockets import JobSockets
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
from receiver.service.emulator.working.processes import WorkProcesses

SCHEMAS = (
    job_tables.SCHEMA,
    cache_tables.SCHEMA,
    history_tables.SCHEMA,
    kept_tables.SCHEMA,
    monitor_tables.SCHEMA,
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
        monitors = Monitors(
            database=base.state,
            scraper=scraper,
            work=work,
            events=base.outbox,
            account=base.ledger,
            clock=base.clock,
            ids=base.ids,
            sites=QuietCrawler(base.state, scraper, open_site, clock=base.clock, activity=base.activity),
            model=model,
            jitter=options.jitter,
            activity=base.activity,
            policy=base.policy,
            horizon=base.clock.horizon,
        )
        scrapes = ScrapeOperations(
            scraper=scraper,
            read=lambda body, version: read_scrape(body, version, base.policy),
            account=base.ledger,
            kept=KeptScrapes(base.state, base.clock),
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
            await engine.stop_all()
            await monitors.reset()

        yield EmulatorParts(
            operations=[
                *scrapes.operations(),
                *crawl_operations(engine, base.policy),
                *batch_operations(engine, base.policy),
                *MonitorOperations(monitors).operations(),
                *maps.operations(),
            ],
            sockets=JobSockets(engine, keys).app(),
            queues=engine,
            reset=reset,
        )


def _model(options: EmulatorOptions) -> LanguageModel | None:
    if options.model_url is None:
        return None
    return LanguageModel(options.model_url, key=options.model_key, name=options.model_name)
