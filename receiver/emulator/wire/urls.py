"""The URLs in requests, of pages and of webhooks. The host has to be a public name or an address."""

import ipaddress
import re
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, TypeAdapter, ValidationError, ValidationInfo, model_validator

from receiver.emulator.contracts import WebhookTarget
from receiver.emulator.wire.bodies import DEFAULT_POLICY, RequestPolicy, custom_issue, refusal
from receiver.requests.base import WebAddress
from receiver.requests.webhooks import Operation, WebhookConfig, to_event_type

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):(?!\d)", re.IGNORECASE)
"""What is before a colon, unless a port follows."""
_NAME = re.compile(r"\.[^.\d][^.]*\.?$")
"""The end of a host name with a top-level domain, which is not a number."""
_NEVER_IN_HOSTS = re.compile(r"[\x00-\x20\x7f#/:<>?@\[\\\]^|%]")
"""The forbidden domain code points of the URL standard, section 3.2."""


def _with_scheme(value: object) -> object:
    if not isinstance(value, str):
        return value
    text = value.strip().replace(" ", "%20")
    scheme = _SCHEME.match(text)
    if scheme is None:
        return f"http://{text}"
    if scheme[1].lower() not in ("http", "https"):
        raise ValueError("URL uses unsupported protocol: only http and https are fetched")
    return scheme[1].lower() + text[len(scheme[1]) :]


def _require_host(value: str, info: ValidationInfo) -> str:
    policy = info.context if isinstance(info.context, RequestPolicy) else DEFAULT_POLICY
    host = (urlsplit(value).hostname or "").lower()
    known = policy.plain_hosts is None or host in policy.plain_hosts
    is_name = known or host.endswith(".localhost") or _NAME.search(host)
    if not (is_name and not _NEVER_IN_HOSTS.search(host)) and not _is_address(host):
        raise ValueError("Invalid URL: the host needs a top-level domain, or has to be an address")
    return value


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


WebUrl = Annotated[WebAddress, BeforeValidator(_with_scheme), AfterValidator(_require_host)]
"""The URL of a page as it was written; without a scheme it gets `http://`."""

_URL: TypeAdapter[str] = TypeAdapter(WebUrl)


def split_urls(texts: list[str], policy: RequestPolicy) -> tuple[list[str], dict[int, str]]:
    """Return the valid URLs in order, and the reason for each other one by its place."""
    valid: list[str] = []
    reasons: dict[int, str] = {}
    for place, text in enumerate(texts):
        try:
            valid.append(_URL.validate_python(text, context=policy))
        except ValidationError as exc:
            reasons[place] = str(exc.errors(include_url=False)[0]["msg"]).removeprefix("Value error, ")
    return valid, reasons


_SIGNATURE_HEADER = "x-firecrawl-signature"


class WebhookBody(WebhookConfig):
    """A webhook, or its URL alone. Unlike in a request that is sent, plain http is allowed everywhere."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        parts = urlsplit(self.url)
        if parts.username is not None or parts.password is not None:
            raise ValueError("url: it must not contain a user and password; use a header of your own")
        if any(name.lower() == _SIGNATURE_HEADER for name in self.headers):
            raise ValueError("headers: X-Firecrawl-Signature is the service's own")
        return self


def target_of(webhook: WebhookConfig | None, operation: Operation) -> WebhookTarget | None:
    """Return the target of events, which may have their short or their full names.

    Raises CallRefused with status 400 for an event that the operation does not have.
    """
    if webhook is None:
        return None
    for number, name in enumerate(webhook.events):
        try:
            to_event_type(name, operation)
        except ValueError as exc:
            raise refusal([custom_issue(str(exc), "webhook", "events", number)]) from None
    return WebhookTarget(webhook.url, dict(webhook.headers), dict(webhook.metadata), tuple(webhook.events))
