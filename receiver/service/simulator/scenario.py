"""A scenario: when deliveries arrive, how the endpoint answers and fails, how the service waits and errs.

Scenarios come from TOML files and flags. An error names the key, the value, and what is allowed.
"""

import json
import tomllib
from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any, BinaryIO, NoReturn, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    StrictBool,
    StrictInt,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails, PydanticCustomError

from receiver.core.text import did_you_mean, plain_reason, resembling, shortened
from receiver.core.units import parse_duration
from receiver.errors import ConfigurationError
from receiver.service.samples import FAMILY_ALIASES, family_names
from receiver.service.schedule import RETRIES, SERVICE, SenderSchedule

_HOUR = timedelta(hours=1)
MAX_COUNT = 1_000_000


def _some(duration: timedelta) -> timedelta:
    if not duration:
        raise ValueError("it has to be longer than 0")
    return duration


def _known(family: str) -> str:
    if (whole := FAMILY_ALIASES.get(family, family)) not in family_names():
        raise ValueError(f"it has to be one of {', '.join(family_names())}")
    return whole


Duration = Annotated[timedelta, PlainValidator(parse_duration)]
Length = Annotated[Duration, AfterValidator(_some)]
Rate = Annotated[float, Field(strict=True, ge=0.001, le=MAX_COUNT)]
Share = Annotated[float, Field(strict=True, ge=0, le=1)]


class _Table(BaseModel):
    """A table of the file. Its errors are written below."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Job(_Table):
    """A job of the service, with the deliveries that `receiver.service.samples.job_story` gives its family."""

    family: Annotated[str, AfterValidator(_known)]
    """Family of the job, such as `crawl`."""
    pages: Annotated[StrictInt, Field(ge=0, le=MAX_COUNT)]
    """How many pages it has."""
    at: Duration = timedelta(0)
    """When its first delivery is created, from the start of the scenario."""
    pace: Rate = 1.0
    """Deliveries per second after the first."""


class ArrivalPattern(_Table):
    """When deliveries are created: at exact moments, steadily, by jobs, or all of these.

    Steady traffic is evenly spaced from 0 and ends before `duration`.
    """

    at: tuple[Duration, ...] = ()
    """Exact moments, from the start of the scenario."""
    rate: Rate | None = None
    """Deliveries per second; None for no steady traffic."""
    duration: Length = _HOUR
    """How long the steady traffic lasts."""
    poisson: StrictBool = False
    """Whether the gaps between its deliveries are exponential, not equal."""
    jobs: tuple[Job, ...] = ()
    """Jobs, each with the deliveries of its family."""

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        for key in ("duration", "poisson"):
            if self.rate is None and key in self.model_fields_set:
                _refuse(key, "it goes with a rate, which is not given")
        return self


class Latency(_Table):
    """How long the endpoint works on a request: constant, or lognormal with two quantiles."""

    p50: Duration
    """Half of the requests take no longer than this."""
    p99: Duration | None = None
    """99 of 100 requests take no longer than this; None if every request takes `p50`."""

    @model_validator(mode="before")
    @classmethod
    def _may_be_constant(cls, value: Any) -> Any:
        return value if isinstance(value, Mapping | Latency) else {"p50": value}

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.p99 is not None and not timedelta(0) < self.p50 <= self.p99:
            _refuse("p99", "it has to be p50 or longer, and p50 longer than 0")
        return self


class Endpoint(_Table):
    """How the endpoint answers outside of outages: after its latency, with 500 for a share of the requests.

    With a capacity, further requests wait in the order in which they came. The endpoint does not notice that the
    service has given up: it works on every request in its turn, even after the time-out.
    """

    latency: Latency = Latency(p50=timedelta(milliseconds=200))
    """How long the endpoint works on a request."""
    error_rate: Share = 0.0
    """Share of the requests that are answered 500, from 0 to 1."""
    capacity: Annotated[StrictInt, Field(ge=1, le=MAX_COUNT)] | None = None
    """How many requests it works on at one time; None for any number."""


class OutageKind(StrEnum):
    """How an attempt fails that starts in an outage."""

    REFUSE = "refuse"
    """The connection is refused at once."""
    HANG = "hang"
    """No answer comes within the time-out."""
    STATUS = "status"
    """An answer other than 2xx comes after the latency. A proxy gives it, so it takes no capacity."""


class Outage(_Table):
    """A time in which every attempt that starts fails. Where outages overlap, the first one counts."""

    start: Duration = Field(alias="from")
    """When it begins, from the start of the scenario."""
    end: Duration = Field(alias="to")
    """When it ends, from the start of the scenario."""
    kind: OutageKind = OutageKind.REFUSE
    """How attempts fail in it."""
    status: Annotated[StrictInt, Field(ge=300, le=599)] = 503
    """The status of the answers, with the kind `status`."""

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.end <= self.start:
            _refuse("to", "an outage ends after it begins, so `to` has to be later than `from`")
        if "status" in self.model_fields_set and self.kind is not OutageKind.STATUS:
            _refuse("status", 'it goes with kind = "status"')
        return self


class Waits(_Table):
    """How long the service waits for an answer, and before each of its three retries."""

    timeout: Length = SERVICE.timeout
    """How long the service waits for an answer."""
    pauses: tuple[Length, Length, Length] = SERVICE.pauses
    """How long it waits before each of its three retries."""


class Faults(_Table):
    """Faults of the sender's side in a live run. Each is a share of the deliveries, from 0 to 1."""

    duplicates: Share = 0.0
    """Sent once more after they were delivered."""
    reordered: Share = 0.0
    """Held back before the first attempt, so that later deliveries overtake them."""
    forged: Share = 0.0
    """Accompanied by a forged request: an invented delivery with a wrong signature."""
    truncated: Share = 0.0
    """Cut short in the first attempt."""
    slow: Share = 0.0
    """Uploaded slowly in the first attempt."""


class Scenario(_Table):
    """Everything that a simulation depends on. The same scenario gives the same result."""

    seed: StrictInt = 0
    """Where random numbers begin; the same seed gives the same result."""
    arrivals: ArrivalPattern = ArrivalPattern()
    """When deliveries are created."""
    endpoint: Endpoint = Endpoint()
    """How the endpoint answers outside every outage."""
    outages: tuple[Outage, ...] = Field((), alias="outage")
    """When the endpoint is out."""
    sender: Waits = Waits()
    """How long the service waits."""
    faults: Faults = Faults()
    """What goes wrong on the sender's side. Only a live run plays it."""

    @property
    def schedule(self) -> SenderSchedule:
        """How long the service waits."""
        return SenderSchedule(self.sender.timeout, self.sender.pauses)

    def outage_at(self, moment: timedelta) -> Outage | None:
        """Return the outage at this moment, None if there is none."""
        return next((outage for outage in self.outages if outage.start <= moment < outage.end), None)


def _refuse(key: str, allowed: str) -> NoReturn:
    """Refuse a value that contradicts others of its table."""
    raise PydanticCustomError("together", "{allowed}", {"key": key, "allowed": allowed})


MAX_SHOWN_LENGTH = 60
_KEYS = {
    "": "seed, arrivals, endpoint, outage, sender, faults",
    "arrivals": "at, rate, duration, poisson, jobs",
    "jobs": "at, family, pages, pace",
    "endpoint": "latency, error_rate, capacity",
    "latency": "p50, p99",
    "outage": "from, to, kind, status",
    "sender": "timeout, pauses",
    "faults": "duplicates, reordered, forged, truncated, slow",
}
_ALLOWED = {
    "model_type": "it has to be a table",
    "tuple_type": "it has to be a list; of tables each one stands under [[ ]]",
    "int_type": "it has to be a whole number",
    "float_type": "it has to be a number",
    "bool_type": "it has to be true or false",
    "string_type": "it has to be a text",
    "finite_number": "it has to be a number",
    "too_long": f"there are {len(RETRIES)} retries, so {len(RETRIES)} pauses",
}
_MISSING = {
    "family": f"name one of {', '.join(family_names())}",
    "pages": "give a whole number, such as 10",
    "from": "give a time from the start, such as 5m",
    "to": "give a time from the start, such as 10m",
    "p50": "give a duration, such as 20ms",
    "p99": "give a duration, such as 200ms",
}
"""What to write, by key."""

Raw = dict[str, Any]


def read_toml(file: BinaryIO) -> Raw:
    """Return the values of a TOML file. Raises ConfigurationError for any other file."""
    try:
        return tomllib.load(file)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
        raise ConfigurationError(f"{file.name}: this is not valid TOML: {exc}") from None


def with_values(raw: Raw, values: Mapping[str, object]) -> Raw:
    """Return a copy with values replaced or added. Their keys are paths, such as `arrivals.rate`."""
    merged = dict(raw)
    for path, value in values.items():
        table, _, key = path.rpartition(".")
        if not table:
            merged[key] = value
        elif isinstance(inner := merged.get(table, {}), Mapping):
            merged[table] = {**inner, key: value}
    return merged


def scenario_of(raw: Raw, *, file: str = "the scenario", flags: Mapping[str, str] | None = None) -> Scenario:
    """Return the scenario. Without arrivals it has one delivery a second for 1 h.

    Raises ConfigurationError with all errors. `flags` has the paths of values that came from a flag; errors then
    name the flag, not the file.
    """
    arrivals = raw.get("arrivals", {})
    if isinstance(arrivals, dict) and not arrivals.keys() & {"at", "rate", "jobs"}:
        raw = raw | {"arrivals": arrivals | {"rate": 1.0}}
    try:
        return Scenario.model_validate(raw, by_alias=True, by_name=False)
    except ValidationError as exc:
        wrong = [_in_words(error, file, flags or {}) for error in exc.errors(include_url=False)]
        raise ConfigurationError("\n".join(dict.fromkeys(wrong))) from None


def _in_words(error: ErrorDetails, file: str, flags: Mapping[str, str]) -> str:
    location, value = list(error["loc"]), error["input"]
    if error["type"] == "together":
        location.append(error["ctx"]["key"])
        value = value.get(location[-1]) if isinstance(value, Mapping) else value
    path = _path(location)
    where = next((flag for key, flag in flags.items() if path.startswith(key)), file)
    if error["type"] == "extra_forbidden":
        tables = [str(part) for part in location[:-1] if isinstance(part, str)]
        keys = _KEYS[tables[-1] if tables else ""]
        hint = did_you_mean(resembling(str(location[-1]), keys.split(", ")))
        return f"{where}: there is no key {_printable(path)}{hint or ';'} there are {keys}"
    if error["type"] == "missing" and isinstance(location[-1], int):
        return f"{where}: {_path(location[:-1])} has too few values: {_ALLOWED['too_long']}"
    if error["type"] == "missing":
        return f"{where}: {path} is missing: {_MISSING.get(str(location[-1]), 'give it a value')}"
    allowed = _ALLOWED.get(error["type"]) or plain_reason(error)
    return f"{where}: {path} is {_printable(value)}: {allowed}"


def _path(location: list[int | str]) -> str:
    """Return the place of a value, such as `outage[0].to`; entries are counted from 0."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).removeprefix(".")


def _printable(value: object) -> str:
    """Return a value as printable text on one line, shortened."""
    return shortened(json.dumps(value, default=str), MAX_SHOWN_LENGTH)
