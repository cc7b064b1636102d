"""Signals of the receiver and the worker, for programs to watch.

`receiver.signals.metrics` counts the same signals for Prometheus.
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
