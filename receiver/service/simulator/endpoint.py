"""The simulated endpoint: outages, latency, errors, and a queue when its capacity is used up."""

import heapq
import math
import random
from collections.abc import Callable
from datetime import timedelta
from enum import StrEnum

from receiver.core.units import MICROSECOND
from receiver.service.simulator.scenario import Endpoint, Latency, OutageKind, Scenario

_SIGMAS_AT_P99 = 2.3263478740408408
"""The 99 % quantile of the standard normal distribution."""


class ResponseKind(StrEnum):
    """How one attempt ended."""

    OK = "ok"
    """A 2xx in time."""
    REFUSED = "refused"
    """No connection."""
    STATUS = "status"
    """Another status in time."""
    TIMEOUT = "timeout"
    """No answer in time, and nothing arrived."""
    LATE = "late"
    """A 2xx after the time-out: failed for the service, and arrived all the same."""


Met = tuple[ResponseKind, int, int]
"""What an attempt met: its outcome, the moment the service knew it, and how long the request had to queue."""


class SimulatedEndpoint:
    """Answers attempts, which have to come in the order of their starts.

    Latency and error are drawn when an attempt starts, so that equal attempts get equal values in every run.
    """

    def __init__(self, scenario: Scenario) -> None:
        endpoint = scenario.endpoint
        self._timeout = scenario.schedule.timeout // MICROSECOND
        self._outages = [
            (outage.start // MICROSECOND, outage.end // MICROSECOND, outage.kind) for outage in scenario.outages
        ]
        self._latency = _latencies(endpoint.latency, scenario.seed)
        self._errors = random.Random(f"{scenario.seed} errors")  # noqa: S311 - repeatable, and no secret
        self._error_rate = endpoint.error_rate
        self._queue = None if endpoint.capacity is None else _Queue(endpoint.capacity)

    def answer(self, started_us: int) -> Met:
        """Return the response to an attempt that starts now."""
        for start, end, kind in self._outages:
            if start <= started_us < end:
                return self._out(started_us, kind)
        latency = self._latency()
        erred = self._error_rate > 0 and self._errors.random() < self._error_rate
        waited = 0 if self._queue is None else self._queue.wait(started_us, latency)
        took = waited + latency
        if took <= self._timeout:
            return (ResponseKind.STATUS if erred else ResponseKind.OK, started_us + took, waited)
        return (ResponseKind.TIMEOUT if erred else ResponseKind.LATE, started_us + self._timeout, waited)

    def _out(self, started_us: int, kind: OutageKind) -> Met:
        if kind is OutageKind.REFUSE:
            return (ResponseKind.REFUSED, started_us, 0)
        if kind is OutageKind.STATUS and (latency := self._latency()) <= self._timeout:
            return (ResponseKind.STATUS, started_us + latency, 0)
        return (ResponseKind.TIMEOUT, started_us + self._timeout, 0)


class _Queue:
    """First come, first served, with a number of servers.

    Requests are served in order, so the times at which the servers become free give the wait of a new request. No
    request has to be kept (Kiefer and Wolfowitz, On the theory of queues with many servers, 1955).
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._free_at: list[int] = []

    def wait(self, now: int, work: int) -> int:
        """Return the wait of a request that comes now and takes this long."""
        if len(self._free_at) < self._capacity and not (self._free_at and self._free_at[0] <= now):
            heapq.heappush(self._free_at, now + work)
            return 0
        started = max(now, self._free_at[0])
        heapq.heapreplace(self._free_at, started + work)
        return started - now


def _latencies(latency: Latency, seed: int) -> Callable[[], int]:
    """Return a function that gives the next latency in microseconds."""
    median = latency.p50 // MICROSECOND
    if latency.p99 is None or latency.p99 == latency.p50:
        return lambda: median
    mu = math.log(median)
    sigma = (math.log(latency.p99 // MICROSECOND) - mu) / _SIGMAS_AT_P99
    rng = random.Random(f"{seed} latency")  # noqa: S311 - repeatable, and no secret
    return lambda: int(math.exp(rng.gauss(mu, sigma)))


def mean_latency(endpoint: Endpoint) -> timedelta:
    """Return the mean of the endpoint's latency."""
    median, high = endpoint.latency.p50, endpoint.latency.p99
    if high is None:
        return median
    sigma = math.log(high / median) / _SIGMAS_AT_P99
    return median * math.exp(sigma * sigma / 2)
