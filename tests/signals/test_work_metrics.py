"""The metrics of a worker: what it counts, and what it reads from the store."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from receiver.core.clock import VirtualClock
from receiver.core.types import AttemptOutcome, DeliveryKey, HandlerName, Trigger
from receiver.core.work import Backlog, StoreFacts
from receiver.errors import StoreError
from receiver.signals import Signal
from receiver.signals import contracts as signals
from receiver.signals.metrics.work import BacklogReader, WorkMetrics
from tests.doubles import NOON, event_of, soon, turns
from tests.signals.exposition import PATIENCE, SECOND, Samples, samples

INDEX, TELL = HandlerName("handlers.index"), HandlerName("handlers.tell")


class FakeReports:
    """A store that gives its backlog when it may, and counts the readings."""

    def __init__(self, *answers: Backlog | Exception) -> None:
        self.answers = list(answers)
        self.asked = 0
        self.open = 0
        self.let = asyncio.Event()
        self.let.set()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Any]:
        self.open += 1
        try:
            yield self
        finally:
            self.open -= 1

    async def backlog(self, now: Any) -> Backlog:
        self.asked += 1
        await self.let.wait()
        answer = self.answers[min(self.asked, len(self.answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def facts(self) -> StoreFacts:
        return StoreFacts(5_000, 7, 90 * SECOND)


BACKLOG = Backlog(
    new=4,
    waiting=30,
    running=2,
    oldest_waiting=90 * SECOND,
    paused=(TELL, HandlerName("gone")),
    lost=3,
    next_runs={HandlerName("handlers.report"): NOON},
)
EMPTY = Backlog(new=0, waiting=0, running=0, oldest_waiting=None, paused=(), lost=0)


def reader(reports: FakeReports, clock: VirtualClock | None = None, **more: Any) -> BacklogReader:
    return BacklogReader(reports.opened, clock or VirtualClock(NOON), **({"patience": PATIENCE} | more))


@asynccontextmanager
async def work_metrics(*answers: Backlog | Exception) -> AsyncIterator[Callable[[], Any]]:
    """The metrics of a worker with two handlers; yields a function that reads them."""
    with WorkMetrics([INDEX, TELL], reader(FakeReports(*answers or (EMPTY,)))) as metrics:

        async def read() -> Samples:
            return samples(await metrics.exposition())

        yield read


def common(handler: HandlerName) -> dict[str, Any]:
    return {
        "work_id": 1,
        "handler": handler,
        "id": DeliveryKey("k"),
        "type": "crawl.page",
        "job_id": None,
        "attempt": 1,
        "trigger": Trigger.DELIVERY,
        "at": NOON,
    }


def succeeded(handler: HandlerName, took: timedelta) -> None:
    signals.attempt_succeeded.emit(signals.AttemptSucceeded(**common(handler), took=took, overdue=False))


def failed(handler: HandlerName, outcome: AttemptOutcome) -> None:
    signals.attempt_failed.emit(
        signals.AttemptFailed(
            **common(handler), outcome=outcome, error="E", retry_at=None, took=SECOND, overdue=False
        )
    )


async def test_attempts_are_counted_by_handler_and_outcome() -> None:
    """Each pair begins at zero."""
    async with work_metrics() as read:
        before = await read()
        succeeded(INDEX, SECOND)
        failed(INDEX, AttemptOutcome.FAILED)
        failed(TELL, AttemptOutcome.TIMED_OUT)
        failed(TELL, AttemptOutcome.LOST)
        found = await read()

    assert [value for name, value in before.items() if name[0] == "receiver_attempts_total"] == [0] * 8
    assert {name[1:] for name, value in found.items() if name[0] == "receiver_attempts_total" and value} == {
        ("handler=handlers.index", "outcome=succeeded"),
        ("handler=handlers.index", "outcome=failed"),
        ("handler=handlers.tell", "outcome=timed_out"),
        ("handler=handlers.tell", "outcome=lost"),
    }
    assert found["receiver_leases_lost_total",] == 1


async def test_the_latency_of_handlers_is_a_histogram() -> None:
    """The sum does not become smaller when the clock was set back."""
    async with work_metrics() as read:
        succeeded(INDEX, 3 * SECOND)
        succeeded(INDEX, -3 * SECOND)
        failed(INDEX, AttemptOutcome.FAILED)
        found = await read()

    assert found["receiver_handler_seconds_count", "handler=handlers.index"] == 3
    assert found["receiver_handler_seconds_sum", "handler=handlers.index"] == 4
    assert found["receiver_handler_seconds_bucket", "handler=handlers.index", "le=1.0"] == 2


async def test_dead_work_is_counted_by_handler() -> None:
    """The counter begins with the worker; the store knows the total."""
    async with work_metrics() as read:
        signals.work_dead.emit(signals.WorkDead(**common(TELL), received_at=NOON, error="E"))
        found = await read()

    assert found["receiver_work_dead_total", "handler=handlers.tell"] == 1
    assert found["receiver_work_dead_total", "handler=handlers.index"] == 0


async def test_backfilling_is_counted_by_outcome_and_by_type() -> None:
    """Outcomes begin at zero, so that an alarm includes the first one."""
    async with work_metrics() as read:
        before = await read()
        for outcome, pages in (("brought_in", 3), ("failed", 1), ("failed", 0)):
            new = {"crawl.page": pages} if pages else {}
            signals.job_asked.emit(
                signals.JobAsked(job_id="j", reason="ended", outcome=outcome, imported=new, at=NOON)
            )
        found = await read()

    jobs = "receiver_backfill_jobs_total"
    assert [value for name, value in before.items() if name[0] == jobs] == [0] * 5
    assert (found[jobs, "outcome=brought_in"], found[jobs, "outcome=failed"]) == (1, 2)
    assert found["receiver_backfilled_total", "type=crawl.page"] == 4


async def test_the_backlog_is_read_from_the_store() -> None:
    """It has lengths, the age of the oldest in seconds, and paused handlers, also unknown ones."""
    async with work_metrics(BACKLOG) as read:
        found = await read()

    assert found["receiver_store_readable",] == 1
    assert found["receiver_deliveries_new",] == 4
    assert found["receiver_work_items", "state=waiting"] == 30
    assert found["receiver_work_items", "state=running"] == 2
    assert found["receiver_oldest_waiting_seconds",] == 90
    assert found["receiver_attempts_lost",] == 3
    assert found["receiver_store_bytes",] == 5_000
    assert found["receiver_store_dead_rows",] == 7
    assert found["receiver_store_oldest_snapshot_seconds",] == 90
    assert ("receiver_store_standby_lag_seconds",) not in found
    assert found["receiver_handler_paused", "handler=handlers.tell"] == 1
    assert found["receiver_handler_paused", "handler=handlers.index"] == 0
    assert found["receiver_handler_paused", "handler=gone"] == 1
    assert found["receiver_next_run_timestamp_seconds", "handler=handlers.report"] == NOON.timestamp()


async def test_the_age_is_zero_when_nothing_waits() -> None:
    """The gauge has no gap."""
    async with work_metrics(EMPTY) as read:
        assert (await read())["receiver_oldest_waiting_seconds",] == 0


@pytest.mark.parametrize("error", [StoreError("away"), ValueError("a fault of ours")])
async def test_without_the_store_only_the_backlog_is_missing(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """An old value is not shown as a present one."""
    async with work_metrics(error) as read:
        succeeded(INDEX, SECOND)
        found = await read()

    assert found["receiver_store_readable",] == 0
    assert found["receiver_attempts_total", "handler=handlers.index", "outcome=succeeded"] == 1
    assert not [name for name in found if name[0] == "receiver_work_items"]
    assert [event_of(record) for record in caplog.records] == ["backlog_not_read"]


async def test_a_worker_counts_nothing_after_its_end() -> None:
    """The signals belong to the process."""
    async with work_metrics():
        pass

    assert not any(
        signal.receivers
        for signal in vars(signals).values()
        if isinstance(signal, Signal) and not (signal.__doc__ or "").startswith("Web")
    )


async def test_the_store_is_read_every_few_seconds_at_most() -> None:
    """Each reading has a connection of its own, and many requests share one reading."""
    clock, reports = VirtualClock(NOON), FakeReports(EMPTY, BACKLOG)
    backlog = reader(reports, clock)

    assert [await backlog.read(), await backlog.read()] == [EMPTY, EMPTY]
    clock.advance(5 * SECOND)
    assert await backlog.read() == BACKLOG
    assert (reports.asked, reports.open) == (2, 0)


async def test_requests_at_the_same_time_share_one_reading() -> None:
    """This holds also if the reading takes longer than its result stays fresh."""
    clock, reports = VirtualClock(NOON), FakeReports(BACKLOG)
    reports.let.clear()
    backlog = reader(reports, clock)
    looking = [asyncio.create_task(backlog.read()) for _ in range(5)]
    await turns()
    clock.advance(9 * SECOND)
    looking.append(asyncio.create_task(backlog.read()))
    await turns()
    reports.let.set()

    assert await soon(asyncio.gather(*looking)) == [BACKLOG] * 6
    assert reports.asked == 1


async def test_a_store_that_does_not_answer_delays_nobody() -> None:
    """Its answer counts when it comes."""
    reports = FakeReports(BACKLOG)
    reports.let.clear()
    backlog = reader(reports, patience=timedelta(milliseconds=1))

    assert await soon(backlog.read()) is None
    reports.let.set()
    await turns()
    assert await soon(backlog.read()) == BACKLOG
