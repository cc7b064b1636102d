"""Faults that were asked for: errors of the API, webhooks that are lost, late or repeated, and jobs that fail."""

import random
from dataclasses import dataclass, field
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, PlainSerializer, StrictInt
from typing_extensions import override

from receiver.core.units import WRONG_DURATION, parse_duration
from receiver.emulator.contracts import JobFailure, JobFaults
from receiver.emulator.failures import CallRefused
from receiver.emulator.webhooks.outbox import AS_USUAL, Treatment, WebhookTreatments
from receiver.requests.base import Request

Json = dict[str, Any]

_MAX_TIMES = 1_000_000
_JOB_FAILED = "The job failed, because a fault was asked for"
_TEXTS = {
    400: "Bad Request",
    401: "Unauthorized: Invalid token",
    402: "Insufficient credits to perform this request",
    403: "This request is not allowed",
    404: "Not found",
    408: "The request timed out",
    409: "Conflict",
    413: "Request body is too large",
    429: "Rate limit exceeded",
}


def _duration(value: object) -> timedelta:
    """Read `90s`, `1h30m`, or a number of seconds."""
    if isinstance(value, timedelta):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not 0 <= value <= timedelta(days=3660).total_seconds():
            raise ValueError(WRONG_DURATION)
        return timedelta(seconds=value)
    return parse_duration(value)


Span = Annotated[timedelta, BeforeValidator(_duration), PlainSerializer(timedelta.total_seconds)]
"""Seconds, or a text such as `1h30m`."""
Text = Annotated[str, Field(max_length=2000)]


class InjectedFault(Request):
    """A fault as the admin API takes and lists it. It is over when its `times` have been used."""

    model_config = ConfigDict(frozen=False)

    times: Annotated[StrictInt, Field(ge=1, le=_MAX_TIMES)] = 1
    """How many calls, webhooks or jobs it still meets."""

    def as_json(self) -> Json:
        """Return the fault as the admin API lists it."""
        return self.model_dump(by_alias=True, exclude_none=True)


class CallFault(InjectedFault):
    """An error that the next calls of some operations get for an answer."""

    operation: Annotated[str, Field(min_length=1, max_length=200)]
    """A rate limit's name such as `scrape`, a path such as `/v2/crawl/{id}`, or `*` for every call."""
    method: Annotated[str, Field(pattern="^(GET|POST|PUT|PATCH|DELETE)$")] | None = None
    """Only calls with this HTTP method."""
    status: Annotated[StrictInt, Field(ge=400, le=599)]
    code: Annotated[str, Field(max_length=100)] | None = None
    error: Text | None = None
    """The text in the answer; without it, a usual one of the status."""
    retry_after: Annotated[StrictInt, Field(ge=0, le=86_400)] | None = None
    """Seconds, for the header Retry-After."""

    def refusal(self) -> CallRefused:
        """Return the answer."""
        text = self.error or _TEXTS.get(self.status, "An unexpected error occurred")
        headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        return CallRefused(self.status, text, code=self.code, headers=headers)


class WebhookFault(InjectedFault):
    """What happens to the next webhooks of some types: they are lost, late, shuffled, or arrive twice."""

    webhook: Annotated[str, Field(min_length=1, max_length=200)]
    """An event type such as `crawl.page`, in which `*` stands for any characters."""
    copies: Annotated[StrictInt, Field(ge=0, le=100)] = 1
    """How often each arrives; 0 loses it."""
    late: Span = timedelta(0)
    """How long each is held back, on the emulator's clock."""
    shuffle: Span = timedelta(0)
    """The longest time for which each is held back besides, by chance, so that they change places."""


class JobFault(InjectedFault):
    """The next jobs of a kind fail."""

    job: Literal["crawl", "batch_scrape", "*"]
    """`*` is both."""
    after: Annotated[StrictInt, Field(ge=0, le=_MAX_TIMES)] = 0
    """How many pages of the job end before."""
    error: Text | None = None
    """Why the job fails; without it, a usual text."""


@dataclass(slots=True)
class InjectedFaults(WebhookTreatments, JobFaults):
    """All faults that are still to come. The oldest that fits is taken."""

    chance: random.Random
    """Draws how long shuffled webhooks are held back."""
    calls: list[CallFault] = field(default_factory=list)
    webhooks: list[WebhookFault] = field(default_factory=list)
    jobs: list[JobFault] = field(default_factory=list)

    def take(self, method: str, path: str, limit: str) -> CallFault | None:
        """Return the fault that the next call of an operation meets, and count it; None for the usual answer."""
        for fault in self.calls:
            if fault.operation in ("*", path, limit) and fault.method in (None, method):
                fault.times -= 1
                self.calls = [one for one in self.calls if one.times > 0]
                return fault
        return None

    @override
    def choose(self, event_type: str) -> Treatment:
        for fault in self.webhooks:
            if fnmatchcase(event_type, fault.webhook):
                fault.times -= 1
                self.webhooks = [one for one in self.webhooks if one.times > 0]
                return Treatment(fault.copies, fault.late + fault.shuffle * self.chance.uniform(0, 1))
        return AS_USUAL

    @override
    def choose_job(self, kind: str) -> JobFailure | None:
        for fault in self.jobs:
            if fault.job in ("*", kind):
                fault.times -= 1
                self.jobs = [one for one in self.jobs if one.times > 0]
                return JobFailure(fault.after, fault.error or _JOB_FAILED)
        return None

    def listed(self) -> list[Json]:
        """Return the faults as the admin API lists them."""
        return [one.as_json() for one in (*self.calls, *self.webhooks, *self.jobs)]

    def forget_all(self) -> None:
        """Let everything take its usual way."""
        self.calls, self.webhooks, self.jobs = [], [], []
