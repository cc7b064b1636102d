"""Make the delivery that is kept from the headers and body of an authenticated request."""

import hashlib
import re
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any

from receiver.core.deliveries import Delivery
from receiver.core.envelope_fields import NotAnObject, read_fields
from receiver.core.lenient_json import NotJson, TooDeep
from receiver.core.run_names import RUN_KEY_PREFIX
from receiver.core.text import escape_controls
from receiver.core.types import DeliveryKey, Headers
from receiver.errors import Malformed

MASK = "***"
_SECRET_HEADERS = frozenset(
    {
        b"authorization",
        b"proxy-authorization",
        b"cookie",
        b"x-api-key",
        b"x-auth-token",
        b"x-firecrawl-signature",
    }
)
PLAIN_ID = re.compile(r"[0-9A-Za-z._:-]{1,200}")
"""Ids that can be keys unchanged: keys appear in URLs, JSON, shells and log lines."""
OWN_PREFIXES = ("sha256:", RUN_KEY_PREFIX)
"""Keys that begin so are made here. A sender that chose one could suppress another delivery or a scheduled run."""
MAX_TEXT_LENGTH = 200


def read_envelope(headers: Headers, body: bytes, *, received_at: datetime) -> Delivery:
    """Return the delivery of this request, or raise Malformed if the body is not an envelope of the service.

    An envelope is a JSON object with a `type`; everything else may be missing. The key is `webhookId` if that is
    a plain id that begins with none of `OWN_PREFIXES`, and otherwise the SHA-256 of the body.
    """
    try:
        fields = read_fields(body)
    except NotAnObject:
        raise Malformed("the body is not a JSON object") from None
    except TooDeep:
        raise Malformed("the body is nested too deeply to be read") from None
    except NotJson:
        raise Malformed("the body is not JSON") from None
    kind = fields.type
    if not isinstance(kind, str) or not kind:
        raise Malformed("the body has no `type`")
    success = fields.success if isinstance(fields.success, bool) else None
    job_id = _text(fields.id) or _text(fields.jobId)
    webhook_id = _text(fields.webhookId)
    # By position: by name takes twice as long.
    return Delivery(
        _key(fields.webhookId, body), readable(kind), job_id, webhook_id, success, received_at, headers, body
    )


def mask_headers(
    headers: Iterable[tuple[bytes, bytes]],
    also: frozenset[bytes] = frozenset(),
    values: Collection[bytes] = (),
) -> Headers:
    """Return the headers with a mask in place of credentials, which are known by their names or by their values."""
    return tuple([masked_header(name, value, also, values) for name, value in headers])


def masked_header(
    name: bytes, value: bytes, also: frozenset[bytes] = frozenset(), values: Collection[bytes] = ()
) -> tuple[str, str]:
    """Return one header as text (RFC 9110, section 5.5), masked as `mask_headers` does it."""
    is_secret = name in _SECRET_HEADERS or name in also or any(secret in value for secret in values)
    return name.decode("latin-1"), MASK if is_secret else value.decode("latin-1")


def _key(webhook_id: Any, body: bytes) -> DeliveryKey:
    if isinstance(webhook_id, str) and PLAIN_ID.fullmatch(webhook_id) and not webhook_id.startswith(OWN_PREFIXES):
        return DeliveryKey(webhook_id)
    return DeliveryKey("sha256:" + hashlib.sha256(body).hexdigest())


def _text(value: Any) -> str | None:
    """Return an id as text. A number is read as an id too."""
    if isinstance(value, str) and value:
        return readable(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63:
        return str(value)
    return None


def readable(text: str) -> str:
    """Return text that every store and terminal takes: short, without control characters and lone surrogates."""
    if len(text) <= MAX_TEXT_LENGTH and text.isprintable():
        return text
    return escape_controls(text[:MAX_TEXT_LENGTH])[:MAX_TEXT_LENGTH]
