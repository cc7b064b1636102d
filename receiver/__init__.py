"""Receive webhooks of a crawl service, keep every delivery, and run handlers on typed events."""

from receiver.app import Receiver
from receiver.context import BatchContext, Context, DeliveryInfo, Once
from receiver.errors import (
    ConfigurationError,
    GiveUp,
    HandlerError,
    Malformed,
    NoApiKey,
    ReceiverError,
    Retry,
    StoreError,
)
from receiver.events import Event, parse_event
from receiver.routing import HandlerOptions, Router
from receiver.settings import Settings, load_settings
from receiver.signing import sign, verify

__all__ = [
    "BatchContext",
    "ConfigurationError",
    "Context",
    "DeliveryInfo",
    "Event",
    "GiveUp",
    "HandlerError",
    "HandlerOptions",
    "Malformed",
    "NoApiKey",
    "Once",
    "Receiver",
    "ReceiverError",
    "Retry",
    "Router",
    "Settings",
    "StoreError",
    "load_settings",
    "parse_event",
    "sign",
    "verify",
]
