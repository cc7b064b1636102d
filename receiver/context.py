"""What a handler is told beside its event."""

import logging
from collections.abc import MutableMapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from receiver.types import DeliveryKey, HandlerName, Headers, Trigger


@dataclass(frozen=True, slots=True)
class DeliveryInfo:
    """The delivery an event was read from. `headers` have their secrets masked."""

    key: DeliveryKey
    received_at: datetime
    headers: Headers
    duplicates: int
    size: int


class HandlerLog(logging.LoggerAdapter[logging.Logger]):
    """A logger whose lines name the handler and the delivery; fields of one's own come as `extra=`."""

    def process(self, msg: object, kwargs: MutableMapping[str, Any]) -> tuple[object, MutableMapping[str, Any]]:
        """Add our fields to the caller's; the base class would drop those, before Python 3.13."""
        kwargs["extra"] = {**(kwargs.get("extra") or {}), **(self.extra or {})}
        return msg, kwargs


@dataclass(frozen=True, slots=True)
class Context:
    """Second argument of a handler that takes one.

    `attempt` counts from 1; `now` is when this attempt began; `delivery.key` is the same in every attempt, so
    it serves as an idempotency key. `log` is a logger that names the handler and the delivery.
    """

    handler: HandlerName
    attempt: int
    trigger: Trigger
    delivery: DeliveryInfo
    now: datetime
    log: logging.LoggerAdapter[logging.Logger]
