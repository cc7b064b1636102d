"""When deliveries are created: moment by moment: a million of them need no memory."""

import heapq
import math
import random
from collections.abc import Iterator
from fractions import Fraction
from itertools import takewhile
from typing import NamedTuple

from receiver.core.units import MICROSECOND
from receiver.service.samples import story_length
from receiver.service.simulator.scenario import ArrivalPattern

_SECOND_US = 1_000_000
FIRST_JOB = 2
"""The number of the scenario's first job: before it come the exact moments and the rate."""


class Arrival(NamedTuple):
    """A delivery that is created."""

    created_us: int
    """When it is created, in microseconds from the start of the scenario."""
    job: int
    """Number of its job: 0 for exact moments, 1 for the steady rate, from FIRST_JOB on for the scenario's jobs."""


def arrivals(wanted: ArrivalPattern, seed: int) -> Iterator[Arrival]:
    """Yield all arrivals in the order of time; at one moment exact ones, then steady traffic, then jobs."""
    sources = [(Arrival(moment // MICROSECOND, 0) for moment in sorted(wanted.at)), _at_rate(wanted, seed, 1)]
    sources += [
        _even(job.pace, story_length(job.family, job.pages), number, job.at // MICROSECOND)
        for number, job in enumerate(wanted.jobs, start=FIRST_JOB)
    ]
    return heapq.merge(*sources)


def _at_rate(wanted: ArrivalPattern, seed: int, job: int) -> Iterator[Arrival]:
    if wanted.rate is None:
        return iter(())
    end_us = wanted.duration // MICROSECOND
    if wanted.poisson:
        return (
            Arrival(moment, job)
            for moment in takewhile(lambda moment: moment < end_us, _poisson(wanted.rate, seed))
        )
    return _even(wanted.rate, math.ceil(end_us * Fraction(str(wanted.rate)) / _SECOND_US), job)


def _even(rate: float, number: int, job: int, first_us: int = 0) -> Iterator[Arrival]:
    """Yield `number` arrivals, 1/rate apart, each rounded down to a microsecond: errors do not add up."""
    gap = _SECOND_US / Fraction(str(rate))
    over, under = gap.numerator, gap.denominator
    return (Arrival(first_us + place * over // under, job) for place in range(number))


def _poisson(rate: float, seed: int) -> Iterator[int]:
    rng = random.Random(f"{seed} arrivals")  # noqa: S311 - repeatable, and no secret
    seconds = 0.0
    while True:
        seconds += rng.expovariate(rate)
        yield int(seconds * _SECOND_US)
