"""InjectedFaults that somebody asked for: answers of the API, the ways of webhooks, and jobs that fail."""

import random
from dataclasses import dataclass, field
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any

from receiver.emulator.contracts import JobFailure
from receiver.emulator.failures import CallRefused
from receiver.emulator.webhooks.outbox import AS_USUAL, Treatment

Json = dict[str, Any]

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


@dataclass(slots=True, kw_only=True)
class CallFault:
    """The next calls of some operations get an error for an answer."""

    operation: str
    """A rate limit's name such as `scrape`, a path such as `/v2/crawl/{id}`, or `*` for every call."""
    status: int
    """The HTTP status of the answer."""
    times: int = 1
    """How many calls it still meets."""
    method: str | None = None
    """Only calls with this HTTP method."""
    code: str | None = None
    """The code in the answer."""
    error: str | None = None
    """The text in the answer; a usual one of the status without it."""
    retry_after: int | None = None
    """Seconds, for the header Retry-After."""

    def refusal(self) -> CallRefused:
        """Return the answer."""
        text = self.error or _TEXTS.get(self.status, "An unexpected error occurred")
        headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        return CallRefused(self.status, text, code=self.code, headers=headers)

    def as_json(self) -> Json:
        """Return the fault as the admin API gives it."""
        fields = {
            "operation": self.operation,
            "method": self.method,
            "status": self.status,
            "times": self.times,
            "code": self.code,
            "error": self.error,
            "retryAfter": self.retry_after,
        }
        return {name: value for name, value in fields.items() if value is not None}


@dataclass(slots=True, kw_only=True)
class WebhookFault:
    """The next webhooks of some types are lost, late, shuffled, or arrive twice."""

    webhook: str
    """An event type such as `crawl.page`, in which `*` stands for any characters."""
    times: int = 1
    """How many deliveries it still meets."""
    copies: int = 1
    """How often each arrives; 0 loses it."""
    late: timedelta = timedelta(0)
    """How long each is held back, on the emulator's clock."""
    shuffle: timedelta = timedelta(0)
    """The most that each is held back besides, by chance, so that they change places."""

    def as_json(self) -> Json:
        """Return the fault as the admin API gives it."""
        return {
            "webhook": self.webhook,
            "times": self.times,
            "copies": self.copies,
            "late": self.late.total_seconds(),
            "shuffle": self.shuffle.total_seconds(),
        }


@dataclass(slots=True, kw_only=True)
class JobFault:
    """The next jobs of a kind fail."""

    job: str
    """`crawl`, `batch_scrape`, or `*` for both."""
    times: int = 1
    """How many jobs it still meets."""
    after: int = 0
    """How many pages of the job end before."""
    error: str | None = None
    """Why the job fails; a usual text without it."""

    def as_json(self) -> Json:
        """Return the fault as the admin API gives it."""
        fields = {"job": self.job, "times": self.times, "after": self.after, "error": self.error}
        return {name: value for name, value in fields.items() if value is not None}


@dataclass(slots=True)
class InjectedFaults:
    """All faults that are still to come. The oldest that fits is taken. A WebhookTreatments and a JobFaults."""

    chance: random.Random
    """Draws how long shuffled webhooks are held back."""
    calls: list[CallFault] = field(default_factory=list)
    """InjectedFaults of the API."""
    webhooks: list[WebhookFault] = field(default_factory=list)
    """InjectedFaults on the way of webhooks."""
    jobs: list[JobFault] = field(default_factory=list)
    """InjectedFaults of jobs."""

    def take(self, method: str, path: str, limit: str) -> CallFault | None:
        """Return the fault that the next call of an operation meets, and count it; None for the usual answer."""
        for fault in self.calls:
            if fault.operation in ("*", path, limit) and fault.method in (None, method):
                fault.times -= 1
                self.calls = [one for one in self.calls if one.times > 0]
                return fault
        return None

    def choose(self, event_type: str) -> Treatment:
        """Return what happens to the next delivery of this type, and count it."""
        for fault in self.webhooks:
            if fnmatchcase(event_type, fault.webhook):
                fault.times -= 1
                self.webhooks = [one for one in self.webhooks if one.times > 0]
                return Treatment(fault.copies, fault.late + fault.shuffle * self.chance.uniform(0, 1))
        return AS_USUAL

    def choose_job(self, kind: str) -> JobFailure | None:
        """Return how the job that starts now fails, and count it."""
        for fault in self.jobs:
            if fault.job in ("*", kind):
                fault.times -= 1
                self.jobs = [one for one in self.jobs if one.times > 0]
                return JobFailure(fault.after, fault.error or _JOB_FAILED)
        return None

    def forget_all(self) -> None:
        """Let everything take its usual way."""
        self.calls, self.webhooks, self.jobs = [], [], []
