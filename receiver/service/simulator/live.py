"""A scenario played against a real endpoint: the same states, moves and pauses, in real time.

The body for each arrival is the next event of its job.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from receiver.core.clock import Clock, time_limit
from receiver.core.units import MICROSECOND
from receiver.service.samples import Payload, encode, job_story, sample
from receiver.service.schedule import ATTEMPTS, EndpointResponse, State, after, pause_before
from receiver.service.simulator.arrivals import FIRST_JOB, Arrival, arrivals
from receiver.service.simulator.endpoint import ResponseKind
from receiver.service.simulator.faults import FaultKind, Faulty, SimulatedRequest, draw_faults
from receiver.service.simulator.run import SimulatedAttempt
from receiver.service.simulator.scenario import Job, Outage, OutageKind, Scenario

_PAGES = 20


class Stories:
    """The stories of a scenario's jobs. Exact moments and steady traffic get crawls of 20 pages."""

    def __init__(self, jobs: Sequence[Job], rng: random.Random) -> None:
        self._rng = rng
        self._crawls = _endless(rng)
        self._jobs = [job_story(job.family, job.pages, rng) for job in jobs]

    def body(self, job: int) -> bytes:
        """Return the body of the next delivery of an Arrival's job."""
        return encode(next(self._crawls if job < FIRST_JOB else self._jobs[job - FIRST_JOB]))

    def invented(self) -> bytes:
        """Return the body of an invented delivery, for a forged request."""
        return encode(sample("crawl.page", rng=self._rng))


def _endless(rng: random.Random) -> Iterator[Payload]:
    while True:
        yield from job_story("crawl", _PAGES, rng)


class EndpointReply(NamedTuple):
    """What a request met."""

    outcome: ResponseKind
    """How the endpoint responded. LATE does not occur: a sender never learns that a request arrived late."""
    status: int | None = None
    """HTTP status; None when no answer came."""
    known: bool = False
    """Whether the receiver said that it had the delivery already."""
    meaning: str = ""
    """A sentence for people; empty when the delivery was accepted."""


class LiveSent(NamedTuple):
    """One request and its end."""

    request: SimulatedRequest
    """The request that was sent."""
    reply: EndpointReply | None
    """The reply to it; None if the sender held the request back itself because it plays an outage."""
    attempt: SimulatedAttempt | None
    """The attempt of the schedule; None for a forgery and for a second copy."""


Post = Callable[[SimulatedRequest], Awaitable[EndpointReply]]
"""Sends a request and returns the reply within the scenario's time-out."""


@dataclass(frozen=True, slots=True)
class _Delivery:
    """A delivery of the run."""

    number: int
    """Its number, from 1."""
    arrival: Arrival
    """When it is created, and for which job."""
    body: bytes
    """Its body."""
    faulty: Faulty
    """What goes wrong with it."""


class Live:
    """Sends the deliveries of a scenario, each with its retries, and at most `places` requests at one time.

    The run begins when this object is made. The scenario's endpoint is not simulated. Its outages are, by the
    sender, which holds back every attempt that starts in one. `created` counts deliveries, and `faults` the
    deliveries with each fault. Ids come from `rng`; two runs on one store need different ones.
    """

    def __init__(
        self,
        scenario: Scenario,
        post: Post,
        clock: Clock,
        rng: random.Random,
        report: Callable[[LiveSent], None],
        stop: asyncio.Event,
        *,
        places: int,
    ) -> None:
        self.created = 0
        self.faults: Counter[str] = Counter()
        self._scenario = scenario
        self._post = post
        self._clock = clock
        self._report = report
        self._stop = stop
        self._places = asyncio.Semaphore(places)
        self._stories = Stories(scenario.arrivals.jobs, rng)
        self._start = clock.now()

    async def run(self) -> None:
        """Send everything, and call `report` with each request when it ends.

        After `stop` is set nothing new starts, and this returns when the running requests have their answers. An
        exception from `report` ends the run and is raised here.
        """
        try:
            async with asyncio.TaskGroup() as group:
                async for delivery in self._arriving():
                    group.create_task(self._deliver(delivery))
                    if delivery.faulty.forgery:
                        group.create_task(
                            self._send_beside(SimulatedRequest(self._stories.invented(), FaultKind.FORGED))
                        )
        except BaseExceptionGroup as raised:
            raise raised.exceptions[0] from None

    async def _arriving(self) -> AsyncIterator[_Delivery]:
        """Yield each delivery as it is created."""
        scenario = self._scenario
        faults = draw_faults(scenario.faults, scenario.schedule, scenario.seed)
        for arrival, faulty in zip(arrivals(scenario.arrivals, scenario.seed), faults, strict=False):
            if not await self._until(arrival.created_us):
                return
            self.created += 1
            self._count(faulty)
            yield _Delivery(self.created, arrival, self._stories.body(arrival.job), faulty)

    def _count(self, faulty: Faulty) -> None:
        self.faults["duplicates"] += faulty.again
        self.faults["reordered"] += bool(faulty.held_back)
        self.faults["forged"] += faulty.forgery
        self.faults["truncated"] += faulty.first in (FaultKind.CUT, FaultKind.CLIPPED)
        self.faults["slow"] += faulty.first is FaultKind.SLOW

    async def _deliver(self, delivery: _Delivery) -> None:
        """Attempt one delivery until it is delivered or failed."""
        faulty, schedule = delivery.faulty, self._scenario.schedule
        request = SimulatedRequest(delivery.body, faulty.first, faulty.upload)
        due_us = delivery.arrival.created_us + faulty.held_back // MICROSECOND
        state, arrived = State.ATTEMPT, False
        while await self._until(due_us):
            attempt = await self._attempt(delivery, request, state, due_us, arrived)
            if attempt is None:
                return
            state, arrived = attempt.state, arrived or attempt.arrived
            pause = pause_before(state, schedule)
            if pause is None:
                break
            request = SimulatedRequest(delivery.body)
            due_us = attempt.ended_us + pause // MICROSECOND
        if state is State.DELIVERED and faulty.again:
            await self._send_beside(SimulatedRequest(delivery.body))

    async def _attempt(
        self, delivery: _Delivery, request: SimulatedRequest, state: State, due_us: int, arrived_before: bool
    ) -> SimulatedAttempt | None:
        """Make and report the attempt of this state; None if the run was stopped before a place was free."""
        async with self._places:
            if self._stop.is_set():
                return None
            started_us = self._now_us()
            outcome, reply = await self._meet(request, started_us)
            ended_us = self._now_us()
        ok = outcome is ResponseKind.OK
        attempt = SimulatedAttempt(
            delivery=delivery.number,
            attempt=ATTEMPTS.index(state) + 1,
            job=delivery.arrival.job,
            created_us=delivery.arrival.created_us,
            started_us=started_us,
            ended_us=ended_us,
            waited_us=max(0, started_us - due_us),
            outcome=outcome,
            state=after(state, EndpointResponse.SUCCESS if ok else EndpointResponse.FAILURE),
            arrived=ok,
            arrived_before=arrived_before or (reply is not None and reply.known),
        )
        self._report(LiveSent(request, reply, attempt))
        return attempt

    async def _meet(self, request: SimulatedRequest, started_us: int) -> tuple[ResponseKind, EndpointReply | None]:
        outage = self._scenario.outage_at(started_us * MICROSECOND)
        if outage is not None:
            return await self._play(outage), None
        reply = await self._post(request)
        return reply.outcome, reply

    async def _play(self, outage: Outage) -> ResponseKind:
        """Fail like an attempt in this outage, without sending anything."""
        match outage.kind:
            case OutageKind.REFUSE:
                return ResponseKind.REFUSED
            case OutageKind.HANG:
                await self._clock.sleep(self._scenario.schedule.timeout)
                return ResponseKind.TIMEOUT
            case OutageKind.STATUS:
                latency, timeout = self._scenario.endpoint.latency.p50, self._scenario.schedule.timeout
                await self._clock.sleep(min(latency, timeout))
                return ResponseKind.STATUS if latency <= timeout else ResponseKind.TIMEOUT

    async def _send_beside(self, request: SimulatedRequest) -> None:
        async with self._places:
            if not self._stop.is_set():
                self._report(LiveSent(request, await self._post(request), None))

    async def _until(self, moment_us: int) -> bool:
        """Wait for a moment of the run. Return False if the run is stopped before."""
        left = self._start + moment_us * MICROSECOND - self._clock.now()
        if left <= timedelta(0):
            return not self._stop.is_set()
        try:
            async with time_limit(self._clock, left):
                await self._stop.wait()
        except TimeoutError:
            return True
        return False

    def _now_us(self) -> int:
        return (self._clock.now() - self._start) // MICROSECOND
