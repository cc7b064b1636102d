"""All extractions and agents: they are started, cancelled, and go on after a restart."""

import asyncio
import sqlite3
from collections.abc import Coroutine
from dataclasses import replace
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Literal, Self

from receiver.core.clock import Timer
from receiver.emulator.activity import Activity
from receiver.emulator.jobs.records import JobEnded, JobExpired, JobNotFound
from receiver.emulator.research import table
from receiver.emulator.research.records import (
    ResearchContext,
    ResearchRecord,
    ResearchResult,
    ResearchState,
    ResearchStep,
)
from receiver.emulator.research.runner import ResearchRunner
from receiver.emulator.research.settling import ResearchSettler
from receiver.emulator.wire.research import ResearchPlan
from receiver.runtime.log_lines import event_log

log = event_log(__name__)

SCHEMA = table.SCHEMA
LIFETIME = timedelta(hours=24)
"""How long results are kept."""
LIST_PAGE = 20
"""How many jobs a listing has."""
_SWEEP_EVERY = timedelta(hours=1)


class ResearchEngine:
    """Keeps extractions and agents in the state, and runs them. Entering it goes on with what had not ended."""

    def __init__(self, context: ResearchContext, activity: Activity | None = None) -> None:
        self._context = context
        self._database = context.database
        self._activity = activity or Activity()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._sweeps: set[asyncio.Task[None]] = set()
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
        await self.stop_all()

    async def start(self, plan: ResearchPlan, team: str) -> ResearchRecord:
        """Start a job. It survives the end of the process from here on, if the state is a file.

        JobNotFound if the team has no such conversation.
        """
        job = self._new_job(plan, team)
        event = self._context.outbox.prepare(plan.webhook, f"{plan.kind}.started", job.id)

        def work(connection: sqlite3.Connection) -> ResearchRecord:
            kept = table.insert_job(connection, _in_thread(connection, job))
            self._context.outbox.keep(connection, event)
            return kept

        with self._activity.running():
            started = await self._database.run(work)
            self._context.outbox.wake(event)
            self._run(started)
        return started

    async def get(self, kind: Literal["extract", "agent"], job_id: str, team: str) -> ResearchRecord:
        """Return a job of a team. Raises JobNotFound, or JobExpired."""
        job = await self._database.run(lambda c: table.find_job(c, kind, job_id))
        if job is None or job.team != team:
            raise JobNotFound("Job not found")
        if job.expires_at <= self._context.clock.now():
            raise JobExpired("Job expired")
        return job

    async def cancel(self, kind: Literal["extract", "agent"], job_id: str, team: str) -> None:
        """Cancel a job. What is scraped now does not count. Raises JobNotFound, or JobEnded."""
        job = await self.get(kind, job_id, team)
        with self._activity.running():
            if not await ResearchSettler(job, self._context).cancel():
                raise JobEnded(f"The {kind} job has already ended")
            task = self._tasks.get(job_id)
            if task is not None:
                task.cancel()

    async def listing(
        self, kind: Literal["extract", "agent"], team: str, before: datetime | None
    ) -> tuple[list[ResearchRecord], bool]:
        """Return a team's newest jobs that were started before a moment, and whether there are more."""
        jobs = await self._database.run(lambda c: table.jobs_before(c, kind, team, before, LIST_PAGE + 1))
        return jobs[:LIST_PAGE], len(jobs) > LIST_PAGE

    async def steps(self, job: ResearchRecord) -> list[ResearchStep]:
        """Return the steps of an agent in their order."""
        return await self._database.run(lambda c: table.steps(c, job.seq))

    async def thread(self, thread_id: str, team: str) -> list[ResearchRecord]:
        """Return the agents of a conversation in their order. Raises JobNotFound if there is none."""
        jobs = await self._database.run(lambda c: table.jobs_of_thread(c, team, thread_id))
        if not jobs:
            raise JobNotFound("Thread not found")
        return jobs

    async def stop_all(self) -> None:
        """Stop every job where it is. It goes on only when the engine is entered anew."""
        tasks = [*self._tasks.values(), *self._sweeps]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _new_job(self, plan: ResearchPlan, team: str) -> ResearchRecord:
        now = self._context.clock.now()
        return ResearchRecord(
            seq=0,
            id=self._context.ids.new(),
            team=team,
            plan=plan,
            state=ResearchState.PROCESSING,
            created_at=now,
            ended_at=None,
            expires_at=now + LIFETIME,
            credits=0,
            scraped=0,
            prepared=False,
            searched=False,
            result=ResearchResult(),
            error=None,
            thread_id=(plan.thread_id or self._context.ids.new()) if plan.kind == "agent" else "",
            turn=1,
        )

    def _run(self, job: ResearchRecord) -> None:
        self._tasks[job.id] = self._spawn(ResearchRunner(job, self._context).run())
        self._tasks[job.id].add_done_callback(lambda task: self._forget(job.id, task))

    def _forget(self, job_id: str, task: asyncio.Task[None]) -> None:
        if self._tasks.get(job_id) is task:
            del self._tasks[job_id]

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        self._activity.begin()
        task = asyncio.create_task(work)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._sweeps.discard(task)
        self._activity.end()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("job_lost", exc_info=error)

    def _begin_sweep(self) -> None:
        self._sweeps.add(self._spawn(self._sweep()))

    async def _sweep(self) -> None:
        """Delete the results of jobs that have expired, now and every hour."""
        now = self._context.clock.now()
        self._sweep_timer = self._context.clock.call_later(_SWEEP_EVERY, self._begin_sweep)
        await self._database.patient.run(lambda c: table.expire(c, now))


def _in_thread(connection: sqlite3.Connection, job: ResearchRecord) -> ResearchRecord:
    """Return the job with its number in its conversation."""
    if job.plan.thread_id is None:
        return job
    turns = table.thread_turns(connection, job.team, job.thread_id)
    if not turns:
        raise JobNotFound("Thread not found")
    return replace(job, turn=turns + 1)
