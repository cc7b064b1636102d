"""When a monitor runs: a cron expression, or words that the service turns into one."""

import zoneinfo
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from receiver.core.cron import Cron
from receiver.requests.base import Request
from receiver.requests.fields import ScheduleFields

_WEEKDAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_SAME_WORDS = {
    **dict.fromkeys(("minute", "mins", "min"), "minutes"),
    **dict.fromkeys(("hour", "hrs", "hr"), "hours"),
    "start": "starting",
}
_SAME_PERIODS = {"every hours": "hourly", "every day": "daily", "every week": "weekly"}
_TAKEN = (
    "the service takes: every N minutes [starting at :M], hourly [at :M], every N hours, "
    "daily [at H:MM [am|pm]], weekly [on DAY]"
)


def check_cron(text: str) -> str:
    """Return the expression. A ValueError says why the service would refuse it, on whatever day it is asked."""
    Cron.parse(text).require_valid()
    return text


def cron_of(text: str) -> str:
    """Return the expression for a schedule in words, such as `daily at 9:00`. A ValueError says what is right."""
    return check_cron(_translate(_words_of(text)))


def _words_of(text: str) -> list[str]:
    """Return the words in lower case, without punctuation, and one word for each meaning."""
    plain = text.lower().replace(",", " ").replace(".", " ")
    for half in ("am", "pm"):  # no other word of a schedule has these letters
        plain = plain.replace(half, f" {half}")
    words = [_SAME_WORDS.get(word, word) for word in plain.split()]
    period = _SAME_PERIODS.get(" ".join(words[:2]))
    return [period, *words[2:]] if period else words


def _translate(words: list[str]) -> str:
    """Return the expression for the words; its numbers may be out of bounds."""
    match words:
        case ["every", count, "minutes", *start]:
            return _every_minutes(count, start)
        case ["every", count, "hours"]:
            return f"0 */{_divisor(count, 24, 'hours')} * * *"
        case ["hourly", *start]:
            return f"{_minute_after(start)} * * * *"
        case ["daily", *time]:
            return _daily(time)
        case ["weekly"]:
            return "0 0 * * 0"
        case ["weekly", "on", day] if day in _WEEKDAYS:
            return f"0 0 * * {_WEEKDAYS.index(day)}"
    raise ValueError(_TAKEN)


def _every_minutes(count: str, start: list[str]) -> str:
    width, first = _divisor(count, 60, "minutes"), _minute_after(start)
    return f"{first}-59/{width} * * * *" if first else f"*/{width} * * * *"


def _minute_after(start: list[str]) -> int:
    """Return the minute of the first run in an hour, 0 without words for it."""
    match start:
        case []:
            return 0
        case ["at", minute] | ["starting", minute] | ["starting", "at" | "on", minute]:
            return _number(minute.removeprefix(":"))
    raise ValueError(_TAKEN)


def _daily(time: list[str]) -> str:
    """Return the run at a time such as `9` or `9:30`, of 24 hours or of the 12 before (am) or after (pm) noon."""
    match time:
        case []:
            return "0 0 * * *"
        case ["at", clock]:
            hour, minute = _hour_and_minute(clock)
            return f"{minute} {hour} * * *"
        case ["at", clock, "am" | "pm" as half]:
            hour, minute = _hour_and_minute(clock)
            if not 1 <= hour <= 12:
                raise ValueError("hours with am or pm are 1 to 12")
            return f"{minute} {hour % 12 + (12 if half == 'pm' else 0)} * * *"
    raise ValueError(_TAKEN)


def _hour_and_minute(clock: str) -> tuple[int, int]:
    hour, has_minute, minute = clock.partition(":")
    if has_minute and len(minute) != 2:
        raise ValueError(_TAKEN)
    return _number(hour), _number(minute) if has_minute else 0


def _divisor(text: str, whole: int, what: str) -> int:
    number = _number(text)
    if number == 0 or whole % number:
        raise ValueError(f"{what}: a number that divides {whole}")
    return number


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 2):
        raise ValueError(_TAKEN)
    return int(text)


def _check_words(text: str) -> str:
    cron_of(text)
    return text


def _check_zone(name: str) -> str:
    if not _is_zone(name) and _is_zone("UTC"):  # a slim system has no list of time zones
        raise ValueError("the name of a time zone, such as Europe/Berlin")
    return name


def _is_zone(name: str) -> bool:
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):  # OSError: a folder of zones, such as Europe
        return False
    return True


class Schedule(Request, ScheduleFields):
    """Exactly one of `cron` and `text`. The service answers with `cron` in either case."""

    cron: Annotated[str, Field(max_length=128), AfterValidator(check_cron)] | None = None
    text: Annotated[str, Field(max_length=128), AfterValidator(_check_words)] | None = None
    """The schedule in words, such as `every 30 minutes`, `hourly`, `daily at 9:00 pm` or `weekly on monday`."""
    timezone: Annotated[str, Field(max_length=128), AfterValidator(_check_zone)] | None = None

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.cron is None) == (self.text is None):
            raise ValueError("give exactly one of cron and text")
        return self
