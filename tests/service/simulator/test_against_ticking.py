"""The simulator against another implementation of the same rules, second by second."""

from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from receiver.service.simulator.report import SimulationReport
from receiver.service.simulator.run import simulate
from receiver.service.simulator.scenario import (
    ArrivalPattern,
    Endpoint,
    Job,
    Latency,
    Outage,
    OutageKind,
    Scenario,
    Waits,
)
from tests.service.simulator.ticking import Run, World

SECOND = timedelta(seconds=1)

OUTAGES = st.tuples(st.integers(0, 60), st.integers(1, 60), st.sampled_from(list(OutageKind))).map(
    lambda drawn: (drawn[0], drawn[0] + drawn[1], drawn[2])
)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[World, Scenario]:
    """Draw the same world in both forms, small and crowded enough for everything to get in each other's way."""
    exact = draw(st.lists(st.integers(0, 40), max_size=8))
    jobs = draw(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 5)), max_size=2))
    outages = draw(st.lists(OUTAGES, max_size=3))
    latency, timeout = draw(st.integers(0, 14)), draw(st.integers(1, 10))
    pauses = draw(st.tuples(st.integers(1, 20), st.integers(1, 20), st.integers(1, 20)))
    capacity, erring = draw(st.none() | st.integers(1, 3)), draw(st.booleans())
    created = [(second, 0) for second in exact]
    for number, (at, pages) in enumerate(jobs, start=2):
        created += [(at + place, number) for place in range(pages + 2)]
    world = World(sorted(created), outages, latency, erring, capacity, timeout, list(pauses))
    return world, Scenario(
        arrivals=ArrivalPattern(
            at=tuple(second * SECOND for second in exact),
            jobs=tuple(Job(family="crawl", pages=pages, at=at * SECOND) for at, pages in jobs),
        ),
        endpoint=Endpoint(latency=Latency(p50=latency * SECOND), error_rate=float(erring), capacity=capacity),
        outages=tuple(Outage(start=start * SECOND, end=end * SECOND, kind=kind) for start, end, kind in outages),
        sender=Waits(timeout=timeout * SECOND, pauses=tuple(pause * SECOND for pause in pauses)),
    )


@settings(max_examples=300)
@given(worlds())
def test_both_implementations_agree(drawn: tuple[World, Scenario]) -> None:
    """They agree on start, end and outcome of every attempt, and on every figure."""
    world, scenario = drawn
    ticking = Run(world).run()
    attempts = list(simulate(scenario))
    report = SimulationReport(scenario)
    for attempt in attempts:
        report.add(attempt)

    million = 1_000_000
    assert (
        sorted(
            (one.delivery, one.attempt, one.started_us // million, one.ended_us // million, one.outcome.value)
            for one in attempts
        )
        == ticking.attempts()
    )
    arrived = ticking.arrived()
    times = [moment - world.created[number - 1][0] for number, (moment, _) in ticking.delivered.items()]
    assert report.as_json() | {"outcomes": None, "time_to_delivery_s": None, "longest_wait_s": None} == {
        "deliveries": len(world.created),
        "delivered": len(ticking.delivered),
        "failed": len(ticking.failed),
        "lost": len(ticking.failed - set(arrived)),
        "by_attempt": ticking.by_attempt(),
        "attempts": len(ticking.requests),
        "outcomes": None,
        "late": sum(one.outcome == "late" for one in ticking.requests),
        "duplicates": len(arrived) - len(set(arrived)),
        "time_to_delivery_s": None,
        "peak_rate_per_s": ticking.busiest_second(),
        "out_of_order": ticking.out_of_order(),
        "longest_wait_s": None,
        "ended_s": float(max((one.ended or 0 for one in ticking.requests), default=0)),
    }
    assert report.times.at(1) == (max(times) * million if times else None)
    assert [attempt.ended_us for attempt in attempts] == sorted(attempt.ended_us for attempt in attempts)
