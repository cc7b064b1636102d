"""The metrics of the web process: their names and values, and the limit on labels from outside."""

from collections.abc import Iterator

import pytest

from receiver.core.types import DeliveryKey
from receiver.signals import contracts as signals
from receiver.signals.metrics.intake import IntakeMetrics
from receiver.signals.metrics.registry import Capped
from tests.doubles import NOON
from tests.signals.exposition import samples


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
