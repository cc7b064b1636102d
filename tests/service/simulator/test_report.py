"""Statistics in constant memory: quantiles with a known error, series of limited length, the busiest second."""

import math
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from receiver.service.schedule import State
from receiver.service.simulator.endpoint import ResponseKind
from receiver.service.simulator.report import Quantiles, SimulationReport
from receiver.service.simulator.run import SimulatedAttempt
from receiver.service.simulator.scenario import Scenario
from receiver.service.simulator.series import Series

SECOND_US = 1_000_000
DURATIONS = st.lists(st.integers(0, 10**12), min_size=1, max_size=200)


@given(DURATIONS, st.sampled_from([0.01, 0.5, 0.9, 0.99, 1.0]))
def test_a_quantile_is_at_most_a_512th_above_the_true_one(durations: list[int], share: float) -> None:
    """It is never below the true quantile."""
    quantiles = Quantiles()
    for duration in durations:
        quantiles.add(duration)
    true = sorted(durations)[max(0, math.ceil(share * len(durations)) - 1)]

    found = quantiles.at(share)

    assert found is not None
    assert true <= found <= true * (1 + 1 / 512)
    assert found in durations


def test_a_quantile_of_equal_durations_is_exact() -> None:
    """Without durations there is no quantile."""
    quantiles = Quantiles()
    assert quantiles.at(0.5) is None

    for _ in range(3):
        quantiles.add(1_260_200_001)

    assert quantiles.at(0.5) == quantiles.at(1) == 1_260_200_001


def test_quantiles_need_memory_per_bucket_only() -> None:
    """A hundred thousand durations of up to a day take a few thousand buckets."""
    quantiles = Quantiles()
    for number in range(100_000):
        quantiles.add(number * 864_000)

    assert len(list(quantiles.curve())) < 10_000


@given(st.lists(st.tuples(st.integers(0, 10**11), st.integers(0, 2)), max_size=100))
def test_a_series_counts_everything_in_at_most_240_steps(things: list[tuple[int, int]]) -> None:
    """Each count lies in the step of its moment, whatever the order of the moments."""
    series = Series(3)
    for moment, kind in things:
        series.add(moment, kind)
    rows = series.rows()

    assert len(rows) <= 240
    for start, counts in rows:
        end = start + series.width_us
        assert counts == [sum(start <= moment < end and kind == one for moment, kind in things) for one in range(3)]
    assert sum(sum(counts) for _, counts in rows) == len(things)


def attempt(number: int, started: int, ended: int) -> SimulatedAttempt:
    started_us, ended_us = started * SECOND_US, ended * SECOND_US
    return SimulatedAttempt(
        number, 1, 0, 0, started_us, ended_us, 0, ResponseKind.TIMEOUT, State.RETRY_1, False, False
    )


def test_the_busiest_second_is_found_wherever_it_lies() -> None:
    """Its attempts may end up to a time-out later, with others between them."""
    for busiest in range(200):
        attempts = [attempt(second, second, second) for second in range(220)]
        attempts += [attempt(1_000 + one, busiest, busiest + 10) for one in range(3)]
        report = SimulationReport(Scenario())
        for one in sorted(attempts, key=lambda one: one.ended_us):
            report.add(one)

        assert report.peak_rate == 4


def test_json_keeps_every_microsecond() -> None:
    """Seconds are written exactly."""
    report = SimulationReport(Scenario())
    report.add(attempt(1, 0, 1)._replace(ended_us=1_000_001, state=State.DELIVERED, outcome=ResponseKind.OK))

    assert report.as_json()["time_to_delivery_s"] == {"p50": 1.000001, "p99": 1.000001, "max": 1.000001}
    assert timedelta(seconds=report.as_json()["ended_s"]) == timedelta(microseconds=1_000_001)
