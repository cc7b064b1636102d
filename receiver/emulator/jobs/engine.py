"""The durable job engine: it keeps jobs in the state, runs them, and resumes them after a restart.

Crawls, batch scrapes, extractions, agents and checks of monitors run here, each kind by its own runner. A runner
may begin in the middle of a job. It writes each step together with its event and its price in one transaction, and
waits while the state cannot be written: a full disk delays a job and never fails it.
"""

import asyncio
import sqlite3
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from receiver.core.clock import Clock, Timer
from receiver.emulator.clock import Activity
from receiver.emulator.contracts import JobAccount, WebhookTarget
from receiver.emulator.failures import TooManyAtOnce
from receiver.emulator.ids import IdSource
from receiver.emulator.jobs import table
from receiver.emulator.jobs.records import JobExpired, JobKind, JobNotFound, JobOfOtherTeam, StoredJob
from receiver.emulator.scrapes import ScrapedPage, ScrapePlan, Scraper
from receiver.emulator.state.database import PatientState, StateDatabase
from receiver.emulator.webhooks.table import PreparedDelivery
from receiver.runtime.log_lines import event_log

log = event_log(__name__)

T = TypeVar("T")
Job = TypeVar("Job", bound=StoredJob)
LIFETIME = timedelta(hours=24)
"""How long the results of a job are kept."""
_SWEEP_EVERY = timedelta(hours=1)
_SWEEP = "sweep"


class JobEvents(Protocol):
    """Keeps the events of jobs for delivery, together with what they report. The outbox does."""

    def prepare(
        self,
        target: WebhookTarget | None,
        event_type: str,
        job_id: str,
        *,
        success: bool = True,
        data: list[Any] | None = None,
        error: str | None = None,
    ) -> PreparedDelivery | None:
        """Return the delivery of an event; None if there is no target, or its filter refuses the type."""

    def keep(self, connection: sqlite3.Connection, *prepared: PreparedDelivery | None) -> None:
        """Keep deliveries, as a part of the caller's transaction."""

    def wake(self, *prepared: PreparedDelivery | None) -> None:
        """Send what was kept, now that its transaction is committed."""


class JobWatch:
    """One watcher of one job."""

    def __init__(self) -> None:
        self._news = asyncio.Event()

    def notify(self) -> None:
        """Let `changed` return."""
        self._news.set()

    async def changed(self) -> None:
        """Return when the job has changed since the last return, or since the watch began."""
        await self._news.wait()
        self._news.clear()


class JobChanges:
    """Notifies the watchers of jobs that something has changed."""

    def __init__(self) -> None:
        self._watches: dict[str, set[JobWatch]] = defaultdict(set)

    def notify(self, job_id: str) -> None:
        """Notify all watchers of a job."""
        for watch in self._watches.get(job_id, ()):
            watch.notify()

    @contextmanager
    def watch(self, job_id: str) -> Iterator[JobWatch]:
        """Watch a job for as long as the block lasts."""
        watch = JobWatch()
        self._watches[job_id].add(watch)
        try:
            yield watch
        finally:
            self._watches[job_id].discard(watch)
            if not self._watches[job_id]:
                del self._watches[job_id]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext:
    """The parts of the emulator that running jobs share."""

    database: StateDatabase
    scraper: Scraper
    events: JobEvents
    account: JobAccount
    """Pays, in the transaction that notes a page."""
    clock: Clock
    ids: IdSource
    activity: Activity = field(default_factory=Activity)
    changes: JobChanges = field(default_factory=JobChanges)

    @property
    def state(self) -> PatientState:
        """The state, for a job that runs."""
        return self.database.patient

    async def scrape(self, plan: ScrapePlan, team: str) -> ScrapedPage:
        """Return a page of a job. It waits for room on the disk, and for a place if other scrapes have them all."""
        while True:
            try:
                return await self.state.until_written(lambda: self.scraper.scrape(plan, history_team=team))
            except TooManyAtOnce:
                continue


class JobSettler(Generic[Job]):
    """Writes the steps of one job, each together with the event that reports it."""

    def __init__(self, job: Job, context: JobContext) -> None:
        self._job = job
        self._context = context

    def event(
        self, kind: str, *, success: bool = True, data: list[Any] | None = None, error: str | None = None
    ) -> PreparedDelivery | None:
        """Return an event of the job for `write`; None if it is not wanted."""
        job = self._job
        name = f"{job.kind}.{kind}"
        return self._context.events.prepare(job.plan.webhook, name, job.id, success=success, data=data, error=error)

    async def write(self, work: Callable[[sqlite3.Connection], T], *events: PreparedDelivery | None) -> T:
        """Run a transaction that keeps these events, and send them."""
        done = await self._context.state.run(work)
        self._context.events.wake(*events)
        self._context.changes.notify(self._job.id)
        return done


class JobRunner(Protocol):
    """Works on one job."""

    async def run(self) -> None:
        """Return when the job has ended. What is noted already is not done again."""

    async def fail(self, error: str) -> None:
        """End the job, because it cannot continue."""


class RunningJobs:
    """The jobs that run now, each in a task with a key."""

    def __init__(self, activity: Activity, ids: IdSource) -> None:
        self._activity = activity
        self._ids = ids
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._tasks

    def start(self, key: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run this in a task, and return the task."""
        self._activity.begin()
        task = self._tasks[key] = asyncio.create_task(work)
        task.add_done_callback(lambda done: self._ended(key, done))
        return task

    def stop(self, key: str) -> None:
        """Stop a task where it is, if there is one with this key."""
        if key in self._tasks:
            self._tasks[key].cancel()

    async def stop_all(self) -> None:
        """Stop every task where it is, and return when all have ended."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def over(self) -> None:
        """Return when no task is left."""
        while self._tasks:
            await asyncio.wait(list(self._tasks.values()))

    async def complete(self, job_id: str, runner: JobRunner) -> None:
        """Run a job to its end. A fault of the emulator fails it, and is logged under an id."""
        try:
            await runner.run()
        except Exception:
            fault = self._ids.new()
            log.exception("job_crashed", extra={"job_id": job_id, "fault": fault})
            await runner.fail(f"The job ended by a fault of the emulator; its log has it as {fault}")

    def _ended(self, key: str, task: asyncio.Task[None]) -> None:
        if self._tasks.get(key) is task:
            del self._tasks[key]
        self._activity.end()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("job_lost", exc_info=error)


class JobEngine(ABC, Generic[Job]):
    """Keeps jobs of some kinds in the state, and runs them. Entering it resumes those that had not ended."""

    kinds: tuple[JobKind, ...]

    def __init__(self, context: JobContext) -> None:
        self._jobs = RunningJobs(context.activity, context.ids)
        self._database = context.database
        self._shared = context
        self._sweep_timer: Timer | None = None

    async def __aenter__(self) -> Self:
        await self._sweep()
        for job in await self._database.patient.run(self.unended):
            self._run(job, self._runner(job))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        await self.stop_all()

    async def stop_all(self) -> None:
        """Stop every job where it is. It is resumed only when the engine is entered anew."""
        await self._jobs.stop_all()

    def unended(self, connection: sqlite3.Connection) -> list[Job]:
        """Return the jobs that have not ended, oldest first."""
        rows = table.rows_of_jobs(connection, "ended_at IS NULL ORDER BY seq")
        return [self._read(row) for row in rows if row["kind"] in self.kinds]

    async def _begin(self, job: Job, insert: Callable[[sqlite3.Connection], Job]) -> Job:
        """Keep a job with the event of its start, and run it. From here on it survives the end of the process."""
        started = self._shared.events.prepare(job.plan.webhook, f"{job.kind}.started", job.id)

        def work(connection: sqlite3.Connection) -> Job:
            kept = insert(connection)
            self._shared.events.keep(connection, started)
            return kept

        with self._shared.activity.running():
            kept = await self._database.run(work)
            self._shared.events.wake(started)
            self._run(kept, self._runner(kept, begins=True))
        return kept

    async def _find(self, job_id: str, team: str, *kinds: JobKind) -> Job:
        """Return a job of a team. Raises JobNotFound, JobOfOtherTeam or JobExpired."""
        rows = await self._database.run(lambda c: table.rows_of_jobs(c, "id = ?", job_id))
        if not rows or rows[0]["kind"] not in kinds:
            raise JobNotFound("Job not found")
        job = self._read(rows[0])
        if job.team != team:
            raise JobOfOtherTeam("Job not found")
        if job.expires_at <= self._shared.clock.now():
            raise JobExpired("Job expired")
        return job

    def _run(self, job: Job, runner: JobRunner) -> None:
        self._jobs.start(job.id, self._complete(job, runner))

    async def _complete(self, job: Job, runner: JobRunner) -> None:
        await self._jobs.complete(job.id, runner)

    async def _sweep(self) -> None:
        """Delete the results of jobs that have expired, now and every hour."""
        now = self._shared.clock.now()

        def work(connection: sqlite3.Connection) -> None:
            self._forget(connection, table.expire(connection, self.kinds, now), now)

        def sweep_again() -> None:
            self._jobs.stop(_SWEEP)  # the last one, if it still waits for room on the disk
            self._jobs.start(_SWEEP, self._sweep())

        self._sweep_timer = self._shared.clock.call_later(_SWEEP_EVERY, sweep_again)
        await self._database.patient.run(work)

    @abstractmethod
    def _read(self, row: sqlite3.Row) -> Job:
        """Return a job of these kinds."""

    @abstractmethod
    def _runner(self, job: Job, *, begins: bool = False) -> JobRunner:
        """Return what works on a job, which has just been started or is resumed."""

    @abstractmethod
    def _forget(self, connection: sqlite3.Connection, expired: list[int], now: datetime) -> None:
        """Delete the results of jobs that have just expired, given by their `seq`."""
