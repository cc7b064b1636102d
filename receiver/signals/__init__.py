"""What programs watch: signals of the receiver and the worker.

Metrics are made from the same signals, in `receiver.signals.metrics`.
"""

from receiver.signals.contracts import (
    AttemptFailed,
    AttemptStarted,
    AttemptSucceeded,
    DeliveryAccepted,
    DeliveryDuplicated,
    DeliveryRefused,
    JobAsked,
    Signal,
    WorkDead,
    WorkDone,
    attempt_failed,
    attempt_started,
    attempt_succeeded,
    delivery_accepted,
    delivery_duplicated,
    delivery_refused,
    flush,
    job_asked,
    work_dead,
    work_done,
)

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
