"""A scenario: when deliveries arrive, how the endpoint answers and fails, how the service waits and errs."""

from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any, NoReturn, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    StrictBool,
    StrictInt,
    model_validator,
)
from pydantic_core import PydanticCustomError

from receiver.core.units import parse_duration
from receiver.service.samples import FAMILY_ALIASES, family_names
from receiver.service.schedule import SERVICE, SenderSchedule

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
    """A table of the file. `scenario_file` writes the texts of its errors."""

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
