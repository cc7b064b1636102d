"""The scraper: from a plan to a document within the plan's time-out."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from receiver.core.clock import Clock
from receiver.emulator.account.account import TeamSlots
from receiver.emulator.clock import Activity
from receiver.emulator.content.page import PageContent
from receiver.emulator.extraction.extractor import Extractor
from receiver.emulator.extraction.model import LanguageModel
from receiver.emulator.failures import ScrapeFailed, TooManyAtOnce
from receiver.emulator.fetching.web_urls import request_url
from receiver.emulator.ids import IdSource
from receiver.emulator.scrapes import (
    FetchedPage,
    Json,
    RenderedPage,
    RenderPage,
    ScrapedPage,
    ScrapePlan,
    StoreMedia,
    needs_browser,
)
from receiver.emulator.scraping.answers import PageAnswers
from receiver.emulator.scraping.cache import CachedCopy, PageCache, copy_of, is_kept, looks_up
from receiver.emulator.scraping.document import (
    credits_of,
    extract,
    extracted_keys,
    extracting_format,
    metadata_of,
    option_warnings,
    page_keys,
    program_of,
    redact,
)
from receiver.emulator.scraping.history import ChangeTracker, HistoryEntry, PageHistory, entry_of, insert_entry
from receiver.emulator.scraping.ports import AddressGuard, FetchPage, NoThreats, PageIndex, ReadPage, WritePage
from receiver.emulator.state.database import StateDatabase, StateUnwritable
from receiver.emulator.working.processes import HeavyWork, InThreads, WorkLost
from receiver.runtime.log_lines import event_log

log = event_log(__name__)

_QUEUE_SHARE = 2 / 3
"""The part of its time-out in which a scrape waits for a free place."""
_MODEL_SHARE = 0.8
"""The part of the remaining time that a model may take."""
_NEED_HTML = ("json", "deterministicJson", "extract", "changeTracking")
_NEED_MARKDOWN = ("summary", "question", "highlights", "query", *_NEED_HTML)
_GONE = (404, 410)
_NOT_OF_A_FILE = ("url", "sourceURL", "proxyUsed")


@dataclass(slots=True)
class _ScrapeWork:
    plan: ScrapePlan
    team: str
    scrape_id: str
    ends_at: float
    """On the event loop's clock."""
    waits: bool = False
    waited_ms: int = 0
    check_credits: int = 0
    warnings: list[str] = field(default_factory=list)
    rendered: RenderedPage | None = None

    def model_seconds(self) -> float:
        """Return the seconds for the answer of a model."""
        return max(0.1, _MODEL_SHARE * (self.ends_at - asyncio.get_running_loop().time()))


class PageScraper:
    """The emulator's Scraper, with a limited number of pages of a team at one time."""

    def __init__(
        self,
        *,
        fetch: FetchPage,
        read: ReadPage,
        database: StateDatabase,
        clock: Clock,
        ids: IdSource,
        max_concurrency: int = 10,
        guard: AddressGuard | None = None,
        model: LanguageModel | None = None,
        activity: Activity | None = None,
        work: HeavyWork | None = None,
        cached_delay: timedelta = timedelta(0),
        index: PageIndex | None = None,
        render: RenderPage | None = None,
        store: StoreMedia | None = None,
        refuses: bool = False,
    ) -> None:
        """Without `render` and `store`, which belong together, there is no browser.

        A page from the cache takes `cached_delay` of real time. What goes into the cache goes into `index` too.
        `work` does what may take long; without it, threads do. With `refuses`, a scrape that waited for a place in
        vain raises TooManyAtOnce, and otherwise a time-out.
        """
        self._fetch = fetch
        self._cached_delay = cached_delay
        self._read = read
        self._render = render
        self._store = store
        self._database = database
        self._clock = clock
        self._ids = ids
        self._guard = guard or NoThreats()
        self._activity = activity or Activity()
        self._index = index
        self._slots = TeamSlots(max_concurrency)
        self._refuses = refuses
        self._cache = PageCache(database, clock)
        self._history = PageHistory(database)
        self._heavy = work or InThreads()
        self.extractor = Extractor(model, self._heavy)
        """Monitors also judge changes with it."""
        self._answers = PageAnswers(model, self._heavy)
        self._tracker = ChangeTracker(self._history, self.extractor, read, self._heavy)

    async def scrape(self, plan: ScrapePlan, *, history_team: str = "") -> ScrapedPage:
        """Return the page within the plan's time-out. Raises ScrapeFailed, and nothing else for a bad page.

        Change tracking compares with the earlier scrapes of `history_team`.
        """
        if plan.actions and self._render is None:
            raise ScrapeFailed(
                "SCRAPE_ACTIONS_NOT_SUPPORTED", "Actions need a browser, which the emulator does not have"
            )

        async def make(work: _ScrapeWork) -> ScrapedPage:
            page, looked_up, is_hit = await self._page(work)
            return await self._made(work, page, looked_up=looked_up, is_hit=is_hit)

        return await self._within(self._work(plan, history_team), make)

    async def read_file(
        self, plan: ScrapePlan, body: bytes, *, team: str, read_as: str, sent_as: str
    ) -> ScrapedPage:
        """Return the document of a file within the plan's time-out. Raises ScrapeFailed, and nothing else.

        It is read as the media type `read_as`; the document says `sent_as`, and has no URL.
        """
        work = self._work(plan, team)
        file = FetchedPage(
            source_url="", url="", status=200, content_type=read_as, body=body, fetched_at=self._clock.now()
        )

        async def read(work: _ScrapeWork) -> ScrapedPage:
            page = await self._made(work, file, looked_up=False, is_hit=False)
            metadata = page.document["metadata"]
            for name in _NOT_OF_A_FILE:
                metadata.pop(name, None)
            metadata["contentType"] = sent_as
            return page

        return await self._within(work, read)

    def _work(self, plan: ScrapePlan, team: str) -> _ScrapeWork:
        ends_at = asyncio.get_running_loop().time() + plan.timeout / 1000
        return _ScrapeWork(plan, team, self._ids.new(), ends_at)

    async def _within(
        self, work: _ScrapeWork, make: Callable[[_ScrapeWork], Awaitable[ScrapedPage]]
    ) -> ScrapedPage:
        """Return what `make` returns within the time-out. Every failure is a ScrapeFailed."""
        plan = work.plan
        try:
            with self._activity.running():
                async with asyncio.timeout_at(work.ends_at), self._place(work):
                    return await make(work)
        except TimeoutError:
            # The interface specification, section Errors: 429 where a plan has a limit of concurrency.
            if work.waits and self._refuses:
                raise TooManyAtOnce(self._slots.most) from None
            text = f"The page was not scraped within the timeout of {plan.timeout} ms"
            raise ScrapeFailed("SCRAPE_TIMEOUT", text, credits=work.check_credits) from None
        except ScrapeFailed as exc:
            exc.credits += work.check_credits
            raise
        except StateUnwritable:
            raise
        except Exception as exc:
            # An unforeseen page is an error of that page, never of its job or of the emulator.
            log.exception("scrape_crashed", extra={"url": plan.url, "scrape": work.scrape_id})
            text = f"An unexpected error ended the scrape; the log has more under the id {work.scrape_id}"
            raise ScrapeFailed("UNKNOWN_ERROR", text) from exc

    @asynccontextmanager
    async def _place(self, work: _ScrapeWork) -> AsyncIterator[None]:
        """Hold one of the places. The wait for it is part of the time-out, and ends before."""
        places = self._slots.of(work.team)
        if places.locked():
            loop = asyncio.get_running_loop()
            begun = loop.time()
            work.waits = True
            async with asyncio.timeout(_QUEUE_SHARE * work.plan.timeout / 1000):
                await places.acquire()
            work.waits = False
            work.waited_ms = max(1, round(1000 * (loop.time() - begun)))
            work.warnings.append("The scrape waited for a free place, because many pages are scraped at one time.")
        else:
            await places.acquire()
        try:
            yield
        finally:
            places.release()

    async def _made(self, work: _ScrapeWork, page: FetchedPage, *, looked_up: bool, is_hit: bool) -> ScrapedPage:
        plan = work.plan
        is_indexed = self._index is not None and is_kept(plan) and not is_hit and page.status < 300
        full = _full_plan(replace(plan, is_indexed=is_indexed))
        content = await self._read(page, full)
        document = page_keys(plan, content)
        if work.rendered is not None:
            document |= await self._media(work, work.rendered)
        words, warnings = await self._answers.answer(plan, content.markdown, work.model_seconds())
        document |= words
        work.warnings += warnings
        reused = await self._extract(work, page, content, document)
        if plan.format("changeTracking") is not None and not plan.zero_data_retention:
            tracked = await self._tracker.track(full, work.team, page, content, seconds=work.model_seconds())
            document["changeTracking"] = tracked.value
            work.warnings += tracked.warnings
        await self._keep(work, page, content, fetched=not is_hit)
        cost = credits_of(plan, num_pages=content.num_pages, check_credits=work.check_credits, reused=reused)
        if plan.redact_pii:
            document = await self._redacted(document)
        document["metadata"] = metadata_of(
            plan,
            page,
            content,
            scrape_id=work.scrape_id,
            credits_used=cost,
            cached_at=page.fetched_at if is_hit else None,
            looked_up=looked_up,
            waited_ms=work.waited_ms,
            timezone=work.rendered.timezone if work.rendered is not None else None,
        )
        of_options = option_warnings(plan, has_browser=self._render is not None, is_rendered=self._in_browser(plan))
        warning = " ".join([*of_options, *content.warnings, *work.warnings]) or None
        if warning is not None:
            document["warning"] = warning
        return ScrapedPage(
            scrape_id=work.scrape_id,
            source_url=plan.url,
            url=page.url,
            status=page.status,
            document=document,
            links=tuple(content.links),
            credits=cost,
            warning=warning,
        )

    async def _page(self, work: _ScrapeWork) -> tuple[FetchedPage, bool, bool]:
        """Return the page, whether the cache was asked, and whether it had the page."""
        plan = work.plan
        work.check_credits += await self._guard.check(plan.url, plan.threat_protection)
        looked_up = looks_up(plan, has_browser=self._render is not None)
        page = await self._cache.find(plan) if looked_up else None
        if page is not None:
            if plan.actions or plan.format("screenshot") is not None:
                work.warnings.append("The page came from the cache: there are no actions and no screenshot of it.")
            if self._cached_delay:
                await asyncio.sleep(self._cached_delay.total_seconds())
            return page, True, True
        if self._in_browser(plan) and self._render is not None:
            work.rendered = await self._render(plan)
            work.warnings += work.rendered.warnings
            page = work.rendered.page
        else:
            page = await self._fetch(plan)
        if page.url != str(request_url(plan.url)):  # a missing slash does not make another URL
            work.check_credits += await self._guard.check(page.url, plan.threat_protection)
        return page, looked_up, False

    def _in_browser(self, plan: ScrapePlan) -> bool:
        return self._render is not None and needs_browser(plan)

    async def _media(self, work: _ScrapeWork, rendered: RenderedPage) -> Json:
        """Return the keys for the results of the browser, with the addresses of its files."""
        if self._store is None:
            return {}
        kept = not work.plan.zero_data_retention
        keys: Json = {}
        if rendered.screenshot is not None:
            keys["screenshot"] = await self._store(rendered.screenshot, kept)
        if (results := rendered.actions) is not None:
            keys["actions"] = {
                "screenshots": [await self._store(one, kept) for one in results.screenshots],
                "scrapes": list(results.scrapes),
                "javascriptReturns": list(results.javascript_returns),
                "pdfs": [await self._store(one, kept) for one in results.pdfs],
            }
        return keys

    async def _extract(self, work: _ScrapeWork, page: FetchedPage, content: PageContent, document: Json) -> bool:
        """Put the extracted data into the document, and return whether a program for them existed already."""
        format_ = extracting_format(work.plan)
        if format_ is None:
            return False
        found = await extract(self.extractor, page, content, format_, seconds=work.model_seconds())
        document |= extracted_keys(work.plan, found.data)
        work.warnings += found.warnings
        if format_["type"] != "deterministicJson" or work.plan.zero_data_retention:
            return False
        return not await self._history.is_new_program(program_of(work.plan, format_))

    async def _redacted(self, document: Json) -> Json:
        size = sum(len(one) for one in document.values() if isinstance(one, str))
        try:
            redacted: Json = await self._heavy.run(_redacted, document, size=size)
        except WorkLost as exc:
            raise ScrapeFailed("SCRAPE_ALL_ENGINES_FAILED", f"The page could not be redacted: {exc}") from None
        return redacted

    async def _keep(self, work: _ScrapeWork, page: FetchedPage, content: PageContent, *, fetched: bool) -> None:
        """Keep the page in the cache, for later comparisons and for searches."""
        plan = work.plan
        cached = fetched and is_kept(plan, has_browser=self._render is not None)
        compared = plan.format("markdown") is not None or plan.format("changeTracking") is not None
        tracked = compared and bool(plan.url) and not plan.zero_data_retention  # a file has no earlier scrape
        if not cached and not tracked:
            return
        now = self._clock.now()

        def compress() -> tuple[CachedCopy | None, HistoryEntry | None, WritePage | None]:
            entry = entry_of(work.team, plan, work.scrape_id, now, content.markdown, page) if tracked else None
            return copy_of(plan, page) if cached else None, entry, self._searched(page, content, cached=cached)

        copy, entry, searched = await asyncio.to_thread(compress)

        def write(connection: sqlite3.Connection) -> None:
            if copy is not None:
                self._cache.insert(connection, copy)
            if entry is not None:
                insert_entry(connection, entry)
            if searched is not None:
                searched(connection)

        await self._database.run(write)

    def _searched(self, page: FetchedPage, content: PageContent, *, cached: bool) -> WritePage | None:
        """Return the update of the search index; None without one."""
        if self._index is None or not cached:
            return None
        if page.status in _GONE:
            return self._index.removal(page)
        return None if content.outline is None else self._index.entry(page, content)


def _full_plan(plan: ScrapePlan) -> ScrapePlan:
    """Return the plan with the formats that others need."""
    names = [one["type"] for one in plan.formats]
    added: list[Json] = []
    if "markdown" not in names and (plan.is_indexed or any(name in _NEED_MARKDOWN for name in names)):
        added.append({"type": "markdown"})
    if "rawHtml" not in names and any(name in _NEED_HTML for name in names):
        added.append({"type": "rawHtml"})
    return replace(plan, formats=(*plan.formats, *added)) if added else plan


def _redacted(value: Any) -> Any:
    match value:
        case str():
            return redact(value)
        case dict():
            return {key: inner if key in ("links", "images") else _redacted(inner) for key, inner in value.items()}
        case list():
            return [_redacted(inner) for inner in value]
    return value
