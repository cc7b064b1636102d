"""The result of a simulation: counts, times and series, collected attempt by attempt.

Quantiles are counted in buckets: they need constant memory, and have a known error.
"""

from collections.abc import Iterator
from typing import Any

from receiver.core.units import MICROSECOND
from receiver.service.schedule import ATTEMPTS, State
from receiver.service.simulator.endpoint import ResponseKind
from receiver.service.simulator.run import SimulatedAttempt, simulate
from receiver.service.simulator.scenario import Scenario
from receiver.service.simulator.series import Series

_BITS = 10
"""A bucket is at most a 512th of its values wide."""


class Quantiles:
    """Counts durations in whole microseconds, and finds quantiles of them.

    A quantile is one of the durations that were added. It is never below the true one, and at most 0.2 % above it.
    It is exact if all durations of its bucket are equal, and for the largest duration.
    """

    def __init__(self) -> None:
        self.count = 0
        self._buckets: dict[int, list[int]] = {}

    def add(self, micros: int) -> None:
        """Count one duration."""
        self.count += 1
        shift = micros.bit_length() - _BITS
        number = (shift << _BITS) + (micros >> shift) if shift > 0 else micros
        bucket = self._buckets.get(number)
        if bucket is None:
            self._buckets[number] = [1, micros]
            return
        bucket[0] += 1
        if micros > bucket[1]:
            bucket[1] = micros

    def at(self, share: float) -> int | None:
        """Return the smallest duration that this share of all does not exceed; None if nothing was counted."""
        wanted = share * self.count
        return next((micros for micros, passed in self.curve() if passed >= wanted), None)

    def curve(self) -> Iterator[tuple[int, int]]:
        """Yield durations in their order, each with the number of durations that do not exceed it."""
        passed = 0
        for number in sorted(self._buckets):
            count, largest = self._buckets[number]
            passed += count
            yield largest, passed


SECOND_US = 1_000_000
FATES = ("attempt 1", "attempt 2", "attempt 3", "attempt 4", "failed")
"""What becomes of a delivery: the attempt that delivers it, or none."""


class SimulationReport:
    """Statistics of the attempts of one simulation, in constant memory.

    `by_attempt` counts deliveries by the attempt that delivered them. `lost` counts failed deliveries that never
    arrived, not even late. `outcomes` counts attempts. `duplicates` counts arrivals of a delivery that had arrived
    before. `out_of_order` counts deliveries that were delivered after one of the same job that was created later.
    `times` are the times from creation to delivery. `fates` counts deliveries over the time of their creation, by
    FATES. `waves` counts attempts over the time of their start, by number.
    """

    def __init__(self, scenario: Scenario) -> None:
        self.delivered = self.failed = self.lost = 0
        self.by_attempt = [0] * len(ATTEMPTS)
        self.outcomes = dict.fromkeys(ResponseKind, 0)
        self.duplicates = self.out_of_order = 0
        self.longest_wait_us = self.ended_us = 0
        self.times = Quantiles()
        self.fates = Series(len(FATES))
        self.waves = Series(len(ATTEMPTS))
        self._starts = _BusiestSecond(scenario.schedule.timeout // MICROSECOND)
        self._newest: dict[int, int] = {}

    def add(self, attempt: SimulatedAttempt) -> None:
        """Count one attempt. Attempts have to come in the order of their ends."""
        _, number, _, created_us, started_us, ended_us, waited_us, outcome, state, arrived, before = attempt
        self.outcomes[outcome] += 1
        self.ended_us = ended_us
        if arrived and before:
            self.duplicates += 1
        if waited_us > self.longest_wait_us:
            self.longest_wait_us = waited_us
        self._starts.add(started_us, ended_us)
        self.waves.add(started_us, number - 1)
        if state is State.DELIVERED:
            self._deliver(attempt)
        elif state is State.FAILED:
            self.failed += 1
            self.lost += not (arrived or before)
            self.fates.add(created_us, len(ATTEMPTS))

    def _deliver(self, attempt: SimulatedAttempt) -> None:
        delivery, number, job, created_us, _, ended_us, *_ = attempt
        self.delivered += 1
        self.by_attempt[number - 1] += 1
        self.times.add(ended_us - created_us)
        self.fates.add(created_us, number - 1)
        if delivery < self._newest.get(job, 0):
            self.out_of_order += 1
        else:
            self._newest[job] = delivery

    @property
    def deliveries(self) -> int:
        """How many deliveries were delivered or have failed."""
        return self.delivered + self.failed

    @property
    def attempts(self) -> int:
        """How many attempts were made."""
        return sum(self.outcomes.values())

    @property
    def late(self) -> int:
        """How many attempts arrived after the time-out."""
        return self.outcomes[ResponseKind.LATE]

    @property
    def peak_rate(self) -> int:
        """How many attempts started in the busiest second."""
        return self._starts.most

    def as_json(self) -> dict[str, Any]:
        """Return the single figures as JSON, times in seconds."""
        return {
            "deliveries": self.deliveries,
            "delivered": self.delivered,
            "failed": self.failed,
            "lost": self.lost,
            "by_attempt": self.by_attempt,
            "attempts": self.attempts,
            "outcomes": {outcome.value: number for outcome, number in self.outcomes.items()},
            "late": self.late,
            "duplicates": self.duplicates,
            "time_to_delivery_s": {
                "p50": seconds(self.times.at(0.5)),
                "p99": seconds(self.times.at(0.99)),
                "max": seconds(self.times.at(1)),
            },
            "peak_rate_per_s": self.peak_rate,
            "out_of_order": self.out_of_order,
            "longest_wait_s": seconds(self.longest_wait_us),
            "ended_s": seconds(self.ended_us),
        }


class _BusiestSecond:
    """Counts starts by the second. They come in the order of their ends, at most a time-out after the start."""

    def __init__(self, timeout_us: int) -> None:
        self.most = 0
        self._timeout_us = timeout_us
        self._enough = 2 * timeout_us // SECOND_US + 60
        self._counts: dict[int, int] = {}

    def add(self, started_us: int, ended_us: int) -> None:
        second = started_us // SECOND_US
        number = self._counts[second] = self._counts.get(second, 0) + 1
        if number > self.most:
            self.most = number
        if len(self._counts) > self._enough:
            oldest = (ended_us - self._timeout_us) // SECOND_US
            self._counts = {second: number for second, number in self._counts.items() if second >= oldest}


def report_on(scenario: Scenario) -> SimulationReport:
    """Run a scenario to its end and return its statistics."""
    report = SimulationReport(scenario)
    for attempt in simulate(scenario):
        report.add(attempt)
    return report


def seconds(micros: int | None) -> float | None:
    """Return microseconds as seconds."""
    return None if micros is None else micros / SECOND_US


def attempt_as_json(attempt: SimulatedAttempt) -> dict[str, Any]:
    """Return an attempt as one line of the trace."""
    return {
        "delivery": attempt.delivery,
        "attempt": attempt.attempt,
        "started_s": seconds(attempt.started_us),
        "ended_s": seconds(attempt.ended_us),
        "outcome": attempt.outcome.value,
        "state": attempt.state.value,
    }
