"""Scenarios in files and flags: the keys, and errors that name key, value and what is allowed."""

import io
import tomllib
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.units import in_words, parse_duration
from receiver.errors import ConfigurationError
from receiver.service.schedule import SERVICE
from receiver.service.simulator.scenario import (
    ArrivalPattern,
    Endpoint,
    Job,
    Latency,
    Outage,
    OutageKind,
    Scenario,
    Waits,
    read_toml,
    scenario_of,
    with_values,
)
from tests.cases import for_each

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)

EVERYTHING = """
seed = 7
[arrivals]
at = ["0s", "90s"]
rate = 5
duration = "1h"
poisson = true
jobs = [{ at = "1m", family = "crawl", pages = 200, pace = 2.0 }]
[endpoint]
latency = { p50 = "200ms", p99 = "12s" }
error_rate = 0.02
capacity = 50
[[outage]]
from = "10m"
to = "32m"
kind = "status"
status = 429
[sender]
timeout = "5s"
pauses = ["1s", "2s", "3s"]
"""


def read(text: str) -> Scenario:
    return scenario_of(tomllib.loads(text), file="scenario.toml")


def test_every_key_is_understood() -> None:
    """Each key sets its field of the scenario."""
    assert read(EVERYTHING) == Scenario(
        seed=7,
        arrivals=ArrivalPattern(
            at=(timedelta(0), 90 * SECOND),
            rate=5.0,
            duration=60 * MINUTE,
            poisson=True,
            jobs=(Job(at=MINUTE, family="crawl", pages=200, pace=2.0),),
        ),
        endpoint=Endpoint(latency=Latency(p50=200 * SECOND / 1000, p99=12 * SECOND), error_rate=0.02, capacity=50),
        outages=(Outage(start=10 * MINUTE, end=32 * MINUTE, kind=OutageKind.STATUS, status=429),),
        sender=Waits(timeout=5 * SECOND, pauses=(SECOND, 2 * SECOND, 3 * SECOND)),
    )


def test_an_empty_scenario_has_one_delivery_a_second() -> None:
    """It lasts an hour, with the service's own values and an endpoint without faults."""
    scenario = read("")

    assert scenario.arrivals == ArrivalPattern(rate=1.0)
    assert scenario.arrivals.duration == 60 * MINUTE
    assert scenario.schedule == SERVICE
    assert (scenario.outages, scenario.endpoint.capacity, scenario.endpoint.error_rate) == ((), None, 0.0)


def test_the_default_rate_is_only_for_a_scenario_without_arrivals() -> None:
    """Exact moments or jobs have no steady traffic beside them."""
    assert read('arrivals.at = ["0s"]').arrivals.rate is None
    assert read('arrivals.jobs = [{ family = "agent", pages = 1 }]').arrivals.rate is None
    assert read('arrivals.duration = "2h"').arrivals == ArrivalPattern(rate=1.0, duration=120 * MINUTE)


@for_each(
    ("text", "words"),
    [
        (
            "sead = 3",
            'there is no key "sead"; did you mean seed? there are seed, arrivals, endpoint, outage, sender',
        ),
        ("seed = 1.5", "seed is 1.5: it has to be a whole number"),
        ("arrivals = 3", "arrivals is 3: it has to be a table"),
        ("arrivals.at = [90]", "arrivals.at[0] is 90: a duration is a number with its unit: 200ms, 60s"),
        ('arrivals.at = "0s"', 'arrivals.at is "0s": it has to be a list'),
        ("arrivals.rate = 0", "arrivals.rate is 0: it has to be 0.001 or more"),
        ("arrivals.rate = nan", "arrivals.rate is NaN: it has to be"),
        ("arrivals.rate = true", "arrivals.rate is true: it has to be a number"),
        ('arrivals.poisson = "no"', 'arrivals.poisson is "no": it has to be true or false'),
        ('arrivals = { at = ["0s"], duration = "1h" }', 'arrivals.duration is "1h": it goes with a rate'),
        (
            'arrivals.jobs = [{ family = "crowl", pages = 1 }]',
            'jobs[0].family is "crowl": it has to be one of crawl,',
        ),
        ('arrivals.jobs = [{ family = "crawl" }]', "jobs[0].pages is missing: give a whole number, such as 10"),
        ('arrivals.jobs = [{ family = "crawl", pages = 1, page = 1 }]', "there are at, family, pages, pace"),
        ("endpoint.error_rate = 2", "endpoint.error_rate is 2: it has to be 1 or less"),
        ("endpoint.capacity = 0", "endpoint.capacity is 0: it has to be 1 or more"),
        (
            'endpoint.latency = { p50 = "3s", p99 = "1s" }',
            'endpoint.latency.p99 is "1s": it has to be p50 or longer',
        ),
        ('endpoint.latency = { p50 = "3s", p90 = "4s" }', "there are p50, p99"),
        ('[[outage]]\nfrom = "10m"\nto = "5m"', 'outage[0].to is "5m": an outage ends after it begins'),
        (
            '[[outage]]\nfrom = "1s"\nto = "2s"\n[[outage]]\nto = "5m"',
            "outage[1].from is missing: give a time from the start, such as 5m",
        ),
        (
            '[[outage]]\nfrom = "1s"\nto = "5m"\nstart = "1s"',
            'no key "outage[0].start"; did you mean status? there are from, to, kind, status',
        ),
        (
            '[[outage]]\nfrom = "1s"\nto = "2s"\nkind = "off"',
            "outage[0].kind is \"off\": it has to be 'refuse', 'hang'",
        ),
        (
            '[[outage]]\nfrom = "1s"\nto = "2s"\nstatus = 404',
            'outage[0].status is 404: it goes with kind = "status"',
        ),
        (
            '[[outage]]\nfrom = "1s"\nto = "2s"\nkind = "status"\nstatus = 204',
            "status is 204: it has to be 300 or more",
        ),
        ('[outage]\nfrom = "1s"\nto = "2s"', "outage is {"),
        ('sender.timeout = "0s"', 'sender.timeout is "0s": it has to be longer than 0'),
        ('sender.pauses = ["1m", "2m", "3m", "4m"]', "there are 3 retries, so 3 pauses"),
        ("sender.pauses = []", "sender.pauses has too few values: there are 3 retries, so 3 pauses"),
        ("arrivals.jobs = [{ family = 3, pages = 1 }]", "jobs[0].family is 3: it has to be a text"),
    ],
)
def test_a_wrong_value_is_named_with_its_key_and_what_is_allowed(text: str, words: str) -> None:
    """The error begins with the name of the file."""
    with pytest.raises(ConfigurationError) as raised:
        read(text)

    assert str(raised.value).startswith("scenario.toml: ")
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


def test_all_errors_are_reported_at_once() -> None:
    """Each has a line of its own, so that a file can be fixed in one go."""
    with pytest.raises(ConfigurationError) as raised:
        read('seed = "x"\narrivals.rate = 0\nendpoint.capacity = 0')

    assert [line.split()[1] for line in str(raised.value).splitlines()] == [
        "seed",
        "arrivals.rate",
        "endpoint.capacity",
    ]


def test_an_error_names_the_flag_that_gave_the_value() -> None:
    """The file is not at fault."""
    raw = with_values({"seed": 3}, {"outage": [{"from": "2m", "to": "1m"}]})

    with pytest.raises(ConfigurationError) as raised:
        scenario_of(raw, file="scenario.toml", flags={"outage": "--outage"})

    assert str(raised.value).startswith("--outage: outage[0].to is ")


def test_flags_replace_values_of_the_file() -> None:
    """A list is replaced as a whole, a table key by key."""
    raw = tomllib.loads(EVERYTHING)
    changed = with_values(raw, {"arrivals.rate": 1.0, "outage": [], "endpoint.capacity": 9})

    assert changed["arrivals"] == raw["arrivals"] | {"rate": 1.0}
    assert (changed["outage"], changed["endpoint"]["capacity"]) == ([], 9)
    assert raw["arrivals"]["rate"] == 5
    assert with_values({"arrivals": 3}, {"arrivals.rate": 1.0}) == {"arrivals": 3}


@pytest.mark.parametrize("content", [b"seed = ", b"\xff\xfe", b"[[outage]"])
def test_an_invalid_file_is_named_with_the_parsers_error(content: bytes) -> None:
    """The error begins with the name of the file."""
    file = io.BytesIO(content)
    file.name = "s.toml"

    with pytest.raises(ConfigurationError, match=r"^s\.toml: this is not valid TOML: "):
        read_toml(file)


@given(st.timedeltas(timedelta(0), timedelta(days=3650)))
def test_a_written_duration_is_read_back_exactly(duration: timedelta) -> None:
    """Nothing is rounded."""
    assert parse_duration(in_words(duration)) == duration
