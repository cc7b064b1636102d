"""Runs one job: its sitemap, its pages, and its end."""

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import timedelta

from receiver.emulator.activity import Rest
from receiver.emulator.contracts import JobFailure
from receiver.emulator.failures import ScrapeFailed, TooManyAtOnce
from receiver.emulator.jobs import sites, table
from receiver.emulator.jobs.context import JobContext
from receiver.emulator.jobs.following import NO_LINKS, LinkFollower
from receiver.emulator.jobs.records import (
    CANCELLED,
    OUT_OF_CREDITS,
    CreditsUsedUp,
    EmulatedJobState,
    JobRecord,
    PageFailed,
    PageScraped,
    WaitingPage,
)
from receiver.emulator.jobs.settling import PageSettler
from receiver.emulator.scrapes import ScrapedPage
from receiver.emulator.state.database import StateDatabase
from receiver.emulator.wire.plans import CrawlPlan
from receiver.runtime.log_lines import event_log

# FOLDED: The waiting pages of one job, some of them at a time.
_AHEAD = 64
"""How many pages are read at one time."""


class PageQueue:
    """Hands out each waiting page once, in the order in which the pages were found."""

    def __init__(self, database: StateDatabase, seq: int) -> None:
        self._database = database
        self._seq = seq
        self._ready: deque[WaitingPage] = deque()
        self._last = 0
        self._reading = asyncio.Lock()
        self._news = asyncio.Event()
        self._closed = False
        self.busy = 0
        """How many pages were taken and are not done."""

    async def take(self) -> WaitingPage | None:
        """Return a page, for which `done` has to be called; None when no page is left and none can be found."""
        while not self._closed:
            news = self._news
            is_last = not self._ready and await self._is_exhausted()
            if self._closed:
                break
            if self._ready:
                self.busy += 1
                return self._ready.popleft()
            if is_last:
                break
            await news.wait()
        return None

    def done(self) -> None:
        """Note that a page which was taken has ended, with all that was found on it."""
        self.busy -= 1
        self.notify()

    def notify(self) -> None:
        """Look again: there may be new pages."""
        self._news.set()
        self._news = asyncio.Event()

    def close(self) -> None:
        """Hand out no more pages."""
        self._closed = True
        self.notify()

    async def _is_exhausted(self) -> bool:
        """Read pages, and tell whether there are none and nobody was busy who could find some."""
        async with self._reading:
            if self._ready:
                return False
            busy = self.busy
            pages = await self._database.patient.run(
                lambda c: table.waiting_pages(c, self._seq, self._last, _AHEAD)
            )
            if pages:
                self._last = pages[-1].number
                self._ready.extend(pages)
                self.notify()
            return not busy and not pages


log = event_log(__name__)

_UNKNOWN = "UNKNOWN_ERROR"


class JobRunner:
    """Works on a job until it has ended. It may begin in the middle: what is noted is not done again."""

    def __init__(self, job: JobRecord, context: JobContext, failure: JobFailure | None = None) -> None:
        """`failure` is how the job fails, if that was asked for."""
        self.job = job
        self._context = context
        self._settler = PageSettler(job, context)
        self._queue = PageQueue(context.database, job.seq)
        self._follower: LinkFollower | None = None
        self._rest = Rest(context.activity)
        self._failure = failure
        self._pages_left = None if failure is None else failure.after
        self._cancelled = False
        self._cannot_pay = False
        if job.state is EmulatedJobState.CANCELLED:
            self.cancel()

    @property
    def scraping(self) -> int:
        """How many pages are scraped now, or wait for a slot of the team."""
        return self._queue.busy

    def cancel(self) -> None:
        """Begin no more pages. Those that have begun end as they would."""
        self._cancelled = True
        self._queue.close()
        self._rest.end()

    def notify(self) -> None:
        """Look for pages that were added."""
        self._queue.notify()

    async def run(self) -> None:
        """Return when the job has ended. It fails when credits run out, and by a fault of the emulator."""
        try:
            if isinstance(self.job.plan, CrawlPlan) and self._pages_left != 0:
                await self._prepare_crawl(self.job.plan)
            ended = False
            while not ended:
                if self._pages_left != 0:
                    await self._scrape_all()
                if self._failure is not None and self._pages_left == 0 and not self._cancelled:
                    return await self._settler.fail(self._failure.error)
                if self._cancelled:
                    await self._settler.fail_waiting(CANCELLED)
                elif self._cannot_pay:
                    return await self._end_unpaid()
                ended = await self._settler.end()
        except Exception:
            fault = self._context.ids.new()
            log.exception("job_crashed", extra={"job_id": self.job.id, "fault": fault})
            await self._settler.fail(f"The job ended by a fault of the emulator; its log has it as {fault}")

    async def _end_unpaid(self) -> None:
        """End the job without the pages that it cannot pay for.

        No public page says what the service does here. A job that was told as completed would look whole.
        """
        await self._settler.fail_waiting(OUT_OF_CREDITS)
        await self._settler.fail("Insufficient credits: they ran out before the job had scraped all of its pages")

    async def _prepare_crawl(self, plan: CrawlPlan) -> None:
        rules = await self._context.open_site(plan)
        self._follower = follower = LinkFollower(plan, rules)
        key = follower.seed_key()
        await self._context.database.patient.run(lambda c: table.take_key(c, self.job.seq, key))
        origin = await self._context.database.patient.run(lambda c: sites.origin_of(c, self.job.id))
        if origin is not None:
            await follower.move_to(origin)
        if plan.sitemap == "skip" or self.job.sitemap_read:
            return
        async with aclosing(rules.sitemap()) as urls:
            async for some in urls:
                if self._cancelled or not await self._take_up(follower, some):
                    break
        await self._context.database.patient.run(lambda c: table.note_sitemap(c, self.job.seq))

    async def _take_up(self, follower: LinkFollower, urls: Sequence[str]) -> bool:
        """Take up pages of a sitemap; False if the job has no place left for them."""
        links = await follower.choose(urls)
        looked_at = await self._settler.add_from_sitemap(links)
        follower.remember(links, looked_at)
        return looked_at == len(links.found)

    async def _scrape_all(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(self._width()):
                group.create_task(self._scrape_some())

    def _width(self) -> int:
        plan, most = self.job.plan, self._context.slots.most
        if isinstance(plan, CrawlPlan) and plan.delay is not None:
            return 1
        return min(plan.max_concurrency or most, most)

    async def _scrape_some(self) -> None:
        plan = self.job.plan
        delay = plan.delay if isinstance(plan, CrawlPlan) else None
        is_first = True
        while (page := await self._queue.take()) is not None:
            try:
                if delay is not None and not is_first:
                    await self._rest.wait(self._context.clock, timedelta(seconds=delay))
                    self._rest = self._rest if self._cancelled else Rest(self._context.activity)
                is_first = False
                async with self._context.slots.of(self.job.team):
                    if not self._cancelled and not self._cannot_pay and self._pages_left != 0:
                        await self._scrape(page)
                        self._count()
            except CreditsUsedUp:
                self._cannot_pay = True
                self._queue.close()
            finally:
                self._queue.done()

    def _count(self) -> None:
        """Count a page, if the job is to fail after some of them."""
        if self._pages_left:
            self._pages_left -= 1
            if not self._pages_left:
                self._queue.close()
                self._rest.end()

    async def _scrape(self, page: WaitingPage) -> None:
        follower = self._follower
        forbidden = None if follower is None else follower.forbids_visit(page)
        scraped = forbidden or await self._scraped(page)
        if isinstance(scraped, PageFailed):
            await self._settler.settle(page, scraped)
        elif follower is None:
            await self._settler.settle(page, PageScraped(scraped))
        else:
            outcome = await follower.judge(page, scraped)
            links = NO_LINKS if self._cancelled else await follower.links_of(page, scraped, outcome)
            looked_at = await self._settler.settle(page, outcome, links)
            follower.remember(links, looked_at)

    async def _scraped(self, page: WaitingPage) -> ScrapedPage | PageFailed:
        follower = self._follower
        plan = replace(self.job.plan.scrape, url=page.url) if follower is None else follower.plan_of(page)
        try:
            while True:
                try:
                    return await self._context.database.patient.until_written(
                        lambda: self._context.scraper.scrape(plan, history_team=self.job.team)
                    )
                except TooManyAtOnce:  # scrapes of the team have all places: a job waits for one
                    continue
        except ScrapeFailed as exc:
            return PageFailed(exc.code, str(exc), credits=exc.credits)
        except Exception:
            fault = self._context.ids.new()
            log.exception("page_crashed", extra={"job_id": self.job.id, "fault": fault})
            return PageFailed(_UNKNOWN, f"The page met a fault of the emulator; its log has it as {fault}")
