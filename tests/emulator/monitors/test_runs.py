"""When a monitor runs: cron in its time zone, and the days on which clocks are changed."""

from datetime import UTC, datetime, timedelta

import pytest

from receiver.core.cron import last_runs, next_run
from receiver.emulator.monitors.service import LONGEST_JITTER, interval_of, jitter_of

BERLIN, LONDON, LORD_HOWE, HAVANA, APIA = (
    "Europe/Berlin",
    "Europe/London",
    "Australia/Lord_Howe",
    "America/Havana",
    "Pacific/Apia",
)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def runs(cron: str, zone: str, after: str, count: int) -> list[datetime]:
    found: list[datetime] = []
    moment: datetime | None = at(after)
    while moment is not None and len(found) < count:
        moment = next_run(cron, zone, moment)
        found += [] if moment is None else [moment]
    return found


@pytest.mark.parametrize(
    ("cron", "after", "expected"),
    [
        ("*/15 * * * *", "2026-01-01T00:00:00+00:00", "2026-01-01T00:15:00+00:00"),
        ("*/15 * * * *", "2026-01-01T00:14:59.999999+00:00", "2026-01-01T00:15:00+00:00"),
        ("0 0 * * *", "2026-12-31T00:00:00+00:00", "2027-01-01T00:00:00+00:00"),
        ("5/15 * * * *", "2026-01-01T00:05:00+00:00", "2026-01-01T01:05:00+00:00"),
        ("0 9 * * 1-5", "2026-01-02T09:00:00+00:00", "2026-01-05T09:00:00+00:00"),
        ("0 9 * * 7", "2026-01-01T00:00:00+00:00", "2026-01-04T09:00:00+00:00"),
        ("0 0 13 * 5", "2026-01-01T00:00:00+00:00", "2026-02-13T00:00:00+00:00"),
        ("0 0 29 2 *", "2027-03-01T00:00:00+00:00", "2028-02-29T00:00:00+00:00"),
    ],
)
def test_the_next_run_is_the_first_minute_that_fits_all_five_fields(cron: str, after: str, expected: str) -> None:
    """Day of the month and weekday are both needed, where other crons take either."""
    assert next_run(cron, "UTC", at(after)) == at(expected)


def test_a_schedule_without_a_run_within_a_year_has_none() -> None:
    assert next_run("0 0 29 2 *", "UTC", at("2026-03-01T00:00:00+00:00")) is None
    assert interval_of("0 0 29 2 *", "UTC", at("2026-03-01T00:00:00+00:00")) is None
    assert next_run("0 0 31 2 *", "UTC", at("2026-03-01T00:00:00+00:00")) is None


@pytest.mark.parametrize(
    ("cron", "zone", "after", "expected"),
    [
        ("30 2 * * *", BERLIN, "2026-03-28T12:00+01:00", ["2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"]),
        ("0 2 * * *", BERLIN, "2026-03-28T12:00+01:00", ["2026-03-29T03:00+02:00", "2026-03-30T02:00+02:00"]),
        ("10,50 2 * * *", BERLIN, "2026-03-28T12:00+01:00", ["2026-03-29T03:00+02:00", "2026-03-30T02:10+02:00"]),
        ("0 3 * * *", BERLIN, "2026-03-28T12:00+01:00", ["2026-03-29T03:00+02:00", "2026-03-30T03:00+02:00"]),
        ("*/30 * * * *", BERLIN, "2026-03-29T01:15+01:00", ["2026-03-29T01:30+01:00", "2026-03-29T03:00+02:00"]),
        ("30 * * * *", BERLIN, "2026-03-29T01:00+01:00", ["2026-03-29T01:30+01:00", "2026-03-29T03:30+02:00"]),
        ("15 2 * * *", LORD_HOWE, "2026-10-03T12:00+10:30", ["2026-10-04T02:30+11:00", "2026-10-05T02:15+11:00"]),
        ("0 0 * * *", HAVANA, "2026-03-07T12:00-05:00", ["2026-03-08T01:00-04:00", "2026-03-09T00:00-04:00"]),
        ("0 12 * * *", APIA, "2011-12-29T13:00-10:00", ["2011-12-31T00:00+14:00", "2011-12-31T12:00+14:00"]),
        ("0 1 * * *", LONDON, "2026-03-28T12:00+00:00", ["2026-03-29T02:00+01:00", "2026-03-30T01:00+01:00"]),
    ],
)
def test_a_run_in_a_gap_comes_right_after_it(cron: str, zone: str, after: str, expected: list[str]) -> None:
    """Only runs at a fixed time: those of every hour or minute follow the clock on the wall."""
    assert runs(cron, zone, after, 2) == [at(one) for one in expected]


@pytest.mark.parametrize(
    ("cron", "zone", "after", "expected"),
    [
        ("30 2 * * *", BERLIN, "2026-10-25T00:00+02:00", ["2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"]),
        ("30 1 * * *", LONDON, "2026-10-25T00:00+01:00", ["2026-10-25T01:30+01:00", "2026-10-26T01:30+00:00"]),
        ("45 1 * * *", LORD_HOWE, "2026-04-05T00:00+11:00", ["2026-04-05T01:45+11:00", "2026-04-06T01:45+10:30"]),
    ],
)
def test_a_fixed_time_that_comes_twice_has_one_run(cron: str, zone: str, after: str, expected: list[str]) -> None:
    assert runs(cron, zone, after, 2) == [at(one) for one in expected]


@pytest.mark.parametrize(
    ("cron", "expected"),
    [
        ("*/30 * * * *", ["02:00+02:00", "02:30+02:00", "02:00+01:00", "02:30+01:00", "03:00+01:00"]),
        ("30 * * * *", ["02:30+02:00", "02:30+01:00", "03:30+01:00"]),
        ("*/30 2 * * *", ["02:00+02:00", "02:30+02:00", "02:00+01:00", "02:30+01:00"]),
    ],
)
def test_runs_that_follow_the_clock_come_in_both_halves(cron: str, expected: list[str]) -> None:
    found = runs(cron, BERLIN, "2026-10-25T01:45+02:00", len(expected))

    assert found == [at(f"2026-10-25T{one}") for one in expected]


def test_every_run_is_later_than_the_one_before() -> None:
    """Over the gaps and repeats of a spring and an autumn, whatever the schedule."""
    for cron in ("*/20 * * * *", "30 2 * * *", "0 */3 * * *", "59 1,2,3 * * *", "0 0 1,15 * *"):
        for zone in (BERLIN, LORD_HOWE, HAVANA, "America/St_Johns", "Asia/Kathmandu"):
            found = runs(cron, zone, "2026-03-01T00:00+00:00", 100)
            assert found == sorted(set(found)), (cron, zone)


def test_the_interval_is_that_of_the_next_two_runs() -> None:
    assert interval_of("0 */6 * * *", "UTC", at("2026-01-01T00:00+00:00")) == timedelta(hours=6)
    assert interval_of("0 2 * * *", BERLIN, at("2026-03-27T12:00+01:00")) == timedelta(hours=24)


def test_jitter_is_the_monitors_own_and_bounded() -> None:
    """The first four bytes of the SHA-256 of the id, within half of the interval and five minutes."""
    monitor = "019f2c10-0000-7000-8000-000000000001"

    assert jitter_of(monitor, timedelta(days=1)) == jitter_of(monitor, timedelta(hours=1))
    assert timedelta(0) <= jitter_of(monitor, None) < LONGEST_JITTER
    assert jitter_of(monitor, timedelta(minutes=5)) < timedelta(minutes=2.5)
    assert len({jitter_of(str(number), None) for number in range(100)}) > 90


@pytest.mark.parametrize("zone", [BERLIN, LONDON, LORD_HOWE, HAVANA, APIA, "UTC"])
@pytest.mark.parametrize("cron", ["*/20 * * * *", "30 2 * * *", "15 */3 * * 1-5", "0 0 29 2 *"])
def test_the_last_runs_are_the_end_of_all_runs(cron: str, zone: str) -> None:
    """However many there are: also on the days on which the clocks are changed."""
    since = "2026-03-05T12:00:00+00:00"
    until = at(since) + timedelta(days=30)
    every = [run for run in runs(cron, zone, since, 3_000) if run <= until]

    for most in (1, 7, 5_000):
        assert last_runs(cron, zone, at(since), until, most) == every[-most:]
