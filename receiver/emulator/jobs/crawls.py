"""All crawls and batch scrapes: they are started, cancelled, watched, and can grow."""

import sqlite3
from contextlib import AbstractContextManager
from datetime import datetime

from typing_extensions import override

from receiver.emulator.account.account import TeamQueue
from receiver.emulator.contracts import JobFaults, NoJobFaults
from receiver.emulator.jobs import table
from receiver.emulator.jobs.engine import LIFETIME, JobEngine, JobRunner, JobWatch
from receiver.emulator.jobs.records import (
    EmulatedJobState,
    JobEnded,
    JobKind,
    JobNotFound,
    JobRecord,
    PageError,
    kind_of,
)
from receiver.emulator.jobs.runner import CrawlContext, CrawlRunner
from receiver.emulator.jobs.table import ResultsPage
from receiver.emulator.wire.plans import BatchPlan, CrawlPlan

_NO_LIMIT = 1 << 62


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
            seq=0,
            id=self._context.ids.new(),
            kind=kind_of(plan),
            team=team,
            plan=plan,
            state=EmulatedJobState.SCRAPING,
            error=None,
            created_at=now,
            ended_at=None,
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
        table.forget_results(connection, expired, now)
