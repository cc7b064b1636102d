"""Receive webhooks of a crawl service, keep every delivery, and run handlers on typed events."""

import importlib
from typing import TYPE_CHECKING, Any

from receiver.app import Receiver
from receiver.context import BatchContext, Context, DeliveryInfo, Once
from receiver.errors import (
    BadRequest,
    ConfigurationError,
    Conflict,
    Forbidden,
    GiveUp,
    HandlerError,
    KeyRefused,
    Malformed,
    NoApiKey,
    NotFound,
    NotSuccessful,
    PaymentRequired,
    RateLimited,
    ReceiverError,
    Retry,
    ScrapeTimedOut,
    ServerError,
    ServiceError,
    ServiceUnreachable,
    StoreError,
    UnexpectedAnswer,
    Unprocessable,
)
from receiver.events import Event, parse_event
from receiver.routing import HandlerOptions, Router
from receiver.settings import Settings, load_settings
from receiver.signing import sign, verify

if TYPE_CHECKING:
    from receiver.client import AsyncClient, Client

__all__ = [
    "AsyncClient",
    "BadRequest",
    "BatchContext",
    "Client",
    "ConfigurationError",
    "Conflict",
    "Context",
    "DeliveryInfo",
    "Event",
    "Forbidden",
    "GiveUp",
    "HandlerError",
    "HandlerOptions",
    "KeyRefused",
    "Malformed",
    "NoApiKey",
    "NotFound",
    "NotSuccessful",
    "Once",
    "PaymentRequired",
    "RateLimited",
    "Receiver",
    "ReceiverError",
    "Retry",
    "Router",
    "ScrapeTimedOut",
    "ServerError",
    "ServiceError",
    "ServiceUnreachable",
    "Settings",
    "StoreError",
    "UnexpectedAnswer",
    "Unprocessable",
    "load_settings",
    "parse_event",
    "sign",
    "verify",
]


def __getattr__(name: str) -> Any:
    """Load the clients when they are asked for: they bring httpx and every request, which takes 0.3 s."""
    if name in ("AsyncClient", "Client"):
        return getattr(importlib.import_module("receiver.client"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
