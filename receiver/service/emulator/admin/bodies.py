"""The bodies of the admin API."""

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, StrictInt

from receiver.core.durations import WRONG_DURATION, parse_duration
from receiver.requests.base import Request

MAX_TIMES = 1_000_000


def _duration(value: object) -> timedelta:
    """Read `90s`, `1h30m`, or a number of seconds."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not 0 <= value <= timedelta(days=3660).total_seconds():
            raise ValueError(WRONG_DURATION)
        return timedelta(seconds=value)
    return parse_duration(value)


Span = Annotated[timedelta, BeforeValidator(_duration)]
_Times = Annotated[StrictInt, Field(ge=1, le=MAX_TIMES)]


class CallFaultBody(Request):
    """A fault of the API to ask for."""

    operation: Annotated[str, Field(min_length=1, max_length=200)]
    """A rate limit's name such as `scrape`, a path such as `/v2/crawl/{id}`, or `*` for every call."""
    status: Annotated[StrictInt, Field(ge=400, le=599)]
    """The HTTP status of the answers."""
    times: _Times = 1
    """How many calls it meets."""
    method: Annotated[str, Field(pattern="^(GET|POST|PUT|PATCH|DELETE)$")] | None = None
    """Only calls with this HTTP method."""
    code: Annotated[str, Field(max_length=100)] | None = None
    """The code in the answers."""
    error: Annotated[str, Field(max_length=2000)] | None = None
    """The text in the answers; a usual one of the status without it."""
    retry_after: Annotated[StrictInt, Field(ge=0, le=86_400)] | None = None
    """Seconds, for the header Retry-After."""


class WebhookFaultBody(Request):
    """A fault on the way of webhooks to ask for."""

    webhook: Annotated[str, Field(min_length=1, max_length=200)]
    """An event type such as `crawl.page`, in which `*` stands for any characters."""
    times: _Times = 1
    """How many deliveries it meets."""
    copies: Annotated[StrictInt, Field(ge=0, le=100)] = 1
    """How often each arrives; 0 loses it."""
    late: Span = timedelta(0)
    """How long each is held back, on the emulator's clock: seconds, or a text such as `5m`."""
    shuffle: Span = timedelta(0)
    """The most that each is held back besides, by chance, so that they change places."""


class JobFaultBody(Request):
    """Jobs that are to fail."""

    job: Literal["crawl", "batch_scrape", "*"]
    """The kind of the jobs."""
    times: _Times = 1
    """How many jobs it meets."""
    after: Annotated[StrictInt, Field(ge=0, le=MAX_TIMES)] = 0
    """How many pages of a job end before."""
    error: Annotated[str, Field(max_length=2000)] | None = None
    """Why the job fails; a usual text without it."""


class ClockBody(Request):
    """How far to move the clock."""

    advance: Span
    """Seconds, or a text such as `1h30m`."""


class CreditsBody(Request):
    """What a team, or every team, has left."""

    credits: Annotated[StrictInt, Field(ge=0, le=2**53 - 1)]
    """Credits that are left."""
    team: Annotated[str, Field(max_length=100)] | None = None
    """Id of the team, as the journal tells it; without it, all teams."""
    key: Annotated[str, Field(max_length=1000)] | None = Field(default=None, repr=False)
    """An API key of the team, in place of its id."""
