"""What programs may watch: nine blinker signals, each with the one record that it passes.

Signals observe and never steer: a subscriber that raises, blocks or is too slow disturbs nothing and nobody.

    from receiver import signals

    @signals.work_dead.connect
    def alarm(dead: signals.WorkDead) -> None: ...

The web process emits the three of deliveries, and it imports no handlers: they are for programs that mount
`Receiver` themselves. The worker emits the five of attempts and work items, and the one of backfill, to whatever
the handlers' modules connect. No record holds a body, a header or a secret; `error` is what a handler's exception
says of itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from receiver.core.types import AttemptOutcome, DeliveryKey, HandlerName, Trigger
from receiver.signals.subscribers import Signal, flush

__all__ = [
    "AttemptFailed",
    "AttemptStarted",
    "AttemptSucceeded",
    "DeliveryAccepted",
    "DeliveryDuplicated",
    "DeliveryRefused",
    "JobAsked",
    "Signal",
    "WorkDead",
    "WorkDone",
    "attempt_failed",
    "attempt_started",
    "attempt_succeeded",
    "delivery_accepted",
    "delivery_duplicated",
    "delivery_refused",
    "flush",
    "job_asked",
    "work_dead",
    "work_done",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class _DeliverySignal:
    """A delivery that is durable. Its sender is told 200, unless the ack deadline has passed meanwhile."""

    key: DeliveryKey
    type: str
    """As sent, in at most 200 printable characters; it need not be one that our models know."""
    job_id: str | None
    size: int
    """Bytes of the body."""
    received_at: datetime
    """When the body had arrived, in UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryAccepted(_DeliverySignal):
    """A delivery that is new."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryDuplicated(_DeliverySignal):
    """A delivery whose key was stored before; it is counted on the first one."""

    conflict: bool
    """Whether its body is another than the first one's, and is kept in quarantine: an alarm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryRefused:
    """A request that was not acknowledged."""

    at: datetime
    """In UTC."""
    status: int
    """Of the answer: 4xx when sending it again cannot help, 503 when it can."""
    reason: str
    """With 4xx `unauthenticated`, `malformed`, `timeout` or `too_large`; with 503 `connections`, `overloaded`,
    `store_error`, `deadline` or `fault`."""
    detail: str
    """The same in a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """A work item and one of its attempts."""

    work_id: int
    handler: HandlerName
    key: DeliveryKey
    """Of the delivery, as are the next two."""
    type: str
    job_id: str | None
    attempt: int
    """Its number, from 1."""
    trigger: Trigger
    at: datetime
    """When it happened, in UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStarted(_Work):
    """An attempt is about to call the handler."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptSucceeded(_Work):
    """The handler returned, and the store has recorded it."""

    took: timedelta
    overdue: bool
    """Whether a plain function ran for longer than its time-out, which cannot stop it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFailed(_Work):
    """The handler raised, was too slow or gave up, and the store has recorded it.

    With the outcome LOST it is the other way round: however the handler ended, its lease had ended before that
    could be recorded, and the work item belongs to somebody else.
    """

    outcome: AttemptOutcome
    """FAILED, TIMED_OUT or LOST."""
    error: str
    """Class and message of the exception in one line of at most 500 characters."""
    retry_at: datetime | None
    """When it runs again, in UTC; None if that is not for this attempt to say."""
    took: timedelta
    overdue: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkDone(_Work):
    """A work item that has succeeded with this attempt. Follows AttemptSucceeded."""

    received_at: datetime
    """When its delivery arrived, in UTC; `at - received_at` is the whole way through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkDead(_Work):
    """A work item that is not tried again by itself. Follows AttemptFailed."""

    received_at: datetime
    error: str
    """Of the last attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAsked:
    """The service was asked what a job produced, and what of it was missing is durable."""

    job_id: str
    reason: str
    """`ended`, or `silent` of one of which nothing comes any more."""
    outcome: str
    """`brought_in`, `nothing_missing`, `not_over`, `impossible` of one that has expired, say, or `failed`. After
    `not_over` and `failed` it is asked about again."""
    brought_in: Mapping[str, int]
    """How many deliveries are new, by type; with `failed` what was brought in before the fault."""
    at: datetime
    """In UTC."""


delivery_accepted = Signal[DeliveryAccepted]("A new delivery is durable. Web process; passes a DeliveryAccepted.")
delivery_duplicated = Signal[DeliveryDuplicated]("A delivery came again. Web process; passes a DeliveryDuplicated.")
delivery_refused = Signal[DeliveryRefused](
    "A request was answered with 4xx or 503. Web process; passes a DeliveryRefused."
)
attempt_started = Signal[AttemptStarted](
    "A handler is about to be called. An attempt that the end of its worker cuts short has no other signal."
    " Worker; passes an AttemptStarted."
)
attempt_succeeded = Signal[AttemptSucceeded](
    "A handler returned, and that is recorded. Worker; passes an AttemptSucceeded."
)
attempt_failed = Signal[AttemptFailed](
    "An attempt failed, or could not be recorded. Worker; passes an AttemptFailed. Without an AttemptStarted"
    " before it when the attempt was not made, because too many workers had died of the ones before."
)
work_done = Signal[WorkDone]("A work item is done. Worker; passes a WorkDone.")
work_dead = Signal[WorkDead]("A work item is dead. Worker; passes a WorkDead.")
job_asked = Signal[JobAsked](
    "The service was asked about a job, where RECEIVER_BACKFILL is on. What the end of the worker cuts short has no"
    " signal, and nor has `receiver backfill`. Worker; passes a JobAsked."
)
