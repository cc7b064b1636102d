"""Every error this package raises on purpose, in one tree split by who must act.

    ReceiverError
    ├── ConfigurationError          the operator, before the start: settings, addresses, files
    │   ├── HandlerError            a handler or router that cannot work, found when it is registered
    │   ├── NoApiKey                a handler calls the service and no key is set; also a GiveUp
    │   ├── StoreRefused            a database that cannot be used here, and waiting does not help
    │   ├── NoSearchIndex           a search for words, and the store has no index of them
    │   ├── WrongExpression         a condition on events that cannot be understood
    │   └── NoBundle                a file that is not a bundle, or a bundle of a newer version
    ├── RejectedRequest             the sender: answered 4xx, so a retry of the same request cannot help
    │   ├── Unauthenticated         401
    │   ├── Malformed               400
    │   ├── ReadTimeout             408
    │   └── TooLarge                413
    ├── StoreError                  nobody at once: the store cannot do it now, try later
    │   └── Overloaded              a limit on memory is reached; answered 503 like any other store error
    ├── ServiceError                the caller of the service: what became of a call
    │   ├── ServiceUnreachable      no answer: refused, lost, or too late
    │   ├── UnexpectedAnswer        an answer as none is documented: no JSON, cut short, a redirect
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
    ├── UnknownJob                  the caller of a report: no delivery of such a job, or several jobs
    └── NotComparable               the caller of a backfill: what arrived of a job cannot be compared
        └── NotOver                 a job that still runs: compare it later

`Retry` and `GiveUp` stand outside: a handler raises them to say what shall become of its work item.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, ClassVar


class ReceiverError(Exception):
    """Base of all errors of this package."""


class ConfigurationError(ReceiverError):
    """Something the operator has to change before the program can run. The text says what and how."""


class HandlerError(ConfigurationError):
    """A handler or router that cannot work: wrong signature, unknown event, a name used twice."""


class StoreRefused(ConfigurationError):
    """The database is damaged, of a newer version, of another program, or cannot be created or written here.

    Waiting does not help. What is newer or another program's is left as it was.
    """


class WrongExpression(ConfigurationError):
    """A condition on events that cannot be understood. The text says where, what was expected, and shows it."""


class NoBundle(ConfigurationError):
    """The file is not a bundle, or its version needs a newer program."""


class NoSearchIndex(ConfigurationError):
    """Words were asked for, and nobody has made an index of them."""

    def __init__(self) -> None:
        super().__init__(
            "there is no index of words: set RECEIVER_SEARCH=true where the worker runs, and start it again; "
            "what is stored already comes into it too"
        )


class RejectedRequest(ReceiverError):
    """The request is refused with a 4xx. The sender may drop the event, so only its own faults end here."""

    status: ClassVar[int]
    code: ClassVar[str]


class Unauthenticated(RejectedRequest):
    """No configured secret or token matches what came. The text never says which part was wrong."""

    status, code = 401, "unauthenticated"


class Malformed(RejectedRequest):
    """The body is authentic, and no envelope of the service. It is kept in quarantine."""

    status, code = 400, "malformed"


class ReadTimeout(RejectedRequest):
    """The body did not arrive within the read time-out."""

    status, code = 408, "timeout"


class TooLarge(RejectedRequest):
    """The body is longer than the configured limit."""

    status, code = 413, "too_large"


class StoreError(ReceiverError):
    """The store cannot do this now: locked, full, or unreachable. Nothing of it was kept."""


class Overloaded(StoreError):
    """Taking this request would pass the limit on memory in use."""


class ServiceError(ReceiverError):
    """A call of the service that did not succeed.

    `status` is that of the answer, None without one. `said`, `code` and `request_id` are the service's own words,
    None where it gave none; `answer` is its whole JSON object. `retry_after` is how long it asks to wait. The API
    key is in none of them.
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

    `sent` tells whether the service may have got the request all the same.
    """

    def __init__(self, message: str, *, sent: bool = True) -> None:
        super().__init__(message)
        self.sent = sent


class UnexpectedAnswer(ServiceError):
    """What came is none of the documented answers: no JSON object, cut short, too long, or a redirect."""


class NotSuccessful(ServiceError):
    """The answer is a 200 and says that it is no success: a host without DNS, say. Trying again does not help."""


class BadRequest(ServiceError):
    """400, 413 or another 4xx: the service does not take this request. Trying again does not help."""


class KeyRefused(ServiceError):
    """401: the API key is missing or wrong."""


class PaymentRequired(ServiceError):
    """402: not enough credits."""


class Forbidden(ServiceError):
    """403: the site is refused, or the account does not have what was asked for, such as threat protection."""


class NotFound(ServiceError):
    """404: the job, monitor or check is unknown, another account's, or expired; results are kept for 24 hours."""


class ScrapeTimedOut(ServiceError):
    """408: the page took longer than the request's `timeout`. A big PDF may be ready after `retry_after`."""


class Conflict(ServiceError):
    """409: a paused or running monitor, a crawl that is over, an idempotency key that was used."""


class Unprocessable(ServiceError):
    """422: the extraction's schema."""


class RateLimited(ServiceError):
    """429: a limit on rate, concurrency or the queue; nothing was done. Try again after `retry_after`.

    Where a handler lets it out, its work item runs again no sooner than that, unless the handler's `give_up_on` or
    `retry_on` makes it final.
    """


class ServerError(ServiceError):
    """5xx: the service failed, and may or may not have done what was asked."""


class UnknownDelivery(ReceiverError):
    """No delivery, or more than one, has a key that begins as asked."""


class UnknownWork(ReceiverError):
    """There is no work item with this id."""


class UnknownRequest(ReceiverError):
    """There is no request with this number in quarantine."""


class UnknownJob(ReceiverError):
    """No job, or more than one, has an id that begins as asked."""


class NotComparable(ReceiverError):
    """A job whose deliveries cannot be compared with what the service has of it. The text says why."""


class NotOver(NotComparable):
    """A job that still runs, so that what is missing may only be on its way."""

    def __init__(self, status: object) -> None:
        super().__init__(f"it is not over yet (its status is {status}): ask again when it is")


class Retry(Exception):
    """Raised by a handler: run this work item again, after this long if given.

    It counts as a failed attempt. When the attempts are used up the work item is dead all the same.
    """

    def __init__(self, reason: str = "the handler asked for a retry", *, after: timedelta | None = None) -> None:
        if after is not None and after < timedelta(0):
            raise ValueError("Retry(after=...) takes a duration that is not negative")
        super().__init__(reason)
        self.after = after


class GiveUp(Exception):
    """Raised by a handler: this work item is dead at once, for this reason."""

    def __init__(self, reason: str = "the handler gave up") -> None:
        super().__init__(reason)
        self.reason = reason


class NoApiKey(ConfigurationError, GiveUp):
    """A handler asked for a client of the service, and no API key is set.

    It is a GiveUp, since no later attempt of this worker would fare better.
    """
