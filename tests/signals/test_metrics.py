"""The metrics: their names and values, and the limit on labels from outside."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from receiver.core.clock import VirtualClock
from receiver.core.types import AttemptOutcome, DeliveryKey, HandlerName, Trigger
from receiver.core.work import Backlog
from receiver.errors import StoreError
from receiver.signals import Signal
from receiver.signals import contracts as signals
from receiver.signals.metrics.intake import IntakeMetrics
from receiver.signals.metrics.registry import Capped
from receiver.signals.metrics.work import BacklogReader, WorkMetrics
from tests.doubles import LONG, NOON, soon, turns

INDEX, TELL = HandlerName("handlers.index"), HandlerName("handlers.tell")
PATIENCE = timedelta(seconds=LONG)
SECOND = timedelta(seconds=1)
Samples = dict[tuple[str, ...], float]


def samples(exposition: bytes) -> Samples:
    """Read the text format back: values by name and sorted labels, as `name, label=value, ...`."""
    return {
        (sample.name, *sorted(f"{name}={value}" for name, value in sample.labels.items())): sample.value
        for family in text_string_to_metric_families(exposition.decode())
        for sample in family.samples
    }


class Monotonic:
    """A clock for latencies."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


# --- intake


class Figures:
    """The numbers that intake counts without metrics."""

    received_bytes = 1_000
    bytes_in_flight = 20
    quarantined = 3


@pytest.fixture
def monotonic() -> Monotonic:
    """A clock that stands still."""
    return Monotonic()


@pytest.fixture
def intake(monotonic: Monotonic) -> Iterator[IntakeMetrics]:
    """The metrics of a web process."""
    with IntakeMetrics(Figures(), monotonic=monotonic) as metrics:
        yield metrics


def accepted(kind: str = "crawl.page") -> None:
    signals.delivery_accepted.emit(
        signals.DeliveryAccepted(id=DeliveryKey("k"), type=kind, job_id=None, size=5, received_at=NOON)
    )


def duplicated(*, conflict: bool) -> None:
    signals.delivery_duplicated.emit(
        signals.DeliveryDuplicated(
            id=DeliveryKey("k"), type="crawl.page", job_id=None, size=5, received_at=NOON, conflict=conflict
        )
    )


async def test_deliveries_are_counted_by_outcome_and_type(intake: IntakeMetrics) -> None:
    """A conflict is counted apart from duplicates, and is in quarantine."""
    accepted()
    accepted()
    accepted("agent.completed")
    duplicated(conflict=False)
    duplicated(conflict=True)
    found = samples(await intake.exposition())

    assert {name: value for name, value in found.items() if name[0] == "receiver_deliveries_total"} == {
        ("receiver_deliveries_total", "outcome=accepted", "type=crawl.page"): 2,
        ("receiver_deliveries_total", "outcome=accepted", "type=agent.completed"): 1,
        ("receiver_deliveries_total", "outcome=duplicate", "type=crawl.page"): 1,
        ("receiver_deliveries_total", "outcome=conflict", "type=crawl.page"): 1,
    }
    assert found["receiver_quarantined_total", "reason=conflict"] == 1
    assert found["receiver_quarantined_total", "reason=malformed"] == 3


async def test_refusals_are_counted_by_reason_and_begin_at_zero(intake: IntakeMetrics) -> None:
    """So a rate includes the first refusal."""
    assert samples(await intake.exposition())["receiver_refusals_total", "reason=malformed"] == 0

    for reason in ("malformed", "deadline", "deadline", "new_reason"):
        signals.delivery_refused.emit(signals.DeliveryRefused(at=NOON, status=400, reason=reason, detail=""))
    found = samples(await intake.exposition())

    assert found["receiver_refusals_total", "reason=malformed"] == 1
    assert found["receiver_refusals_total", "reason=deadline"] == 2
    assert found["receiver_refusals_total", "reason=new_reason"] == 1
    assert found["receiver_refusals_total", "reason=too_large"] == 0


async def test_the_latency_of_answers_is_a_histogram_by_class_of_status(
    intake: IntakeMetrics, monotonic: Monotonic
) -> None:
    """It counts seconds from the request's headers to the answer."""
    for status, seconds in ((200, 0.25), (200, 0.5), (413, 4.0), (503, 5.0)):
        answered = intake.stopwatch()
        monotonic.now += seconds
        answered(status)
    found = samples(await intake.exposition())

    assert found["receiver_answer_seconds_count", "status=2xx"] == 2
    assert found["receiver_answer_seconds_sum", "status=2xx"] == 0.75
    assert found["receiver_answer_seconds_bucket", "le=0.25", "status=2xx"] == 1
    assert found["receiver_answer_seconds_bucket", "le=10.0", "status=2xx"] == 2
    assert found["receiver_answer_seconds_count", "status=4xx"] == 1
    assert found["receiver_answer_seconds_count", "status=5xx"] == 1


async def test_the_numbers_of_intake_are_read_on_request(intake: IntakeMetrics) -> None:
    """They are bytes and requests in quarantine."""
    found = samples(await intake.exposition())

    assert found["receiver_received_bytes_total",] == 1_000
    assert found["receiver_in_flight_bytes",] == 20


async def test_too_many_types_become_other(intake: IntakeMetrics) -> None:
    """They come from outside, and each label value is a series that Prometheus keeps."""
    for number in range(200):
        accepted(f"made.up{number}")
    accepted("made.up0")
    found = samples(await intake.exposition())
    types = {name: value for name, value in found.items() if name[0] == "receiver_deliveries_total"}

    assert len(types) == 51
    assert types["receiver_deliveries_total", "outcome=accepted", "type=made.up0"] == 2
    assert types["receiver_deliveries_total", "outcome=accepted", "type=other"] == 150


def test_a_label_that_is_too_long_becomes_other() -> None:
    """It does not use up a place of another value."""
    capped = Capped(1)

    assert [capped("x" * 101), capped("a"), capped("a"), capped("b")] == ["other", "a", "a", "other"]


async def test_odd_types_are_escaped(intake: IntakeMetrics) -> None:
    """They may have quotes, backslashes and letters of any script."""
    odd = 'ä"\\x'
    accepted(odd)

    found = samples(await intake.exposition())

    assert found["receiver_deliveries_total", "outcome=accepted", f"type={odd}"] == 1


async def test_nothing_is_counted_after_the_end() -> None:
    """The signals belong to the process and outlive one receiver."""
    with IntakeMetrics(Figures()) as metrics:
        accepted()
    accepted()

    found = samples(await metrics.exposition())

    assert found["receiver_deliveries_total", "outcome=accepted", "type=crawl.page"] == 1
    assert not any(
        signal.receivers
        for signal in (signals.delivery_accepted, signals.delivery_duplicated, signals.delivery_refused)
    )


async def test_the_exposition_has_process_metrics_and_no_creation_times(intake: IntakeMetrics) -> None:
    """`_created` series would double the number of series."""
    accepted()
    found = samples(await intake.exposition())

    assert ("process_resident_memory_bytes",) in found
    assert not [name for name, *_ in found if name.endswith("_created")]


async def test_dropped_records_are_counted_by_subscriber(intake: IntakeMetrics) -> None:
    """A subscriber that is too slow can be seen without reading logs."""
    text = (await intake.exposition()).decode()

    assert "# TYPE receiver_signal_records_dropped_total counter" in text


# --- work


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


BACKLOG = Backlog(
    new=4, waiting=30, running=2, oldest_waiting=90 * SECOND, paused=(TELL, HandlerName("gone")), lost=3
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
                signals.JobAsked(job_id="j", reason="ended", outcome=outcome, brought_in=new, at=NOON)
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
    assert found["receiver_handler_paused", "handler=handlers.tell"] == 1
    assert found["receiver_handler_paused", "handler=handlers.index"] == 0
    assert found["receiver_handler_paused", "handler=gone"] == 1


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
    assert [record.getMessage() for record in caplog.records] == ["backlog_not_read"]


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
