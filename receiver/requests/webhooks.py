"""The webhook of a job: where the service sends its events, and the names of those events.

An event has two names: the type in its deliveries (`crawl.page`), and the value that a request filters by. For
crawls, batch scrapes, extractions and agents the service takes only the short name as a filter (`page`), for
monitors only the full one (`monitor.check.completed`). Requests here take both and send the right one.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, JsonValue, model_validator

from receiver.core.addresses import is_private
from receiver.requests.base import HttpHeaders, Many, Request, WebAddress
from receiver.requests.fields import WebhookFields

_SIGNATURE_HEADER = "x-firecrawl-signature"


class Operation(StrEnum):
    """An operation that can have a webhook. Its value is the family of its event types."""

    CRAWL = "crawl"
    BATCH_SCRAPE = "batch_scrape"
    EXTRACT = "extract"
    AGENT = "agent"
    MONITOR = "monitor"


_JOB_EVENTS = ("started", "page", "completed", "failed")
EVENT_KINDS: Mapping[Operation, tuple[str, ...]] = {
    Operation.CRAWL: _JOB_EVENTS,
    Operation.BATCH_SCRAPE: _JOB_EVENTS,
    Operation.EXTRACT: _JOB_EVENTS,
    Operation.AGENT: ("started", "action", "completed", "failed", "cancelled"),
    Operation.MONITOR: ("page", "check.completed"),
}
"""The short names of each operation's events."""


def to_event_type(name: str, operation: Operation) -> str:
    """Return the type that deliveries carry, such as `crawl.page`, for its short or full name.

    A ValueError names the events of the operation.
    """
    family = f"{operation}."
    kind = name.removeprefix(family)
    if kind not in EVENT_KINDS[operation]:
        raise ValueError(f"{operation} has no event {name!r}; it has {', '.join(EVENT_KINDS[operation])}")
    return family + kind


def to_filter_value(name: str, operation: Operation) -> str:
    """Return the value that the service takes in `webhook.events`, for an event's short or full name.

    A ValueError names the events of the operation.
    """
    event_type = to_event_type(name, operation)
    return event_type if operation is Operation.MONITOR else event_type.removeprefix(f"{operation}.")


class WebhookConfig(Request, WebhookFields):
    """An address for events, and what the service sends along. A text alone is read as the address."""

    url: WebAddress
    headers: HttpHeaders = Field(default_factory=dict, repr=False)
    # The interface specification says "object, custom data". The hosted service has been seen to answer 400 to
    # values that are no text; it says so itself, and a model that refuses them here would refuse them everywhere.
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    events: Many[str] = ()
    """Short or full names of events. A request refuses those that its operation does not have."""

    @model_validator(mode="before")
    @classmethod
    def _read_text(cls, value: Any) -> Any:
        return {"url": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _check(self) -> Self:
        parts = urlsplit(self.url)
        if parts.username is not None or parts.password is not None:
            raise ValueError("url: it must not contain a user and password; use a header of your own")
        # Only a self-hosted service reaches a private host, so plain http is allowed there.
        if parts.scheme != "https" and not is_private(parts.hostname or ""):
            raise ValueError("url: it has to begin with https://")
        if any(name.lower() == _SIGNATURE_HEADER for name in self.headers):
            raise ValueError("headers: X-Firecrawl-Signature is the service's own")
        return self

    def translated(self, operation: Operation) -> Self:
        """Return a copy with `events` as the service takes them for this operation; ValueError for others."""
        if not self.events:
            return self
        events = tuple(to_filter_value(name, operation) for name in self.events)
        return self.model_copy(update={"events": events})


def _translate(operation: Operation) -> AfterValidator:
    def translate(webhook: WebhookConfig) -> WebhookConfig:
        try:
            return webhook.translated(operation)
        except ValueError as exc:
            raise ValueError(f"events: {exc}") from None

    return AfterValidator(translate)


CrawlWebhook = Annotated[WebhookConfig, _translate(Operation.CRAWL)]
BatchScrapeWebhook = Annotated[WebhookConfig, _translate(Operation.BATCH_SCRAPE)]
ExtractWebhook = Annotated[WebhookConfig, _translate(Operation.EXTRACT)]
AgentWebhook = Annotated[WebhookConfig, _translate(Operation.AGENT)]
MonitorWebhook = Annotated[WebhookConfig, _translate(Operation.MONITOR)]
