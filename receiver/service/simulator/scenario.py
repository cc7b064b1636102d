"""A scenario: what arrives when, how the endpoint answers, when it is out, and how the service waits and errs."""

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

from receiver.service.samples import family_names
from receiver.service.schedule import SERVICE, SenderSchedule
from receiver.service.simulator.durations import parse_duration

_HOUR = timedelta(hours=1)
_MOST = 1_000_000


def _some(duration: timedelta) -> timedelta:
    if not duration:
        raise ValueError("it has to be longer than nothing")
    return duration


def _known(family: str) -> str:
    if family not in family_names():
        raise ValueError(f"it has to be one of {', '.join(family_names())}")
    return family


Duration = Annotated[timedelta, PlainValidator(parse_duration)]
Length = Annotated[Duration, AfterValidator(_some)]
Rate = Annotated[float, Field(strict=True, ge=0.001, le=_MOST)]
Share = Annotated[float, Field(strict=True, ge=0, le=1)]


class _Table(BaseModel):
    """A table of the file. Its errors are put into words by `scenario_file`."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Job(_Table):
    """A job of the service: its first delivery is created at `at`, and `pace` more in each second after it.

    It has as many deliveries as `receiver.service.samples.job_story` tells of this family with so many pages.
    """

    family: Annotated[str, AfterValidator(_known)]
    pages: Annotated[StrictInt, Field(ge=0, le=_MOST)]
    at: Duration = timedelta(0)
    pace: Rate = 1.0


class ArrivalPattern(_Table):
    """When deliveries are created: at exact moments, at a rate, by jobs, or all of these.

    With a rate, in deliveries per second, they are evenly spaced from 0 and end before `duration`; with `poisson`
    the gaps between them are exponential instead.
    """

    at: tuple[Duration, ...] = ()
    rate: Rate | None = None
    duration: Length = _HOUR
    poisson: StrictBool = False
    jobs: tuple[Job, ...] = ()

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        for key in ("duration", "poisson"):
            if self.rate is None and key in self.model_fields_set:
                _refuse(key, "it goes with a rate, which is not given")
        return self


class Latency(_Table):
    """How long the endpoint works on a request: always `p50`, or lognormal with these two quantiles."""

    p50: Duration
    p99: Duration | None = None

    @model_validator(mode="before")
    @classmethod
    def _may_be_constant(cls, value: Any) -> Any:
        return value if isinstance(value, Mapping | Latency) else {"p50": value}

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.p99 is not None and not timedelta(0) < self.p50 <= self.p99:
            _refuse("p99", "it has to be p50 or longer, and p50 longer than nothing")
        return self


class Endpoint(_Table):
    """How the endpoint answers outside every outage: after its latency, with 500 for a share of the requests.

    With a capacity it works on so many requests at one time, and the rest wait in the order in which they came. It
    does not know who has given up: a request is worked on in its turn even after the service's time-out.
    """

    latency: Latency = Latency(p50=timedelta(milliseconds=200))
    error_rate: Share = 0.0
    capacity: Annotated[StrictInt, Field(ge=1, le=_MOST)] | None = None


class OutageKind(StrEnum):
    """What an attempt meets that starts in an outage."""

    REFUSE = "refuse"
    """No connection, at once."""
    HANG = "hang"
    """No answer within the time-out."""
    STATUS = "status"
    """A status that is no 2xx, after the latency. It comes from in front of the endpoint and takes no capacity."""


class Outage(_Table):
    """An attempt that starts in [start, end) fails. Where several outages overlap, the first one says how."""

    start: Duration = Field(alias="from")
    end: Duration = Field(alias="to")
    kind: OutageKind = OutageKind.REFUSE
    status: Annotated[StrictInt, Field(ge=300, le=599)] = 503

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.end <= self.start:
            _refuse("to", "it has to come after `from`")
        if "status" in self.model_fields_set and self.kind is not OutageKind.STATUS:
            _refuse("status", 'it goes with kind = "status"')
        return self


class Waits(_Table):
    """How long the service waits for an answer, and before each of its three retries."""

    timeout: Length = SERVICE.timeout
    pauses: tuple[Length, Length, Length] = SERVICE.pauses


class Faults(_Table):
    """What goes wrong on the sender's side in a live run: each is the share of the deliveries that it befalls."""

    duplicates: Share = 0.0
    """Delivered, and sent once more."""
    reordered: Share = 0.0
    """Held back before the first attempt, so that later ones overtake them."""
    forged: Share = 0.0
    """Accompanied by somebody else's request with an invented delivery and a wrong signature."""
    truncated: Share = 0.0
    """Cut short in the first attempt."""
    slow: Share = 0.0
    """Uploaded slowly in the first attempt."""


class Scenario(_Table):
    """Everything that a simulation depends on: the same scenario gives the same result."""

    seed: StrictInt = 0
    arrivals: ArrivalPattern = ArrivalPattern()
    endpoint: Endpoint = Endpoint()
    outages: tuple[Outage, ...] = Field((), alias="outage")
    sender: Waits = Waits()
    faults: Faults = Faults()

    @property
    def schedule(self) -> SenderSchedule:
        """How long the service waits."""
        return SenderSchedule(self.sender.timeout, self.sender.pauses)

    def outage_at(self, moment: timedelta) -> Outage | None:
        """Return the outage that an attempt meets which starts at this moment."""
        return next((outage for outage in self.outages if outage.start <= moment < outage.end), None)


def _refuse(key: str, allowed: str) -> NoReturn:
    """Refuse a value that does not go with the others of its table."""
    raise PydanticCustomError("together", "{allowed}", {"key": key, "allowed": allowed})
