"""All crawls and batch scrapes: they are started, cancelled, watched, and go on after a restart."""

import asyncio
import sqlite3
from collections.abc import Coroutine
from contextlib import AbstractContextManager
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from receiver.core.clock import Clock, Timer
from receiver.emulator.account.account import TeamQueue, TeamSlots
from receiver.emulator.activity import Activity
from receiver.emulator.contracts import JobAccount, JobFailure, JobFaults, NoJobFaults
from receiver.emulator.ids import IdSource
from receiver.emulator.jobs import sites, table
from receiver.emulator.jobs.context import JobChanges, JobContext, JobWatch
from receiver.emulator.jobs.records import (
    EmulatedJobState,
    JobEnded,
    JobExpired,
    JobKind,
    JobNotFound,
    JobOfOtherTeam,
    JobRecord,
    PageError,
)
from receiver.emulator.jobs.runner import JobRunner
from receiver.emulator.jobs.sites import OpenSite
from receiver.emulator.jobs.table import ResultsPage
from receiver.emulator.scrapes import Scraper
from receiver.emulator.state.database import StateDatabase
from receiver.emulator.webhooks.outbox import Outbox
from receiver.emulator.wire.plans import BatchPlan, CrawlPlan
from receiver.runtime.log_lines import event_log

log = event_log(__name__)

SCHEMA = table.SCHEMA + table.RESULTS_SCHEMA + sites.SCHEMA
LIFETIME = timedelta(hours=24)
"""How long the results of a job are kept."""
_SWEEP_EVERY = timedelta(hours=1)


class JobEngine:
    """Keeps jobs in the state, and runs them. Entering it goes on with those that had not ended."""

    def __init__(
        self,
        database: StateDatabase,
        *,
        scraper: Scraper,
        outbox: Outbox,
        account: JobAccount,
        clock: Clock,
        ids: IdSource,
        open_site: OpenSite,
        max_concurrency: int = 10,
        activity: Activity | None = None,
        faults: JobFaults | None = None,
    ) -> None:
        """At most `max_concurrency` pages of a team are scraped at one time."""
        self._database = database
        self._clock = clock
        self._ids = ids
        self._outbox = outbox
        self._changes = JobChanges()
        self._faults = faults or NoJobFaults()
        self._activity = activity or Activity()
        self._context = JobContext(
            database=database,
            scraper=scraper,
            outbox=outbox,
            account=account,
            clock=clock,
            ids=ids,
            open_site=open_site,
            slots=TeamSlots(max_concurrency),
            activity=self._activity,
            changed=self._changes.notify,
        )
        self._runners: dict[str, JobRunner] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._sweep_timer: Timer | None = None

    async def __aenter__(self) -> Self:
        await self._sweep()
        for job in await self._database.run(table.unended_jobs):
            self._run(job)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        await self._stop_tasks()

    async def start(self, plan: CrawlPlan | BatchPlan, team: str) -> JobRecord:
        """Start a job. It survives the end of the process from here on, if the state is a file."""
        job, urls, limit = self._new_job(plan, team)
        event = self._outbox.prepare(plan.webhook, f"{job.kind}.started", job.id)

        def work(connection: sqlite3.Connection) -> JobRecord:
            seq = table.insert_job(connection, job, urls, limit)
            self._outbox.keep(connection, event)
            return _existing(table.job_by_seq(connection, seq))

        with self._activity.running():
            started = await self._database.run(work)
            self._outbox.wake(event)
            self._run(started, self._faults.choose_job(started.kind))
        return started

    async def append(self, plan: BatchPlan, team: str) -> JobRecord:
        """Add the URLs of a plan to the batch that it names. Raises JobNotFound, or JobEnded after a cancel."""
        job = await self.get(plan.append_to_id or "", team)
        if job.kind is not JobKind.BATCH:
            raise JobNotFound("Job not found")

        def work(connection: sqlite3.Connection) -> JobRecord | None:
            reopened = table.reopen(connection, job.seq, plan.urls)
            return table.job_by_seq(connection, job.seq) if reopened else None

        with self._activity.running():
            grown = await self._database.run(work)
            if grown is None:
                raise JobEnded(f"The batch was {job.state}, so nothing can be added to it")
            runner = self._runners.get(job.id)
            if runner is None:
                self._run(grown)
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
        self._changes.notify(job_id)

    async def get(self, job_id: str, team: str) -> JobRecord:
        """Return a job of a team. Raises JobNotFound, JobOfOtherTeam or JobExpired."""
        job = await self._database.run(lambda c: table.job_by_id(c, job_id))
        if job is None:
            raise JobNotFound("Job not found")
        if job.team != team:
            raise JobOfOtherTeam("Job not found")
        if job.expires_at <= self._clock.now():
            raise JobExpired("Job expired")
        return job

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
            for job in await self._database.run(table.unended_jobs)
            if job.team == team and job.kind is JobKind.CRAWL and job.state is EmulatedJobState.SCRAPING
        ]

    async def queue_of(self, team: str) -> TeamQueue:
        """Return how many pages of a team's jobs are scraped, and how many wait."""

        def work(connection: sqlite3.Connection) -> TeamQueue:
            jobs = [job for job in table.unended_jobs(connection) if job.team == team]
            left = sum(job.total - job.completed for job in jobs)
            return TeamQueue(
                active=min(active, left),
                waiting=max(0, left - active),
                last_success=table.last_completed(connection, team),
            )

        running = sum(one.scraping for one in self._runners.values() if one.job.team == team)
        active = min(running, self._context.slots.most)
        return await self._database.run(work)

    def watch(self, job_id: str) -> AbstractContextManager[JobWatch]:
        """Watch a job for as long as the block lasts."""
        return self._changes.watch(job_id)

    async def stop_all(self) -> None:
        """Stop every job where it is. It goes on only when the engine is entered anew."""
        await self._stop_tasks()

    def _new_job(self, plan: CrawlPlan | BatchPlan, team: str) -> tuple[JobRecord, tuple[str, ...], int | None]:
        now = self._clock.now()
        is_crawl = isinstance(plan, CrawlPlan)
        job = JobRecord(
            seq=0,
            id=self._ids.new(),
            kind=JobKind.CRAWL if is_crawl else JobKind.BATCH,
            team=team,
            plan=plan,
            state=EmulatedJobState.SCRAPING,
            error=None,
            created_at=now,
            ended_at=None,
            expires_at=now + LIFETIME,
            found=0,
            completed=0,
            failed=0,
            credits=0,
            blocked=0,
            sitemap_read=False,
        )
        return (job, (plan.url,), plan.limit) if isinstance(plan, CrawlPlan) else (job, plan.urls, None)

    def _run(self, job: JobRecord, failure: JobFailure | None = None) -> None:
        runner = self._runners[job.id] = JobRunner(job, self._context, failure)
        self._spawn(self._run_to_end(runner))

    async def _run_to_end(self, runner: JobRunner) -> None:
        try:
            await runner.run()
        finally:
            if self._runners.get(runner.job.id) is runner:
                del self._runners[runner.job.id]
            self._changes.notify(runner.job.id)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._activity.begin()
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._activity.end()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("job_lost", exc_info=error)

    async def _stop_tasks(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _sweep(self) -> None:
        """Delete the results of jobs that have expired, now and every hour."""
        now = self._clock.now()

        def work(connection: sqlite3.Connection) -> None:
            table.delete_documents(connection, table.expire(connection, now))
            sites.forget_origins(connection)

        self._sweep_timer = self._clock.call_later(_SWEEP_EVERY, lambda: self._spawn(self._sweep()))
        await self._database.patient.run(work)


def _existing(job: JobRecord | None) -> JobRecord:
    if job is None:
        raise JobNotFound("Job not found")
    return job
