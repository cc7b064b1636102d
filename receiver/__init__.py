"""Receive webhooks of a crawl service, keep every delivery, and run handlers on typed events."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the table below, for type checkers; a test compares the two
    from receiver.app import Receiver as Receiver
    from receiver.console import Console as Console
    from receiver.core.signing import sign as sign
    from receiver.core.signing import verify as verify
    from receiver.errors import BadRequest as BadRequest
    from receiver.errors import ConfigurationError as ConfigurationError
    from receiver.errors import Conflict as Conflict
    from receiver.errors import Forbidden as Forbidden
    from receiver.errors import GiveUp as GiveUp
    from receiver.errors import HandlerError as HandlerError
    from receiver.errors import KeyRefused as KeyRefused
    from receiver.errors import Malformed as Malformed
    from receiver.errors import NoApiKey as NoApiKey
    from receiver.errors import NotFound as NotFound
    from receiver.errors import NotSuccessful as NotSuccessful
    from receiver.errors import PaymentRequired as PaymentRequired
    from receiver.errors import RateLimited as RateLimited
    from receiver.errors import ReceiverError as ReceiverError
    from receiver.errors import Retry as Retry
    from receiver.errors import ScrapeTimedOut as ScrapeTimedOut
    from receiver.errors import ServerError as ServerError
    from receiver.errors import ServiceError as ServiceError
    from receiver.errors import ServiceUnreachable as ServiceUnreachable
    from receiver.errors import StoreError as StoreError
    from receiver.errors import UnexpectedAnswer as UnexpectedAnswer
    from receiver.errors import Unprocessable as Unprocessable
    from receiver.events import Event as Event
    from receiver.events import parse_event as parse_event
    from receiver.routing import HandlerOptions as HandlerOptions
    from receiver.routing import Router as Router
    from receiver.routing import RunOptions as RunOptions
    from receiver.routing.context import BatchContext as BatchContext
    from receiver.routing.context import Context as Context
    from receiver.routing.context import DeliveryInfo as DeliveryInfo
    from receiver.routing.context import Once as Once
    from receiver.service.client import AsyncClient as AsyncClient
    from receiver.service.client import Client as Client
    from receiver.service.client import RetryPolicy as RetryPolicy
    from receiver.service.responses import ActiveCrawl as ActiveCrawl
    from receiver.service.responses import AgentStatus as AgentStatus
    from receiver.service.responses import EmailSettings as EmailSettings
    from receiver.service.responses import EmailSubscription as EmailSubscription
    from receiver.service.responses import ExtractStatus as ExtractStatus
    from receiver.service.responses import ImageHit as ImageHit
    from receiver.service.responses import JobError as JobError
    from receiver.service.responses import JobErrors as JobErrors
    from receiver.service.responses import JobStarted as JobStarted
    from receiver.service.responses import JobStatus as JobStatus
    from receiver.service.responses import MapLink as MapLink
    from receiver.service.responses import MapResponse as MapResponse
    from receiver.service.responses import Monitor as Monitor
    from receiver.service.responses import MonitorSchedule as MonitorSchedule
    from receiver.service.responses import MonitorTarget as MonitorTarget
    from receiver.service.responses import NewsHit as NewsHit
    from receiver.service.responses import NotificationSettings as NotificationSettings
    from receiver.service.responses import QueueStatus as QueueStatus
    from receiver.service.responses import ScrapeResponse as ScrapeResponse
    from receiver.service.responses import SearchHits as SearchHits
    from receiver.service.responses import SearchResponse as SearchResponse
    from receiver.service.responses import SlackSettings as SlackSettings
    from receiver.service.responses import TargetOptions as TargetOptions
    from receiver.service.responses import WebHit as WebHit
    from receiver.service.responses import WebhookSettings as WebhookSettings
    from receiver.settings import Settings as Settings
    from receiver.settings import load_settings as load_settings

    __version__: str

_NAMES = {
    "receiver.app": "Receiver",
    "receiver.console": "Console",
    "receiver.core.signing": "sign verify",
    "receiver.errors": (
        "BadRequest ConfigurationError Conflict Forbidden GiveUp HandlerError KeyRefused Malformed NoApiKey "
        "NotFound NotSuccessful PaymentRequired RateLimited ReceiverError Retry ScrapeTimedOut ServerError "
        "ServiceError ServiceUnreachable StoreError UnexpectedAnswer Unprocessable"
    ),
    "receiver.events": "Event parse_event",
    "receiver.routing": "HandlerOptions Router RunOptions",
    "receiver.routing.context": "BatchContext Context DeliveryInfo Once",
    "receiver.service.client": "AsyncClient Client RetryPolicy",
    "receiver.service.responses": (
        "ActiveCrawl AgentStatus EmailSettings EmailSubscription ExtractStatus ImageHit JobError JobErrors "
        "JobStarted JobStatus MapLink MapResponse Monitor MonitorSchedule MonitorTarget NewsHit "
        "NotificationSettings QueueStatus ScrapeResponse SearchHits SearchResponse SlackSettings TargetOptions "
        "WebHit WebhookSettings"
    ),
    "receiver.settings": "Settings load_settings",
}
"""The public names, by the module that they are loaded from."""

_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    """Load the module of one public name, and no other: all of them take half a second."""
    if name == "__version__":
        from importlib.metadata import version

        found: Any = version("crawl-receiver")
    elif name in _MODULES:
        found = getattr(importlib.import_module(_MODULES[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """Return the public names, also those that are not loaded yet."""
    return sorted({*globals(), *_MODULES, "__version__"})
