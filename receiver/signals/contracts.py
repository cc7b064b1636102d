"""The nine blinker signals that programs may watch, and the record that each one passes.

Signals observe and never steer: a subscriber that raises, blocks or is too slow changes nothing for anybody else.

    from receiver import signals

    @signals.work_dead.connect
    def alarm(dead: signals.WorkDead) -> None: ...

The web process emits the three signals of deliveries. It imports no handlers, so these signals are for programs
that mount `Receiver` themselves. The worker emits the five signals of attempts and work items and the one of
backfill, to the subscribers that the handlers' modules connect. No record holds a body, a header or a secret;
`error` is the text of a handler's exception and `exception` the exception itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from functools import partial

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
    """A delivery that is durable. Its sender gets 200, unless the ack deadline has passed meanwhile."""

    id: DeliveryKey
    """Public id of the delivery."""
    type: str
    """The event's type as sent, cut to 200 printable characters. Our models may not know it."""
    job_id: str | None
    """The crawl, batch, extract or agent job, or the monitor's check; None when the body names none."""
    size: int
    """Length of the body in bytes."""
    received_at: datetime
    """When the whole body had arrived, in UTC."""

    @property
    def key(self) -> DeliveryKey:
        """The older name of `id`."""
        return self.id


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryAccepted(_DeliverySignal):
    """A delivery that is new."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryDuplicated(_DeliverySignal):
    """A delivery whose id is stored already. It is counted as a duplicate of the first one."""

    conflict: bool
    """Whether its body differs from the first one's: an alarm. The body is then in quarantine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryRefused:
    """A request that was not acknowledged."""

    at: datetime
    """When it was refused, in UTC."""
    status: int
    """Status of the answer: 4xx when sending it again cannot help, 503 when it can."""
    reason: str
    """With 4xx `unauthenticated`, `malformed`, `timeout` or `too_large`; with 503 `connections`, `overloaded`,
    `store_error`, `deadline` or `fault`."""
    detail: str
    """The reason as a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """A work item and one of its attempts."""

    work_id: int
    """Number of the work item."""
    handler: HandlerName
    """Name of the handler."""
    id: DeliveryKey
    """Public id of the delivery."""
    type: str
    """Type of the event, such as `crawl.page`."""
    job_id: str | None
    """The crawl, batch, extract or agent job, or the monitor's check; None when the event names none."""
    attempt: int
    """Number of the attempt, from 1."""
    trigger: Trigger
    """Why the attempt ran."""
    at: datetime
    """When it happened, in UTC."""

    @property
    def key(self) -> DeliveryKey:
        """The older name of `id`."""
        return self.id


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStarted(_Work):
    """An attempt is about to call the handler."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptSucceeded(_Work):
    """The handler returned, and the store has recorded it."""

    took: timedelta
    """How long the handler ran."""
    overdue: bool
    """Whether the handler, a plain function, ran for longer than its time-out, which cannot stop it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failure(_Work):
    """A failed attempt, with the exception."""

    error: str
    """Class and message of the exception in one line of at most 500 characters."""
    exception: BaseException | None = field(default=None, repr=False, compare=False)
    """What the handler raised, with its traceback, for tools such as Sentry. The frames keep the event in memory
    as long as the exception is kept. Another exception, with `error` as its text and the traceback as a note,
    stands for it if the handler ran in a process of its own, if its event is large, or if 100 records wait for a
    subscriber. None if nothing was raised, and in a copy made by pickle."""

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the record without its exception, which may be anything."""
        kept = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "exception"}
        return partial(type(self), **kept), ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFailed(_Failure):
    """The handler raised, was too slow or gave up, and the store has recorded it.

    The outcome LOST means that the store has not recorded it: the lease had ended before, and another worker may
    have the work item by now.
    """

    outcome: AttemptOutcome
    """How it failed: FAILED, TIMED_OUT or LOST."""
    retry_at: datetime | None
    """When the work item runs again, in UTC; None if it does not, and with the outcome LOST."""
    took: timedelta
    """How long the handler ran; 0 if it was not called."""
    overdue: bool
    """As in `AttemptSucceeded`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkDone(_Work):
    """A work item is done with this attempt. Follows AttemptSucceeded."""

    received_at: datetime
    """When its delivery arrived, in UTC; `at - received_at` is the whole time from arrival to success."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkDead(_Failure):
    """A work item is dead: it is not tried again by itself. Follows AttemptFailed, with the same exception."""

    received_at: datetime
    """When its delivery arrived, in UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAsked:
    """A worker asked the service what a job produced, and stored the deliveries that were missing."""

    job_id: str
    """The crawl, batch, extract or agent job, or the monitor's check."""
    reason: str
    """Why the worker asked: the job has `ended`, or it is `silent`: nothing arrives any more."""
    outcome: str
    """`brought_in` (deliveries were missing), `nothing_missing`, `not_over`, `impossible` (the job has expired, for
    example) or `failed`. After `not_over` and `failed` the worker asks again later."""
    imported: Mapping[str, int]
    """How many missing deliveries were stored, by type. With `failed`, those stored before the fault."""
    at: datetime
    """When the worker had the result, in UTC."""

    @property
    def brought_in(self) -> Mapping[str, int]:
        """The older name of `imported`."""
        return self.imported


delivery_accepted = Signal[DeliveryAccepted]("A new delivery is durable. Web process; passes a DeliveryAccepted.")
delivery_duplicated = Signal[DeliveryDuplicated]("A delivery came again. Web process; passes a DeliveryDuplicated.")
delivery_refused = Signal[DeliveryRefused](
    "A request was answered with 4xx or 503. Web process; passes a DeliveryRefused."
)
attempt_started = Signal[AttemptStarted](
    "A handler is about to be called. If its worker ends during the attempt, no other signal follows."
    " Worker; passes an AttemptStarted."
)
attempt_succeeded = Signal[AttemptSucceeded](
    "A handler returned, and that is recorded. Worker; passes an AttemptSucceeded."
)
attempt_failed = Signal[AttemptFailed](
    "An attempt failed, or could not be recorded. Worker; passes an AttemptFailed. No AttemptStarted precedes it"
    " when the handler was not called because too many workers had died during earlier attempts."
)
work_done = Signal[WorkDone]("A work item is done. Worker; passes a WorkDone.")
work_dead = Signal[WorkDead]("A work item is dead. Worker; passes a WorkDead.")
job_asked = Signal[JobAsked](
    "A worker with RECEIVER_BACKFILL asked the service about a job. There is no signal if the worker ends before"
    " the answer, and none from the command `receiver backfill`. Worker; passes a JobAsked."
)
