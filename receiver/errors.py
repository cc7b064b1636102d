"""All errors that this package raises on purpose, in one tree by who must act.

    ReceiverError
    ├── ConfigurationError          the operator, before the start: settings, addresses, files
    │   ├── HandlerError            a wrong handler or router, found when it is registered
    │   ├── NoApiKey                a handler calls the service without an API key; also a GiveUp
    │   ├── StoreRefused            a database that cannot be used here; waiting does not help
    │   ├── NoSearchIndex           a search by words without an index
    │   ├── WrongExpression         an invalid condition on events
    │   └── NoBundle                a file that is not a bundle, or a bundle of a newer version
    ├── RejectedRequest             the sender: answered 4xx, because a retry of the same request cannot help
    │   ├── Unauthenticated         401
    │   ├── Malformed               400
    │   │   └── CostlyBody          an event that would take too much memory; also a GiveUp
    │   ├── ReadTimeout             408
    │   └── TooLarge                413
    ├── StoreError                  usually no one: the store cannot do it now; try later
    │   ├── UnreadableBody          the file of a body is missing, or damaged
    │   └── Overloaded              a limit on memory is reached; answered 503 like any other store error
    ├── AlertNotSent                usually no one: an alert could not be posted; it is posted later
    ├── ServiceError                the caller of the service: a call failed
    │   ├── ServiceUnreachable      no answer: refused, lost, or too late
    │   ├── UnexpectedAnswer        an undocumented answer: not JSON, cut short, a redirect
    │   ├── NotSuccessful           200 that says `success: false`
    │   ├── BadRequest              400, 413, and every 4xx that has no class of its own
    │   ├── KeyRefused              401
    │   ├── PaymentRequired         402
    │   ├── Forbidden               403
    │   ├── NotFound                404
    │   ├── ScrapeTimedOut          408
    │   ├── Conflict                409
    │   ├── Unprocessable           422
    │   ├── RateLimited             429
    │   └── ServerError             5xx
    ├── UnknownDelivery             the caller of a report: no such delivery, or more than one
    ├── UnknownWork                 the caller of a report: no such work item
    ├── UnknownRequest              the caller of a report: no such request in quarantine
    ├── UnknownAction               the caller of a report: no such action, or it was forgotten
    ├── UnknownJob                  the caller of a report: no delivery of such a job
    │   └── AmbiguousJob            the caller of a report: several jobs
    └── NotComparable               the caller of a backfill: the deliveries of a job cannot be compared
        └── NotOver                 a job that still runs: compare it later

`Retry` and `GiveUp` are not in the tree: a handler raises them to decide about its work item.
"""

from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any, ClassVar


class ReceiverError(Exception):
    """Base of all errors of this package."""


class ConfigurationError(ReceiverError):
    """The operator must change something before the program can run. The text says what and how."""


class HandlerError(ConfigurationError):
    """A wrong handler or router: wrong signature, unknown event, a name used twice."""


class StoreRefused(ConfigurationError):
    """The database is damaged, of a newer version, of another program, or cannot be created or written here.

    Waiting does not help. A database of a newer version or another program is left unchanged.
    """


class WrongExpression(ConfigurationError):
    """An invalid condition on events. The text shows it, and says what was expected where."""


class NoBundle(ConfigurationError):
    """A file that is not a bundle, or a bundle that only a newer version can read."""


class NoSearchIndex(ConfigurationError):
    """A search by words needs an index, and there is none."""

    def __init__(self) -> None:
        super().__init__(
            "there is no index of words: set RECEIVER_SEARCH=true for the worker and start it again; "
            "it also indexes what is stored already"
        )


class RejectedRequest(ReceiverError):
    """The request is refused with a 4xx. The sender may then drop the event: only its own faults get one."""

    status: ClassVar[int]
    code: ClassVar[str]


class Unauthenticated(RejectedRequest):
    """No configured secret or token matches the request. The text never says which part was wrong."""

    status, code = 401, "unauthenticated"


class Malformed(RejectedRequest):
    """The body is authentic, but not an envelope of the service. It is kept in quarantine."""

    status, code = 400, "malformed"


class ReadTimeout(RejectedRequest):
    """The body did not arrive within the read time-out."""

    status, code = 408, "timeout"


class TooLarge(RejectedRequest):
    """The body is longer than the configured limit."""

    status, code = 413, "too_large"


class StoreError(ReceiverError):
    """The store cannot do this now: it is locked, full, or unreachable. Nothing was stored."""


class UnreadableBody(StoreError):
    """The store cannot read the body of a delivery now. Its work items fail, and can be retried later."""


class Overloaded(StoreError):
    """This request would exceed the limit on memory."""


class AlertNotSent(ReceiverError):
    """An alert could not be posted. The text leaves out its URL, which is a secret."""


class ServiceError(ReceiverError):
    """A call to the service failed.

    `status` is the HTTP status, None without an answer. `said`, `code` and `request_id` are the service's error
    text, its error code and the id of the call, each None if it gave none. `answer` is its whole JSON object, and
    `retry_after` the wait that it asks for. The API key is never in them.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        said: str | None = None,
        code: str | None = None,
        request_id: str | None = None,
        retry_after: timedelta | None = None,
        answer: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.said = said
        self.code = code
        self.request_id = request_id
        self.retry_after = retry_after
        self.answer = answer or {}


class ServiceUnreachable(ServiceError):
    """No answer came: the connection was refused or lost, or it took too long.

    `sent` is True if the service may still have received the request.
    """

    def __init__(self, message: str, *, sent: bool = True) -> None:
        super().__init__(message)
        self.sent = sent


class UnexpectedAnswer(ServiceError):
    """The answer is not a documented one: not a JSON object, cut short, too long, or a redirect."""


class NotSuccessful(ServiceError):
    """The answer is a 200 with `success: false`, as for a host without DNS. Trying again does not help."""


class BadRequest(ServiceError):
    """400, 413 or another 4xx: the service refuses this request. Trying again does not help."""


class KeyRefused(ServiceError):
    """401: the API key is missing or wrong."""


class PaymentRequired(ServiceError):
    """402: not enough credits."""


class Forbidden(ServiceError):
    """403: the site is refused, or the account lacks a feature, such as threat protection."""


class NotFound(ServiceError):
    """404: the job, monitor or check is unknown, belongs to another account, or has expired after 24 hours."""


class ScrapeTimedOut(ServiceError):
    """408: the page took longer than the request's `timeout`. A big PDF may be ready after `retry_after`."""


class Conflict(ServiceError):
    """409: the monitor is paused or runs, the crawl is over, or the idempotency key was used before."""


class Unprocessable(ServiceError):
    """422: the schema of the extraction is invalid."""


class RateLimited(ServiceError):
    """429: a limit on rate, concurrency or the queue was reached. Nothing was done; try again after `retry_after`.

    If a handler does not catch it, its work item runs again no sooner than that, unless the handler's `give_up_on`
    or `retry_on` makes the error final.
    """


class ServerError(ServiceError):
    """5xx: the service failed. It may or may not have done what was asked."""


class UnknownDelivery(ReceiverError):
    """No delivery, or more than one, has an id with this beginning."""


class UnknownWork(ReceiverError):
    """There is no work item with this id."""

    def __init__(self, work_id: int) -> None:
        super().__init__(f"there is no work item {work_id}")


class UnknownRequest(ReceiverError):
    """There is no request with this number in quarantine."""

    def __init__(self, request_id: int) -> None:
        super().__init__(f"there is no request {request_id} in quarantine")


class UnknownAction(ReceiverError):
    """No action with this number is recorded."""

    def __init__(self, number: int) -> None:
        super().__init__(f"there is no action {number}; old ones are forgotten")


class UnknownJob(ReceiverError):
    """No job, or more than one, has an id with this beginning."""


class AmbiguousJob(UnknownJob):
    """More than one job has an id with this beginning. The text names some of them."""


class NotComparable(ReceiverError):
    """The deliveries of a job cannot be compared with the service's record of it. The text says why."""


class NotOver(NotComparable):
    """The job still runs: a missing delivery may still come."""

    def __init__(self, status: object) -> None:
        super().__init__(f"it is not over yet (its status is {status}): ask again when it is")


def as_duration(given: object) -> timedelta:
    """Return a number of seconds, or a timedelta, as a timedelta. Raises ValueError for anything else."""
    if isinstance(given, timedelta):
        return given
    if isinstance(given, int | float) and not isinstance(given, bool):
        with suppress(ValueError, OverflowError):  # not a number, infinite, or longer than a timedelta can be
            return timedelta(seconds=given)
    raise ValueError(f"takes seconds or a timedelta, as in 90 or timedelta(minutes=25), not {given!r}")


class Retry(Exception):
    """Raised by a handler: run this work item again, after the given time if there is one.

    `after` is a number of seconds or a timedelta; as an attribute it is a timedelta. Other values raise ValueError
    or TypeError. The attempt counts as failed. When the attempts are used up, the work item is dead all the same.
    """

    after: timedelta | None

    def __init__(
        self, reason: str = "the handler asked for a retry", *, after: float | timedelta | None = None
    ) -> None:
        if isinstance(reason, int | float | timedelta):
            raise TypeError(f"Retry takes its time by name: Retry(after={reason!r})")
        try:
            self.after = None if after is None else as_duration(after)
        except ValueError as exc:
            raise ValueError(f"Retry(after=...) {exc}") from None
        if self.after is not None and self.after < timedelta(0):
            raise ValueError("Retry(after=...) takes a duration that is not negative")
        super().__init__(reason)


class GiveUp(Exception):
    """Raised by a handler: this work item is dead at once, for this reason."""

    def __init__(self, reason: str = "the handler gave up") -> None:
        super().__init__(reason)
        self.reason = reason


class CostlyBody(Malformed, GiveUp):
    """A body is not read as an event, because that event would take too much memory.

    The endpoint accepts such a body. This is a GiveUp, because a later attempt would fail too.
    """


class NoApiKey(ConfigurationError, GiveUp):
    """A handler asked for a client of the service, but no API key is set.

    This is a GiveUp, because a later attempt of this worker would fail too.
    """
