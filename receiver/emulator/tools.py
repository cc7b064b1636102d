"""What the families of operations share: one way of fetching, reading and scraping a page."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from receiver.emulator.account.account import pages_at_once
from receiver.emulator.browser.assembly import BrowserParts
from receiver.emulator.browser.chromium import find_browser
from receiver.emulator.browser.media import MediaStore
from receiver.emulator.content.page import PageReaders
from receiver.emulator.extraction.model import LanguageModel
from receiver.emulator.fetching.fetcher import Fetcher
from receiver.emulator.jobs.sites import OpenSite, site_opener
from receiver.emulator.options import EmulatorOptions
from receiver.emulator.parts import EmulatorBase
from receiver.emulator.scraping import cache as cache_tables
from receiver.emulator.scraping import history as history_tables
from receiver.emulator.scraping.cache import KeptScrapes
from receiver.emulator.scraping.scraper import PageScraper
from receiver.emulator.search.index import FullTextIndex
from receiver.emulator.working.processes import WorkProcesses


@dataclass(frozen=True, slots=True)
class ScrapingTools:
    """The tools of all families."""

    fetcher: Fetcher
    """Fetches pages and files."""
    work: WorkProcesses
    """Does what may take long."""
    readers: PageReaders
    """Read what was fetched."""
    scraper: PageScraper
    """Scrapes pages, from fetching to the document."""
    open_site: OpenSite
    """Opens a site for a crawl."""
    kept: KeptScrapes
    """The documents of earlier scrapes."""
    index: FullTextIndex
    """The words of pages."""
    media: MediaStore
    """The files that a browser made."""
    browser: BrowserParts | None
    """The browser; None without one."""
    model: LanguageModel | None
    """The language model; None without one."""
    at_once: int
    """How many pages a team scrapes at one time."""


@asynccontextmanager
async def open_tools(base: EmulatorBase) -> AsyncIterator[ScrapingTools]:
    """Open the tools for as long as the block lasts."""
    options, now = base.options, base.clock.now()
    at_once = pages_at_once(options.plan, options.max_concurrency)
    async with AsyncExitStack() as stack:
        await base.state.run(lambda connection: cache_tables.end_future(connection, now))
        await base.state.run(lambda connection: history_tables.end_future(connection, now))
        fetcher = await stack.enter_async_context(Fetcher(options, base.clock, transport=base.transport))
        work = await stack.enter_async_context(WorkProcesses())
        readers = await stack.enter_async_context(PageReaders(work))
        model = _model(options)
        if model is not None:
            stack.push_async_callback(model.close)
        index, media = FullTextIndex(), MediaStore(base.state, base.clock, base.ids, base.address)
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
        kept, open_site = KeptScrapes(base.state, base.clock), site_opener(fetcher)
        yield ScrapingTools(fetcher, work, readers, scraper, open_site, kept, index, media, browser, model, at_once)


async def _browser(base: EmulatorBase, stack: AsyncExitStack, fetcher: Fetcher) -> BrowserParts | None:
    """Return the browser, which starts when something needs it; None without one."""
    found = await asyncio.to_thread(find_browser, base.options)
    if found.executable is None:
        return None
    from receiver.emulator.browser.assembly import open_browser  # only the extra has what it imports

    return await stack.enter_async_context(
        open_browser(
            found,
            base.options,
            fetcher,
            clock=base.clock,
            ids=base.ids,
            account=base.ledger,
            activity=base.activity,
            state=base.state,
        )
    )


def _model(options: EmulatorOptions) -> LanguageModel | None:
    if options.model_url is None:
        return None
    return LanguageModel(options.model_url, key=options.model_key, name=options.model_name)
