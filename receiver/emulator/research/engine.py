"""All extractions and agents: they are started, cancelled and listed."""

import sqlite3
from dataclasses import replace
from datetime import datetime
from typing import Literal

from typing_extensions import override

from receiver.emulator.jobs.engine import LIFETIME, JobEngine, JobRunner
from receiver.emulator.jobs.records import JobEnded, JobKind, JobNotFound, kind_of
from receiver.emulator.research import table
from receiver.emulator.research.runner import ResearchContext, ResearchRunner, ResearchSettler
from receiver.emulator.research.table import ResearchRecord, ResearchState, ResearchStep
from receiver.emulator.wire.research import ResearchPlan

LIST_PAGE = 20
"""How many jobs a listing has."""


class ResearchEngine(JobEngine[ResearchRecord]):
    """Keeps extractions and agents, and runs them."""

    kinds = (JobKind.EXTRACT, JobKind.AGENT)

    def __init__(self, context: ResearchContext) -> None:
        super().__init__(context)
        self._context = context

    async def start(self, plan: ResearchPlan, team: str) -> ResearchRecord:
        """Start a job. It survives the end of the process from here on, if the state is a file.

        JobNotFound if the team has no such conversation.
        """
        now = self._context.clock.now()
        job = ResearchRecord(
            seq=0,
            id=self._context.ids.new(),
            kind=kind_of(plan),
            team=team,
            plan=plan,
            state=ResearchState.PROCESSING,
            error=None,
            created_at=now,
            ended_at=None,
            expires_at=now + LIFETIME,
            thread_id=(plan.thread_id or self._context.ids.new()) if plan.kind == "agent" else "",
        )

        def insert(connection: sqlite3.Connection) -> ResearchRecord:
            if plan.thread_id is None:
                return table.insert_job(connection, job)
            turns = table.thread_turns(connection, team, plan.thread_id)
            if not turns:
                raise JobNotFound("Thread not found")
            return table.insert_job(connection, replace(job, turn=turns + 1))

        return await self._begin(job, insert)

    async def get(self, kind: Literal["extract", "agent"], job_id: str, team: str) -> ResearchRecord:
        """Return a job of a team. Raises JobNotFound, or JobExpired."""
        return await self._find(job_id, team, JobKind(kind))

    async def cancel(self, kind: Literal["extract", "agent"], job_id: str, team: str) -> None:
        """Cancel a job. What is scraped now does not count. Raises JobNotFound, or JobEnded."""
        job = await self.get(kind, job_id, team)
        with self._context.activity.running():
            if not await ResearchSettler(job, self._context).cancel():
                raise JobEnded(f"The {kind} job has already ended")
            self._jobs.stop(job_id)

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

    @override
    def _read(self, row: sqlite3.Row) -> ResearchRecord:
        return table.job_of(row)

    @override
    def _runner(self, job: ResearchRecord, *, begins: bool = False) -> JobRunner:
        return ResearchRunner(job, self._context)

    @override
    def _forget(self, connection: sqlite3.Connection, expired: list[int], now: datetime) -> None:
        table.forget_steps(connection, expired)
