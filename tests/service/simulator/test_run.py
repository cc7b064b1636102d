"""Attempts in virtual time: the closed forms, what arrives late, the queue, and determinism."""

import random
from datetime import timedelta

import pytest

from receiver.service.samples import family_names, job_story
from receiver.service.simulator.arrivals import arrivals
from receiver.service.simulator.report import report_on
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

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
ONE = ArrivalPattern(at=(timedelta(0),))


def out(kind: OutageKind, end: timedelta = 2 * HOUR, **more: int) -> tuple[Outage, ...]:
    return (Outage(start=timedelta(0), end=end, kind=kind, **more),)


def clocked(scenario: Scenario) -> list[tuple[str, str, str, str]]:
    """Return start, end, outcome and state of every attempt, moments as minutes and seconds."""

    def times(micros: int) -> str:
        minutes, seconds = divmod(micros // 1_000_000, 60)
        return f"{minutes}:{seconds:02}"

    return [
        (times(one.started_us), times(one.ended_us), one.outcome.value, one.state.value)
        for one in simulate(scenario)
    ]


def test_with_instant_failures_attempts_start_at_0_1_6_and_21_minutes() -> None:
    """Each pause counts from the failure before it, which takes no time."""
    assert clocked(Scenario(arrivals=ONE, outages=out(OutageKind.REFUSE))) == [
        ("0:00", "0:00", "refused", "retry 1"),
        ("1:00", "1:00", "refused", "retry 2"),
        ("6:00", "6:00", "refused", "retry 3"),
        ("21:00", "21:00", "refused", "failed"),
    ]


def test_with_time_outs_attempts_start_at_0_70_380_and_1290_seconds() -> None:
    """The last attempt ends at 21:40."""
    assert clocked(Scenario(arrivals=ONE, outages=out(OutageKind.HANG))) == [
        ("0:00", "0:10", "timeout", "retry 1"),
        ("1:10", "1:20", "timeout", "retry 2"),
        ("6:20", "6:30", "timeout", "retry 3"),
        ("21:30", "21:40", "timeout", "failed"),
    ]


def test_a_status_fails_after_the_latency() -> None:
    """The latency moves every retry."""
    scenario = Scenario(
        arrivals=ONE, outages=out(OutageKind.STATUS), endpoint=Endpoint(latency=Latency(p50=3 * SECOND))
    )

    assert [(start, outcome) for start, _, outcome, _ in clocked(scenario)] == [
        ("0:00", "status"),
        ("1:03", "status"),
        ("6:06", "status"),
        ("21:09", "status"),
    ]


def test_an_attempt_at_the_end_of_an_outage_is_not_in_it() -> None:
    """The end does not belong to the outage."""
    assert clocked(Scenario(arrivals=ONE, outages=out(OutageKind.REFUSE, MINUTE)))[1][2:] == ("ok", "delivered")
    assert clocked(Scenario(arrivals=ONE, outages=out(OutageKind.REFUSE, MINUTE + timedelta(microseconds=1))))[1][
        2:
    ] == ("refused", "retry 2")


@pytest.mark.parametrize(
    ("latency", "outcome"), [(10 * SECOND, "ok"), (timedelta(seconds=10, microseconds=1), "late")]
)
def test_an_answer_is_in_time_up_to_the_end_of_the_time_out(latency: timedelta, outcome: str) -> None:
    """The interface says: within 10 seconds."""
    scenario = Scenario(arrivals=ONE, endpoint=Endpoint(latency=Latency(p50=latency)))

    assert clocked(scenario)[0][2] == outcome


def test_a_delivery_with_only_late_answers_fails_but_arrives() -> None:
    """It has arrived four times: once, and three duplicates. Nothing is lost."""
    report = report_on(Scenario(arrivals=ONE, endpoint=Endpoint(latency=Latency(p50=MINUTE))))

    assert (report.failed, report.lost, report.late, report.duplicates) == (1, 0, 4, 3)


def test_an_endpoint_that_always_errs_delivers_nothing() -> None:
    """Its 500 comes after the latency, or as a time-out, and never counts as an arrival."""
    for latency, outcome in ((SECOND, "status"), (MINUTE, "timeout")):
        endpoint = Endpoint(latency=Latency(p50=latency), error_rate=1.0)
        assert {one[2] for one in clocked(Scenario(arrivals=ONE, endpoint=endpoint))} == {outcome}


def test_requests_beyond_the_capacity_wait_and_may_time_out() -> None:
    """With one place and 4 seconds each, the third request is late, but its work is done nevertheless."""
    scenario = Scenario(
        arrivals=ArrivalPattern(at=(timedelta(0),) * 4),
        endpoint=Endpoint(latency=Latency(p50=4 * SECOND), capacity=1),
    )

    first = {
        one.delivery: (one.ended_us // 1_000_000, one.outcome.value)
        for one in simulate(scenario)
        if one.attempt == 1
    }
    report = report_on(scenario)

    assert first == {1: (4, "ok"), 2: (8, "ok"), 3: (10, "late"), 4: (10, "late")}
    assert (report.delivered, report.late, report.duplicates) == (4, 2, 2)
    assert report.longest_wait_us == 12_000_000


def test_deliveries_after_a_later_one_of_their_job_are_out_of_order() -> None:
    """Two deliveries meet an outage and come after the third. A later one of another job would not count."""
    outage = out(OutageKind.REFUSE, 2 * SECOND)
    story = Job(family="monitor", pages=2)
    one_job = report_on(Scenario(arrivals=ArrivalPattern(jobs=(story,)), outages=outage))
    apart = tuple(Job(family="monitor", pages=0, at=second * SECOND) for second in range(3))
    three_jobs = report_on(Scenario(arrivals=ArrivalPattern(jobs=apart), outages=outage))

    assert (one_job.deliveries, one_job.out_of_order) == (3, 2)
    assert (three_jobs.deliveries, three_jobs.out_of_order) == (3, 0)


def test_the_first_of_overlapping_outages_counts() -> None:
    """The order is that of the scenario."""
    both = (*out(OutageKind.HANG, SECOND), *out(OutageKind.REFUSE, MINUTE + SECOND))

    assert clocked(Scenario(arrivals=ONE, outages=both))[0][2] == "timeout"
    assert clocked(Scenario(arrivals=ONE, outages=both[::-1]))[0][2] == "refused"


def test_time_out_and_pauses_are_settings() -> None:
    """A service with other values can be simulated."""
    waits = Waits(timeout=2 * SECOND, pauses=(SECOND, SECOND, SECOND))

    starts = [start for start, *_ in clocked(Scenario(arrivals=ONE, sender=waits, outages=out(OutageKind.HANG)))]

    assert starts == ["0:00", "0:03", "0:06", "0:09"]


def test_the_same_seed_gives_the_same_attempts_and_another_seed_others() -> None:
    """The scenario uses every random feature."""
    scenario = Scenario(
        seed=7,
        arrivals=ArrivalPattern(rate=2.0, duration=10 * MINUTE, poisson=True),
        endpoint=Endpoint(latency=Latency(p50=SECOND, p99=20 * SECOND), error_rate=0.1, capacity=5),
    )

    assert list(simulate(scenario)) == list(simulate(scenario))
    assert list(simulate(scenario)) != list(simulate(scenario.model_copy(update={"seed": 8})))


def test_a_lognormal_latency_has_the_given_quantiles() -> None:
    """Of 20,000 requests, half are within p50 and 99 of 100 within p99."""
    scenario = Scenario(
        arrivals=ArrivalPattern(rate=20_000.0, duration=SECOND),
        endpoint=Endpoint(latency=Latency(p50=200 * SECOND / 1000, p99=3 * SECOND)),
    )
    took = [one.ended_us - one.started_us for one in simulate(scenario)]

    assert 0.48 < sum(one <= 200_000 for one in took) / len(took) < 0.52
    assert 0.985 < sum(one <= 3_000_000 for one in took) / len(took) < 0.995


def test_an_error_rate_is_the_share_of_errors() -> None:
    """About a fifth of 10,000 requests fail."""
    scenario = Scenario(arrivals=ArrivalPattern(rate=10_000.0, duration=SECOND), endpoint=Endpoint(error_rate=0.2))
    firsts = [one.outcome.value for one in simulate(scenario) if one.attempt == 1]

    assert 0.18 < firsts.count("status") / len(firsts) < 0.22


def test_evenly_spaced_deliveries_begin_at_0_and_end_before_the_duration() -> None:
    """Three a second for 1.33 seconds are at 0, 1/3, 2/3 and 1, in whole microseconds and without drift."""
    wanted = ArrivalPattern(rate=3.0, duration=SECOND * 4 / 3)

    assert [one.created_us for one in arrivals(wanted, 0)] == [0, 333_333, 666_666, 1_000_000]
    assert [one.created_us for one in arrivals(ArrivalPattern(rate=3.0, duration=HOUR), 0)][-3] == 3_599_000_000


def test_poisson_deliveries_have_the_rate_on_average() -> None:
    """Ten a second for a quarter of an hour are about 9,000, in order and inside of the time."""
    moments = [one.created_us for one in arrivals(ArrivalPattern(rate=10.0, duration=15 * MINUTE, poisson=True), 3)]

    assert 8_700 < len(moments) < 9_300
    assert moments == sorted(moments)
    assert moments[-1] < 900_000_000


@pytest.mark.parametrize("family", family_names())
def test_a_job_has_as_many_deliveries_as_its_story_has_events(family: str) -> None:
    """So a simulation and a live run agree."""
    wanted = ArrivalPattern(jobs=(Job(family=family, pages=7, at=MINUTE, pace=2.0),))
    moments = [one.created_us for one in arrivals(wanted, 0)]

    assert len(moments) == len(list(job_story(family, 7, random.Random(1))))
    assert moments[:2] == [60_000_000, 60_500_000]


def test_arrivals_of_every_kind_come_in_the_order_of_time() -> None:
    """Exact moments, steady traffic and jobs are merged. Exact moments may be given in any order."""
    wanted = ArrivalPattern(
        at=(3 * SECOND, timedelta(0)),
        rate=1.0,
        duration=3 * SECOND,
        jobs=(Job(family="extract", pages=0, at=SECOND),),
    )

    assert [(one.created_us // 1_000_000, one.job) for one in arrivals(wanted, 0)] == [
        (0, 0),
        (0, 1),
        (1, 1),
        (1, 2),
        (2, 1),
        (2, 2),
        (3, 0),
    ]
