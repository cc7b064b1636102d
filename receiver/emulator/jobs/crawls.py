"""Crawls and batch scrapes: how they are started, run, and ended."""

import asyncio
import sqlite3
from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager, aclosing
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import msgspec
from typing_extensions import override

from receiver.emulator.account.account import TeamQueue, TeamSlots
from receiver.emulator.activity import Rest
from receiver.emulator.contracts import JobFailure, JobFaults, NoJobFaults
from receiver.emulator.failures import ScrapeFailed
from receiver.emulator.jobs import table
from receiver.emulator.jobs.engine import LIFETIME, JobContext, JobEngine, JobRunner, JobSettler, JobWatch
from receiver.emulator.jobs.records import (
    CANCELLED,
    OUT_OF_CREDITS,
    CreditsUsedUp,
    EmulatedJobState,
    JobEnded,
    JobKind,
    JobNotFound,
    JobRecord,
    PageError,
    PageFailed,
    PageOutcome,
    PageScraped,
    WaitingPage,
    kind_of,
)
from receiver.emulator.jobs.sites import NO_LINKS, ChosenLinks, LinkFollower, OpenSite
from receiver.emulator.jobs.table import ResultsPage
from receiver.emulator.json_text import to_json_beside
from receiver.emulator.scrapes import ScrapedPage
from receiver.emulator.state.database import PatientState
from receiver.emulator.webhooks.table import PreparedDelivery
from receiver.emulator.wire.jobs import BatchPlan, CrawlPlan
from receiver.runtime.log_lines import event_log

log = event_log(__name__)

_NO_LIMIT = 1 << 62
_AHEAD = 64
"""How many pages are read at one time."""
_AT_ONCE = 200
"""How many waiting pages of a job fail in one transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlContext(JobContext):
    """The parts of the emulator that running crawls and batch scrapes use."""

    open_site: OpenSite
    """Finds out the rules of a site."""
    slots: TeamSlots
    """The places for pages of each team."""


class PageQueue:
    """Hands out each waiting page of one job once, in the order in which the pages were found."""

    def __init__(self, state: PatientState, seq: int) -> None:
        self._state = state
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
        """Stop handing out pages."""
        self._closed = True
        self.notify()

    async def _is_exhausted(self) -> bool:
        """Read pages, and return whether there are none and no page was busy on which some can be found."""
        async with self._reading:
            if self._ready:
                return False
            busy = self.busy
            pages = await self._state.run(lambda c: table.waiting_pages(c, self._seq, self._last, _AHEAD))
            if pages:
                self._last = pages[-1].number
                self._ready.extend(pages)
                self.notify()
            return not busy and not pages


class PageSettler(JobSettler[JobRecord]):
    """Settles the pages of one job, and its end."""

    def __init__(self, job: JobRecord, context: JobContext) -> None:
        super().__init__(job, context)
        self._seq = job.seq

    async def settle(self, page: WaitingPage, outcome: PageOutcome, links: ChosenLinks = NO_LINKS) -> int:
        """Note the end of a page, its document or error, its cost, the links to follow, and the event.

        Return how many of the links found a place, or were known. Nothing happens for a page that has ended before.
        Raises CreditsUsedUp, and notes nothing, if the team cannot pay for the page.
        """
        content = await to_json_beside(document_of(outcome)) if isinstance(outcome, PageScraped) else b""
        event = self._page_event(page, outcome, content)
        error = self._error(page, outcome) if isinstance(outcome, PageFailed) else None
        blocked = (page.url,) if isinstance(outcome, PageFailed) and outcome.by_robots else ()
        seq, team, account = self._seq, self._job.team, self._context.account

        def work(connection: sqlite3.Connection) -> int:
            if not table.end_page(connection, seq, page.number):
                return 0
            if isinstance(outcome, PageFailed):
                table.count_failed(connection, seq, page.number, error)
                table.add_credits(connection, seq, outcome.credits)
                account.charge_within(connection, team, outcome.credits)
            elif outcome.final_key is not None and not table.take_key(connection, seq, outcome.final_key):
                table.count_failed(connection, seq, page.number, None)
                return 0
            elif not account.pay_within(connection, team, outcome.page.credits):
                raise CreditsUsedUp
            else:
                table.count_completed(connection, seq, outcome.page.credits, content)
                table.move_to(connection, seq, outcome.origin)
            self._context.events.keep(connection, event)
            table.add_blocked(connection, seq, (*blocked, *links.blocked))
            return table.add_links(connection, seq, links.found, page.depth + 1)

        return await self.write(work, event)

    async def add_from_sitemap(self, links: ChosenLinks) -> int:
        """Take up pages that a sitemap lists, and return how many were looked at."""

        def work(connection: sqlite3.Connection) -> int:
            table.add_blocked(connection, self._seq, links.blocked)
            return table.add_links(connection, self._seq, links.found, 0)

        return await self.write(work)

    async def fail_waiting(self, reason: PageFailed) -> None:
        """Let every page that still waits fail, because its job has stopped."""
        last = 0
        while pages := await self._context.state.run(
            partial(table.waiting_pages, seq=self._seq, after=last, limit=_AT_ONCE)
        ):
            last = pages[-1].number
            await self._fail_pages(pages, reason)

    async def end(self) -> bool:
        """End the job, which has no page left; False if it has got some meanwhile."""
        event, now = self.event("completed"), self._context.clock.now()

        def work(connection: sqlite3.Connection) -> bool:
            ended = table.complete_job(connection, self._seq, now)
            if ended:
                self._context.events.keep(connection, event)
            return ended

        return await self.write(work, event)

    async def fail(self, error: str) -> None:
        """End the job, because it cannot continue."""
        event, now = self.event("failed", success=False, error=error), self._context.clock.now()

        def work(connection: sqlite3.Connection) -> None:
            if table.end_job(connection, self._seq, EmulatedJobState.FAILED, now, error=error):
                self._context.events.keep(connection, event)

        await self.write(work, event)

    async def _fail_pages(self, pages: Sequence[WaitingPage], reason: PageFailed) -> None:
        ends = [(page, self._error(page, reason), self._page_event(page, reason)) for page in pages]

        def work(connection: sqlite3.Connection) -> None:
            for page, error, event in ends:
                if table.end_page(connection, self._seq, page.number):
                    table.count_failed(connection, self._seq, page.number, error)
                    self._context.events.keep(connection, event)

        await self.write(work, *(event for _, _, event in ends))

    def _error(self, page: WaitingPage, outcome: PageFailed) -> PageError:
        now = self._context.clock.now()
        return PageError(id=self._context.ids.new(), at=now, url=page.url, code=outcome.code, text=outcome.text)

    def _page_event(
        self, page: WaitingPage, outcome: PageOutcome, document: bytes = b""
    ) -> PreparedDelivery | None:
        data: list[Any] = [msgspec.Raw(document) if document else {"metadata": {"sourceURL": page.url}}]
        error = outcome.text if isinstance(outcome, PageFailed) else None
        return self.event("page", success=error is None, data=data, error=error)


class CrawlRunner(JobRunner):
    """Works on a crawl or a batch scrape."""

    def __init__(self, job: JobRecord, context: CrawlContext, failure: JobFailure | None = None) -> None:
        """`failure` is how the job fails, if that was asked for."""
        self.job = job
        self._context = context
        self._settler = PageSettler(job, context)
        self._queue = PageQueue(context.state, job.seq)
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
        """Begin no further pages. Those that have begun end as usual."""
        self._cancelled = True
        self._queue.close()
        self._rest.end()

    def notify(self) -> None:
        """Look for pages that were added."""
        self._queue.notify()

    @override
    async def run(self) -> None:
        if isinstance(self.job.plan, CrawlPlan) and self._pages_left != 0:
            await self._prepare_crawl(self.job.plan)
        ended = False
        while not ended:
            if self._pages_left != 0:
                async with asyncio.TaskGroup() as group:
                    for _ in range(self._width()):
                        group.create_task(self._scrape_some())
            if self._failure is not None and self._pages_left == 0 and not self._cancelled:
                return await self.fail(self._failure.error)
            if self._cancelled:
                await self._settler.fail_waiting(CANCELLED)
            elif self._cannot_pay:
                # No public page says what the service does here. A job reported as completed would look whole.
                await self._settler.fail_waiting(OUT_OF_CREDITS)
                return await self.fail(
                    "Insufficient credits: they ran out before the job had scraped all of its pages"
                )
            ended = await self._settler.end()
        return None

    @override
    async def fail(self, error: str) -> None:
        await self._settler.fail(error)

    async def _prepare_crawl(self, plan: CrawlPlan) -> None:
        rules = await self._context.open_site(plan)
        self._follower = follower = LinkFollower(plan, rules)
        seq, key = self.job.seq, follower.seed_key()
        await self._context.state.run(lambda c: table.take_key(c, seq, key))
        if self.job.origin is not None:
            await follower.move_to(self.job.origin)
        if plan.sitemap == "skip" or self.job.prepared:
            return
        async with aclosing(rules.sitemap()) as listed:
            async for urls in listed:
                if self._cancelled or not await self._take_up(follower, urls):
                    break
        await self._context.state.run(lambda c: table.note_prepared(c, seq))

    async def _take_up(self, follower: LinkFollower, urls: Sequence[str]) -> bool:
        """Take up pages of a sitemap; False if the job has no place left for them."""
        links = await follower.choose(urls)
        looked_at = await self._settler.add_from_sitemap(links)
        follower.remember(links, looked_at)
        return looked_at == len(links.found)

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
            return await self._context.scrape(plan, self.job.team)
        except ScrapeFailed as exc:
            return PageFailed(exc.code, str(exc), credits=exc.credits)
        except Exception:
            fault = self._context.ids.new()
            log.exception("page_crashed", extra={"job_id": self.job.id, "fault": fault})
            text = f"The page met a fault of the emulator; its log has it as {fault}"
            return PageFailed("UNKNOWN_ERROR", text)


def document_of(outcome: PageScraped) -> dict[str, Any]:
    """Return a page as the results and the events of a job have it: its warning is part of it."""
    page = outcome.page
    if page.warning is None or "warning" in page.document:
        return page.document
    return {**page.document, "warning": page.warning}


class CrawlEngine(JobEngine[JobRecord]):
    """Keeps crawls and batch scrapes, and runs them."""

    kinds = (JobKind.CRAWL, JobKind.BATCH)

    def __init__(self, context: CrawlContext, faults: JobFaults | None = None) -> None:
        super().__init__(context)
        self._context = context
        self._faults = faults or NoJobFaults()
        self._runners: dict[str, CrawlRunner] = {}

    async def start(self, plan: CrawlPlan | BatchPlan, team: str) -> JobRecord:
        """Start a job. It survives the end of the process from here on, if the state is a file."""
        now = self._context.clock.now()
        job = JobRecord(
            id=self._context.ids.new(),
            kind=kind_of(plan),
            team=team,
            plan=plan,
            state=EmulatedJobState.SCRAPING,
            created_at=now,
            expires_at=now + LIFETIME,
        )
        urls, limit = ((plan.url,), plan.limit) if isinstance(plan, CrawlPlan) else (plan.urls, _NO_LIMIT)

        def insert(connection: sqlite3.Connection) -> JobRecord:
            seq = table.insert_job(connection, job, page_limit=limit)
            table.add_pages(connection, seq, urls)
            return table.job_by_seq(connection, seq)

        return await self._begin(job, insert)

    async def append(self, plan: BatchPlan, team: str) -> JobRecord:
        """Add the URLs of a plan to the batch that it names. Raises JobNotFound, or JobEnded after a cancel."""
        job = await self.get(plan.append_to_id or "", team)
        if job.kind is not JobKind.BATCH:
            raise JobNotFound("Job not found")

        def work(connection: sqlite3.Connection) -> JobRecord | None:
            reopened = table.reopen(connection, job.seq, plan.urls)
            return table.job_by_seq(connection, job.seq) if reopened else None

        with self._context.activity.running():
            grown = await self._database.run(work)
            if grown is None:
                raise JobEnded(f"The batch was {job.state}, so nothing can be added to it")
            runner = self._runners.get(job.id)
            if runner is None:
                self._run(grown, self._runner(grown))
            else:
                runner.notify()
        return grown

    async def cancel(self, job_id: str, team: str) -> None:
        """Cancel a job: its waiting pages fail. Raises JobNotFound, or JobEnded if it was completed or failed."""
        job = await self.get(job_id, team)
        if not await self._database.run(lambda c: table.cancel(c, job.seq)):
            raise JobEnded("Crawl is already completed")
        runner = self._runners.get(job_id)
        if runner is not None:
            runner.cancel()
        self._context.changes.notify(job_id)

    async def get(self, job_id: str, team: str) -> JobRecord:
        """Return a job of a team. Raises JobNotFound, JobOfOtherTeam or JobExpired."""
        return await self._find(job_id, team, *self.kinds)

    async def documents(
        self,
        job: JobRecord,
        *,
        skip: int = 0,
        limit: int = table.MAX_DOCUMENTS,
        max_bytes: int = table.MAX_BYTES,
    ) -> ResultsPage:
        """Return documents of a job in the order in which its pages were scraped, after the first `skip`."""
        return await self._database.run(lambda c: table.read_documents(c, job.seq, skip, limit, max_bytes))

    async def errors(self, job: JobRecord) -> tuple[list[PageError], list[str]]:
        """Return the pages of a job that were not scraped, and the URLs that robots.txt forbids."""
        return await self._database.run(lambda c: (table.page_errors(c, job.seq), table.blocked_urls(c, job.seq)))

    async def running_crawls(self, team: str) -> list[JobRecord]:
        """Return the crawls of a team that scrape now, oldest first."""
        return [
            job
            for job in await self._database.run(self.unended)
            if job.team == team and job.kind is JobKind.CRAWL and job.state is EmulatedJobState.SCRAPING
        ]

    async def queue_of(self, team: str) -> TeamQueue:
        """Return how many pages of a team's jobs are scraped, and how many wait."""
        running = sum(one.scraping for one in self._runners.values() if one.job.team == team)
        active = min(running, self._context.slots.most)

        def work(connection: sqlite3.Connection) -> TeamQueue:
            left = sum(job.total - job.completed for job in self.unended(connection) if job.team == team)
            return TeamQueue(
                active=min(active, left),
                waiting=max(0, left - active),
                last_success=table.last_completed(connection, team),
            )

        return await self._database.run(work)

    def watch(self, job_id: str) -> AbstractContextManager[JobWatch]:
        """Watch a job for as long as the block lasts."""
        return self._context.changes.watch(job_id)

    @override
    def _read(self, row: sqlite3.Row) -> JobRecord:
        return table.job_of(row)

    @override
    def _runner(self, job: JobRecord, *, begins: bool = False) -> JobRunner:
        failure = self._faults.choose_job(job.kind) if begins else None
        runner = self._runners[job.id] = CrawlRunner(job, self._context, failure)
        return runner

    @override
    async def _complete(self, job: JobRecord, runner: JobRunner) -> None:
        try:
            await super()._complete(job, runner)
        finally:
            if self._runners.get(job.id) is runner:
                del self._runners[job.id]
            self._context.changes.notify(job.id)

    @override
    def _forget(self, connection: sqlite3.Connection, expired: list[int], now: datetime) -> None:
        table.forget_results(connection, expired)
        table.forget_expired(connection, now)
