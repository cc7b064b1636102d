"""The live run on a virtual clock: the timeline of the simulation, faults of the sender, and the end."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from receiver.core.clock import FastClock, VirtualClock
from receiver.core.envelope import read_envelope
from receiver.errors import Malformed
from receiver.service.schedule import State
from receiver.service.simulator.endpoint import ResponseKind
from receiver.service.simulator.faults import FaultKind, SimulatedRequest
from receiver.service.simulator.live import EndpointReply, Live, LiveSent
from receiver.service.simulator.run import SimulatedAttempt, simulate
from receiver.service.simulator.scenario import (
    ArrivalPattern,
    Endpoint,
    Faults,
    Job,
    Latency,
    Outage,
    OutageKind,
    Scenario,
    Waits,
)
from tests.doubles import NOON, pass_time, turns

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
ONE = ArrivalPattern(at=(timedelta(0),))
OK, REFUSED, TIMEOUT = (
    EndpointReply(ResponseKind.OK, 200),
    EndpointReply(ResponseKind.REFUSED),
    EndpointReply(ResponseKind.TIMEOUT),
)

Post = Callable[[SimulatedRequest], Awaitable[EndpointReply]]


def answering(*replies: EndpointReply) -> Post:
    """Give these answers at once, the last one for ever."""
    left = list(replies)

    async def post(request: SimulatedRequest) -> EndpointReply:
        return left.pop(0) if len(left) > 1 else left[0]

    return post


class Played:
    """A live run that a test moves second by second."""

    def __init__(
        self, scenario: Scenario, post: Post | None = None, *, speed: float = 1, places: int = 256
    ) -> None:
        self.below = VirtualClock(NOON)
        self.clock = FastClock(self.below, speed) if speed != 1 else self.below
        self.sent: list[LiveSent] = []
        self.stop = asyncio.Event()
        self._step = SECOND / speed
        self._latency = scenario.endpoint.latency.p50
        self.live = Live(
            scenario, post or self._works, self.clock, random.Random(1), self.sent.append, self.stop, places=places
        )
        self.running = asyncio.create_task(self.live.run())

    async def _works(self, request: SimulatedRequest) -> EndpointReply:
        await self.clock.sleep(self._latency)
        return OK

    async def to_its_end(self) -> "Played":
        """Let time pass until everything has been sent."""
        while not self.running.done():
            await turns(30)
            self.below.advance(self._step)
        await self.running
        return self

    @property
    def attempts(self) -> list[SimulatedAttempt]:
        """The attempts of the schedule, in the order of the simulation."""
        attempts = [one.attempt for one in self.sent if one.attempt is not None]
        return sorted(attempts, key=lambda one: (one.ended_us, one.delivery))


SECONDS = st.integers(0, 60).map(lambda seconds: seconds * SECOND)
OUTAGES = st.tuples(SECONDS, SECONDS, st.sampled_from(OutageKind)).map(
    lambda drawn: Outage(start=min(drawn[:2]), end=max(drawn[:2]) + SECOND, kind=drawn[2])
)


@settings(max_examples=30)
@given(
    at=st.lists(SECONDS, min_size=1, max_size=4),
    outages=st.lists(OUTAGES, max_size=3),
    latency=st.sampled_from([1, 3, 12]),
)
def test_a_live_run_has_the_timeline_of_the_simulation(
    at: list[timedelta], outages: list[Outage], latency: int
) -> None:
    """Every attempt of any scenario: its number, its start, its end, how it ended, and where that leads to.

    Pauses are short, so that retries meet outages often. An endpoint that works longer than the time-out
    is one whose requests time out, whatever becomes of them.
    """
    scenario = Scenario(
        arrivals=ArrivalPattern(at=tuple(at)),
        outages=tuple(outages),
        endpoint=Endpoint(latency=Latency(p50=latency * SECOND)),
        sender=Waits(timeout=10 * SECOND, pauses=(4 * SECOND, 11 * SECOND, 23 * SECOND)),
    )

    async def played() -> list[SimulatedAttempt]:
        async def works(request: SimulatedRequest) -> EndpointReply:
            await run.clock.sleep(min(latency * SECOND, scenario.schedule.timeout))
            return OK if latency * SECOND <= scenario.schedule.timeout else TIMEOUT

        run = Played(scenario, works)
        return (await run.to_its_end()).attempts

    def timeline(attempt: SimulatedAttempt) -> tuple[object, ...]:
        outcome = ResponseKind.TIMEOUT if attempt.outcome is ResponseKind.LATE else attempt.outcome
        return (*attempt[:6], outcome, attempt.state)

    # Attempts that end at the same moment have no order.
    assert sorted(map(timeline, asyncio.run(played()))) == sorted(map(timeline, simulate(scenario)))


async def test_at_sixty_times_the_speed_the_whole_schedule_takes_21_seconds() -> None:
    """With time-outs, attempts start at 0, 1:10, 6:20 and 21:30 and end at 21:40, within a step of the test."""
    out = (Outage(start=timedelta(0), end=60 * MINUTE, kind=OutageKind.HANG),)
    run = await Played(Scenario(arrivals=ONE, outages=out), speed=60).to_its_end()

    starts = [one.started_us / 1e6 for one in run.attempts]
    assert starts == pytest.approx([0, 70, 380, 1290], abs=1)
    assert run.attempts[-1].state is State.FAILED
    assert run.below.now() - NOON == pytest.approx(21.7 * SECOND, abs=SECOND)
    assert all(one.reply is None for one in run.sent)


async def test_a_refused_delivery_is_sent_again_until_it_is_accepted() -> None:
    """The bytes stay the same. The answer to a retry may say that it is known."""
    known = EndpointReply(ResponseKind.OK, 200, known=True)
    run = await Played(Scenario(arrivals=ONE), answering(REFUSED, TIMEOUT, known)).to_its_end()

    assert [one.state for one in run.attempts] == [State.RETRY_1, State.RETRY_2, State.DELIVERED]
    assert [one.arrived_before for one in run.attempts] == [False, False, True]
    assert len({one.request.body for one in run.sent}) == 1


async def test_bodies_are_the_stories_of_the_jobs() -> None:
    """They come in order. Deliveries without a job get the bodies of a crawl."""
    jobs = (Job(family="agent", pages=1, at=SECOND), Job(family="extract", pages=3, at=10 * SECOND))
    run = await Played(Scenario(arrivals=ArrivalPattern(at=(timedelta(0),), jobs=jobs))).to_its_end()

    types = [read_envelope((), one.request.body, received_at=NOON).type for one in run.sent]
    assert types == [
        "crawl.started",
        "agent.started",
        "agent.action",
        "agent.completed",
        "extract.started",
        "extract.completed",
    ]


def faulty(**shares: float) -> Scenario:
    return Scenario(arrivals=ArrivalPattern(rate=1, duration=20 * SECOND), faults=Faults(**shares))


async def test_a_duplicate_repeats_the_bytes_after_delivery() -> None:
    """It is sent once, outside of the schedule."""
    run = await Played(faulty(duplicates=1)).to_its_end()

    first = [one.request.body for one in run.sent if one.attempt is not None]
    again = [one.request.body for one in run.sent if one.attempt is None]
    assert sorted(first) == sorted(again)
    assert len(set(first)) == len(first) == run.live.faults["duplicates"] == 20


async def test_reordered_deliveries_are_overtaken() -> None:
    """Their first attempt comes up to a minute late, and none is lost."""
    run = await Played(faulty(reordered=0.5)).to_its_end()

    order = [one.delivery for one in run.attempts]
    held = [one for one in run.attempts if one.started_us > one.created_us]
    assert order != sorted(order)
    assert sorted(order) == list(range(1, 21))
    assert 0 < len(held) == run.live.faults["reordered"] < 20
    assert max(one.started_us - one.created_us for one in held) <= 61_000_000


async def test_a_forgery_is_sent_once_beside_the_delivery() -> None:
    """Its body is an invented delivery."""
    run = await Played(faulty(forged=1), answering(EndpointReply(ResponseKind.STATUS, 401))).to_its_end()

    forged = [one for one in run.sent if one.request.way is FaultKind.FORGED]
    bodies = {one.request.body for one in forged}
    assert len(bodies) == len(forged) == run.live.faults["forged"] == 20
    assert all(one.attempt is None for one in forged)
    assert not bodies & {one.request.body for one in run.sent if one.request.way is not FaultKind.FORGED}


async def test_a_truncated_delivery_is_whole_in_its_retry() -> None:
    """The first half is not an envelope, with either signature."""

    async def post(request: SimulatedRequest) -> EndpointReply:
        return OK if request.payload == request.body else EndpointReply(ResponseKind.STATUS, 400)

    run = await Played(faulty(truncated=1), post).to_its_end()

    cut = [one.request for one in run.sent if one.request.way is not FaultKind.WHOLE]
    assert {one.way for one in cut} == {FaultKind.CUT, FaultKind.CLIPPED}
    assert len(cut) == run.live.faults["truncated"] == 20
    for request in cut:
        with pytest.raises(Malformed):
            read_envelope((), request.payload, received_at=NOON)
    assert [one.attempt for one in run.attempts if one.state is State.DELIVERED] == [2] * 20


async def test_slow_uploads_take_up_to_twice_the_time_out() -> None:
    """Some arrive in time and some do not."""
    run = await Played(faulty(slow=1)).to_its_end()

    uploads = [one.request.upload for one in run.sent]
    assert {one.request.way for one in run.sent} == {FaultKind.SLOW}
    assert min(uploads) < 10 * SECOND < max(uploads) <= 20 * SECOND


async def test_a_seed_repeats_the_faults_but_not_the_ids() -> None:
    """Another run on the same store needs other ids."""
    shares = {"duplicates": 0.3, "reordered": 0.3, "forged": 0.3, "truncated": 0.3, "slow": 0.3}
    runs = [await Played(faulty(**shares)).to_its_end() for _ in range(2)]

    requests = [sorted((one.request.way, one.request.upload) for one in run.sent) for run in runs]
    assert requests[0] == requests[1]
    assert runs[0].live.faults == runs[1].live.faults
    assert {fault for fault, number in runs[0].live.faults.items() if number} == shares.keys()


async def test_an_attempt_without_a_free_place_waits() -> None:
    """It starts when it has a place, and its time-out counts from there."""
    at_once = ArrivalPattern(at=(timedelta(0),) * 3)
    slow = Endpoint(latency=Latency(p50=4 * SECOND))
    run = await Played(Scenario(arrivals=at_once, endpoint=slow), places=1).to_its_end()

    assert [one.started_us // 1_000_000 for one in run.attempts] == [0, 4, 8]
    assert [one.waited_us // 1_000_000 for one in run.attempts] == [0, 4, 8]


async def test_a_stopped_run_starts_nothing_and_finishes_running_requests() -> None:
    """New deliveries and waiting retries are dropped; the answers of running requests count."""
    answered = asyncio.Event()
    posted = 0

    async def post(request: SimulatedRequest) -> EndpointReply:
        nonlocal posted
        posted += 1
        if posted == 1:
            return REFUSED
        await answered.wait()
        return OK

    run = Played(Scenario(arrivals=ArrivalPattern(at=(timedelta(0), SECOND, MINUTE))), post)
    for _ in range(2):
        await pass_time(run.below, SECOND)
    run.stop.set()
    await turns()
    assert not run.running.done()
    answered.set()
    await run.running

    assert posted == 2
    assert [one.state for one in run.attempts] == [State.RETRY_1, State.DELIVERED]
    assert run.live.created == 2


async def test_an_exception_of_the_listener_ends_the_run_unchanged() -> None:
    """A closed pipe stays a closed pipe."""

    def tell(sent: LiveSent) -> None:
        raise BrokenPipeError

    scenario = Scenario(arrivals=ONE)
    with pytest.raises(BrokenPipeError):
        await Live(
            scenario, answering(OK), VirtualClock(NOON), random.Random(1), tell, asyncio.Event(), places=1
        ).run()
