"""How often a call is made: steps of attempts and pauses, which a client carries out.

This module does no I/O: `call_steps` yields a step, is sent its outcome, and at the end returns the result or
raises.
"""

import random
from collections.abc import Generator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from pydantic import SecretStr

from receiver.core.clock import Clock
from receiver.core.retries import RetrySchedule
from receiver.errors import (
    Conflict,
    RateLimited,
    ScrapeTimedOut,
    ServerError,
    ServiceError,
    ServiceUnreachable,
    UnexpectedAnswer,
)
from receiver.service.client.calls import ServiceCall, ServiceResponse
from receiver.service.client.reading import read_answer

T = TypeVar("T")

_PAUSES = RetrySchedule((timedelta(seconds=0.5), timedelta(seconds=2), timedelta(seconds=8)))


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When a call is made again."""

    pauses: RetrySchedule = _PAUSES
    """How long to wait before each further attempt, unless the service asks for another pause."""
    budget: timedelta = timedelta(seconds=60)
    """How long after the first attempt another one may begin. An attempt has a time limit of its own."""


DEFAULT_PATIENCE = RetryPolicy()
"""Four attempts within a minute."""


@dataclass(frozen=True, slots=True)
class CallAttempt:
    """A step: make the call and send its outcome."""


@dataclass(frozen=True, slots=True)
class Pause:
    """A step: wait."""

    duration: timedelta
    """How long to wait."""


Script = Generator[CallAttempt | Pause, ServiceResponse | ServiceError | None, T]


def call_steps(
    call: ServiceCall[T], patience: RetryPolicy, *, key: SecretStr, clock: Clock, rng: random.Random
) -> Script[T]:
    """Yield the steps until the call has succeeded or finally failed.

    A call is made again if it was certainly not carried out (no connection, 429). After a lost or broken answer,
    408 or 5xx it is made again only if it is repeatable.
    """
    started = clock.steady()
    maybe_done = False
    failed = 0
    while True:
        came = yield CallAttempt()
        try:
            return _result(call, came, key, clock.now())
        except ServiceError as error:
            failed += 1
            if maybe_done and isinstance(error, Conflict):
                raise _already_started(error) from None
            duration = _pause_after(error, call, patience, failed, clock.now(), rng)
            if duration is None or clock.steady() + duration > started + patience.budget:
                raise
            maybe_done = maybe_done or not _surely_not_done(error)
        yield Pause(duration)


def _result(call: ServiceCall[T], came: ServiceResponse | ServiceError | None, key: SecretStr, now: datetime) -> T:
    match came:
        case ServiceResponse():
            return read_answer(call, came, key=key, now=now)
        case ServiceError():
            raise came
    raise TypeError("an attempt has an outcome")


def _pause_after(
    error: ServiceError,
    call: ServiceCall[Any],
    patience: RetryPolicy,
    failed: int,
    now: datetime,
    rng: random.Random,
) -> timedelta | None:
    """Return how long to wait before the next attempt; None if there is no next attempt."""
    if not _surely_not_done(error) and not (call.repeatable and _may_pass(error)):
        return None
    due = patience.pauses.due_after(failed, now=now, rng=rng)
    if due is None:
        return None
    if error.retry_after is not None:
        # A little later than the service asks for, so that waiting calls do not come all together.
        return error.retry_after * rng.uniform(1.0, 1.1)
    return due - now


def _surely_not_done(error: ServiceError) -> bool:
    return isinstance(error, RateLimited) or (isinstance(error, ServiceUnreachable) and not error.sent)


def _may_pass(error: ServiceError) -> bool:
    if isinstance(error, UnexpectedAnswer):
        return error.status is None or 200 <= error.status < 300
    return isinstance(error, ServiceUnreachable | ScrapeTimedOut | ServerError)


def _already_started(error: Conflict) -> Conflict:
    """Return the error for a used key: an earlier attempt of this call arrived, and its answer was lost."""
    return Conflict(
        f"{error}; an earlier attempt whose answer was lost has used this idempotency key",
        status=error.status,
        said=error.said,
        code=error.code,
        request_id=error.request_id,
        answer=error.answer,
    )
