"""Receive webhooks of a crawl service, keep every delivery, and run handlers on typed events."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from receiver.app import Receiver
    from receiver.core.signing import sign, verify
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
    from receiver.routing.context import BatchContext, Context, DeliveryInfo, Once
    from receiver.service.client import AsyncClient, Client
    from receiver.settings import Settings, load_settings

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

_HOMES = {
    "receiver.app": {"Receiver"},
    "receiver.service.client": {"AsyncClient", "Client"},
    "receiver.routing.context": {"BatchContext", "Context", "DeliveryInfo", "Once"},
    "receiver.events": {"Event", "parse_event"},
    "receiver.routing": {"HandlerOptions", "Router"},
    "receiver.settings": {"Settings", "load_settings"},
    "receiver.core.signing": {"sign", "verify"},
}
"""Where each name is from that is not one of `receiver.errors`."""


def __getattr__(name: str) -> Any:
    """Load what is asked for, and nothing else: all of it takes half a second, and the client another 0.3."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = next((home for home, names in _HOMES.items() if name in names), "receiver.errors")
    globals()[name] = found = getattr(importlib.import_module(home), name)
    return found


def __dir__() -> list[str]:
    """Return the public names, also those that are not loaded yet."""
    return sorted({*globals(), *__all__})
