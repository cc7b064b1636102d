"""How long an outage may last, how to split maintenance, and which capacity works off the retries."""

from datetime import timedelta

import pytest

from receiver.errors import ConfigurationError
from receiver.service.simulator.questions import advise, load, survive, trials
from receiver.service.simulator.report import report_on
from receiver.service.simulator.scenario import (
    ArrivalPattern,
    Endpoint,
    Latency,
    Outage,
    OutageKind,
    Scenario,
    Waits,
)

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
START = 10 * MINUTE
EVERY_SECOND = Scenario(arrivals=ArrivalPattern(rate=1.0, duration=50 * MINUTE))
MINUTELY = Scenario(arrivals=ArrivalPattern(rate=1 / 60, duration=60 * MINUTE))


@pytest.mark.parametrize(
    "scenario",
    [
        MINUTELY,
        Scenario(arrivals=ArrivalPattern(at=(MINUTE,))),
        Scenario(arrivals=ArrivalPattern(rate=0.01, duration=30 * MINUTE, poisson=True), seed=5),
        MINUTELY.model_copy(update={"sender": Waits(timeout=3 * SECOND, pauses=(SECOND, 7 * SECOND, MINUTE))}),
    ],
)
def test_simulation_and_theory_agree_on_the_longest_outage(scenario: Scenario) -> None:
    """They agree to the microsecond, for both kinds and every beginning."""
    answers = list(survive(scenario))

    assert [one.simulated for one in answers] == [one.theory for one in answers]
    assert {one.kind for one in answers} == {OutageKind.REFUSE, OutageKind.HANG}


def test_an_outage_of_21_minutes_loses_nothing() -> None:
    """With time-outs it may last 21.5 minutes. After failed attempts it may last only 20 or 15 minutes."""
    longest = {(one.kind, one.next_in, one.failed): one.simulated for one in survive(MINUTELY)}

    refuse, hang = OutageKind.REFUSE, OutageKind.HANG
    assert longest[refuse, timedelta(0), 0] == 21 * MINUTE
    assert longest[refuse, 45 * SECOND, 0] == 21 * MINUTE + 45 * SECOND
    assert longest[hang, timedelta(0), 0] == 21 * MINUTE + 30 * SECOND
    assert longest[hang, 15 * SECOND, 0] == 21 * MINUTE + 45 * SECOND
    assert [longest[refuse, None, failed] for failed in (1, 2, 3)] == [21 * MINUTE, 20 * MINUTE, 15 * MINUTE]
    assert [longest[hang, None, failed] for failed in (1, 2, 3)] == [
        21 * MINUTE + 20 * SECOND,
        20 * MINUTE + 10 * SECOND,
        15 * MINUTE,
    ]


def test_survival_needs_deliveries() -> None:
    """The error says so."""
    with pytest.raises(ConfigurationError, match="nothing arrives"):
        list(survive(Scenario()))


def test_short_maintenance_needs_no_split() -> None:
    """It loses nothing in one part, and nothing else is tried."""
    advice = advise(EVERY_SECOND, 20 * MINUTE, start=START, kind=OutageKind.REFUSE)

    assert advice.best is not None
    assert (advice.at_one_go.lost, advice.best.parts, advice.tried) == (0, (20 * MINUTE,), 1)


@pytest.mark.parametrize("kind", [OutageKind.REFUSE, OutageKind.HANG])
def test_long_maintenance_is_split_so_that_it_loses_nothing(kind: OutageKind) -> None:
    """The simulation of the parts loses nothing, while that of one part does."""
    advice = advise(EVERY_SECOND, 22 * MINUTE, start=START, kind=kind)

    best = advice.best
    assert best is not None
    assert advice.at_one_go.lost == (60 if kind is OutageKind.REFUSE else 30)
    assert sum(best.parts, timedelta()) == 22 * MINUTE
    assert best.takes == 22 * MINUTE + (len(best.parts) - 1) * best.up
    begin, outages = START, []
    for part in best.parts:
        outages.append(Outage(start=begin, end=begin + part, kind=kind))
        begin += part + best.up
    assert report_on(EVERY_SECOND.model_copy(update={"outages": tuple(outages)})).lost == 0


def test_losses_without_maintenance_do_not_count() -> None:
    """An outage of the scenario is not caused by the maintenance."""
    scenario = Scenario(
        arrivals=ArrivalPattern(rate=0.1, duration=50 * MINUTE),
        outages=(Outage(start=timedelta(0), end=22 * MINUTE),),
    )
    advice = advise(scenario, 5 * MINUTE, start=40 * MINUTE, kind=OutageKind.REFUSE)

    assert advice.without.lost == advice.at_one_go.lost == 6
    assert advice.best is not None


def test_no_split_helps_where_every_attempt_fails() -> None:
    """If the retry delays meet every part, there is no good split."""
    waits = Waits(pauses=(SECOND, SECOND, SECOND))
    scenario = Scenario(arrivals=ArrivalPattern(rate=0.1, duration=20 * MINUTE), sender=waits)

    assert advise(scenario, 3 * MINUTE, start=timedelta(0), kind=OutageKind.REFUSE).best is None


def test_the_queue_drains_from_a_certain_capacity_on() -> None:
    """That capacity lies above the load of the traffic and at most at the load with all attempts."""
    scenario = Scenario(
        arrivals=ArrivalPattern(rate=1.0, duration=60 * MINUTE),
        endpoint=Endpoint(latency=Latency(p50=2 * SECOND)),
        outages=(Outage(start=MINUTE, end=20 * MINUTE),),
    )
    found = list(trials(scenario))
    smallest = min(one.capacity for one in found if one.drained_at is not None)

    needed = load(scenario)
    assert (round(needed.alone, 9), round(needed.at_most, 9)) == (2, 8)
    assert needed.alone < smallest <= needed.at_most
    assert max(one.capacity for one in found if one.drained_at is None) == smallest - 1


def test_the_capacity_needs_traffic_after_the_outage() -> None:
    """The error says what to change."""
    scenario = Scenario(
        arrivals=ArrivalPattern(rate=1.0, duration=20 * MINUTE), outages=(Outage(start=MINUTE, end=19 * MINUTE),)
    )

    with pytest.raises(ConfigurationError, match=r"let arrivals\.duration be longer"):
        list(trials(scenario))


def test_the_capacity_needs_lasting_traffic() -> None:
    """Deliveries at one moment have no rate."""
    with pytest.raises(ConfigurationError, match="more than one moment"):
        load(Scenario(arrivals=ArrivalPattern(at=(timedelta(0),))))
