"""The webhook of a job or a monitor, as the service takes it."""

from typing import Self
from urllib.parse import urlsplit

from pydantic import model_validator

from receiver.emulator.contracts import WebhookTarget
from receiver.emulator.wire.issues import custom_issue, refusal
from receiver.requests.webhooks import Operation, WebhookConfig, to_event_type

_SIGNATURE_HEADER = "x-firecrawl-signature"


class WebhookBody(WebhookConfig):
    """A webhook, or its URL alone. Unlike a request that is sent, it may be plain http anywhere."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        parts = urlsplit(self.url)
        if parts.username is not None or parts.password is not None:
            raise ValueError("url: it must not contain a user and password; use a header of your own")
        if any(name.lower() == _SIGNATURE_HEADER for name in self.headers):
            raise ValueError("headers: X-Firecrawl-Signature is the service's own")
        return self


def target_of(webhook: WebhookConfig | None, operation: Operation) -> WebhookTarget | None:
    """Return where events go. CallRefused with status 400 names an event that the operation does not have.

    Events may have their short or their full names.
    """
    if webhook is None:
        return None
    for number, name in enumerate(webhook.events):
        try:
            to_event_type(name, operation)
        except ValueError as exc:
            raise refusal([custom_issue(str(exc), "webhook", "events", number)]) from None
    return WebhookTarget(webhook.url, dict(webhook.headers), dict(webhook.metadata), tuple(webhook.events))
