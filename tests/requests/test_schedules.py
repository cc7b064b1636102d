"""Schedules of monitors: which the service takes, and when they run."""

import zoneinfo
from datetime import date
from typing import Any

import pytest
from pydantic import ValidationError

from receiver.core.cron import Cron
from receiver.requests import Schedule
from receiver.requests.schedules import cron_of
from tests.cases import for_each


def refusal(**values: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        Schedule.model_validate(values)
    return str(caught.value)


@for_each(
    "cron",
    [
        *("*/5 * * * *", "0 * * * *", "3-59/10 * * * *", "0,30 9-17 * * 1-5", "0,57 9 * * *", "7/20 * * * *"),
        *("0 0 31 * *", "0 0 29 2 *", "0 0 29 2 1", "0 0 * * 7", "0 9 1-7 * 1", "0 0 1 1-12/3 *", "00 09 01 01 00"),
        *("0,58 23,0 1 * *", "0,58 23,0 * * 1"),
    ],
)
def test_a_schedule_is_sent_as_it_was_written(cron: str) -> None:
    """Two runs may be 5 minutes apart. 23:58 and 0:00 are far apart unless both days have runs."""
    assert Schedule(cron=cron).wire() == {"cron": cron}


@for_each(
    ("cron", "rule"),
    [
        ("", "five fields"),
        ("0 * * *", "five fields"),
        ("0 0 * * * *", "five fields"),
        ("@daily", "five fields"),
        ("* * * * *", "at least 5 minutes apart"),
        ("*/4 * * * *", "at least 5 minutes apart"),
        ("0,3 9 * * *", "at least 5 minutes apart"),
        ("10-12 9 * * *", "at least 5 minutes apart"),
        ("0,57 * * * *", "at least 5 minutes apart"),
        ("0,57 9-17 * * *", "at least 5 minutes apart"),
        ("58,2 0,1 * * *", "at least 5 minutes apart"),
        ("0,58 23,0 * * *", "at least 5 minutes apart"),
        ("0,58 23,0 * * 1,2", "at least 5 minutes apart"),
        ("60 * * * *", "minutes are 0 to 59"),
        ("9-5 * * * *", "the lower one first"),
        ("*/0 * * * *", "steps are 1 or more"),
        ("often * * * *", "minutes are named as"),
        ("5, * * * *", "minutes are named as"),
        ("-5 * * * *", "minutes are named as"),
        ("+5 * * * *", "minutes are named as"),
        ("1-2-3 * * * *", "minutes are named as"),
        ("*/5/2 * * * *", "minutes are named as"),
        ("\u0665 * * * *", "minutes are named as"),
        ("0 24 * * *", "hours are 0 to 23"),
        ("0 0 0 * *", "days are 1 to 31"),
        ("0 0 32 * *", "days are 1 to 31"),
        ("0 0 L * *", "days are named as"),
        ("0 0 * 0 *", "months are 1 to 12"),
        ("0 0 * 13 *", "months are 1 to 12"),
        ("0 0 * JAN *", "months are named as"),
        ("0 0 * * 8", "weekdays are 0 to 7"),
        ("0 0 * * MON", "words are not taken"),
        ("0 0 * * 5-1", "the lower one first"),
        ("0 0 30 2 *", "no such day"),
        ("0 0 31 4,6,9,11 *", "no such day"),
        ("0 0 1 1 1" + " " * 128, "at most 128 characters"),
    ],
)
def test_an_expression_that_the_service_refuses_is_refused(cron: str, rule: str) -> None:
    """The error names the field."""
    text = refusal(cron=cron)

    assert "cron" in text
    assert rule in text


@for_each(
    ("text", "cron"),
    [
        ("every 30 minutes", "*/30 * * * *"),
        ("Every 15 mins, starting at :05.", "5-59/15 * * * *"),
        ("every 20 minutes start on 0", "*/20 * * * *"),
        ("hourly", "0 * * * *"),
        ("every hour at :45", "45 * * * *"),
        ("hourly starting at 7", "7 * * * *"),
        ("every 6 hours", "0 */6 * * *"),
        ("daily", "0 0 * * *"),
        ("daily at 9", "0 9 * * *"),
        ("every day at 9:30 pm", "30 21 * * *"),
        ("daily at 12am", "0 0 * * *"),
        ("daily at 12:05pm", "5 12 * * *"),
        ("weekly", "0 0 * * 0"),
        ("every  week on Monday", "0 0 * * 1"),
    ],
)
def test_words_become_an_expression(text: str, cron: str) -> None:
    """The request sends the words; the service does the same with them."""
    assert cron_of(text) == cron
    assert Schedule(text=text).wire() == {"text": text}


@for_each(
    ("text", "rule"),
    [
        ("now and then", "the service takes: every N minutes"),
        ("", "the service takes: every N minutes"),
        ("daily at nine", "the service takes: every N minutes"),
        ("weekly on someday", "the service takes: every N minutes"),
        ("every 7 minutes", "a number that divides 60"),
        ("every 0 minutes", "a number that divides 60"),
        ("every 4 minutes", "at least 5 minutes apart"),
        ("every 5 hours", "a number that divides 24"),
        ("hourly at :60", "minutes are 0 to 59"),
        ("every 5 minutes starting at :60", "minutes are 0 to 59"),
        ("daily at 24", "hours are 0 to 23"),
        ("daily at 9:60", "minutes are 0 to 59"),
        ("daily at 13 pm", "hours with am or pm are 1 to 12"),
        ("daily at 0 am", "hours with am or pm are 1 to 12"),
    ],
)
def test_words_that_the_service_refuses_are_refused(text: str, rule: str) -> None:
    """The error lists what it takes."""
    assert rule in refusal(text=text)


def test_exactly_one_of_cron_and_words_is_given() -> None:
    """The service refuses both and neither."""
    assert "exactly one of cron and text" in refusal()
    assert "exactly one of cron and text" in refusal(cron="0 * * * *", text="hourly")


@for_each("zone", ["Europe/Belin", "Europe", "CEST+", "/etc/passwd", "../UTC", "UTC\0", "", "Europe/" + "x" * 130])
def test_an_unknown_time_zone_is_refused(zone: str) -> None:
    """A folder of zones and a path are none either."""
    assert "timezone" in refusal(cron="0 * * * *", timezone=zone)


def test_a_system_without_time_zones_checks_no_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise it could send no schedule."""

    def missing(name: str) -> None:
        raise zoneinfo.ZoneInfoNotFoundError(name)

    monkeypatch.setattr(zoneinfo, "ZoneInfo", missing)

    assert Schedule(cron="0 * * * *", timezone="Europe/Berlin").timezone == "Europe/Berlin"


def test_a_run_needs_its_day_and_its_weekday() -> None:
    """In crontab(5) either is enough."""
    friday_13 = Cron.parse("0 9 13 * 5")

    assert friday_13.runs_on(date(2026, 11, 13))
    assert not friday_13.runs_on(date(2026, 11, 20))
    assert not friday_13.runs_on(date(2026, 12, 13))
    assert Cron.parse("0 9 * * 7").runs_on(date(2026, 11, 22))
    assert Cron.parse("0,30 9-10 * * *").times_of_day() == [540, 570, 600, 630]
    assert Cron.parse("5/15 * * * *").minutes == {5}
