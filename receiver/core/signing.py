"""Signatures: those of deliveries, and those of the webhooks that we send ourselves.

Deliveries are signed by HMAC-SHA256 over the raw body, written `sha256=<64 lower-case hex digits>`.

The key is the secret's UTF-8 text, as the service's webhook documentation says. A comparison takes the same time
for every wrong value.
"""

import base64
import hmac
from collections.abc import Mapping, Sequence
from functools import lru_cache

from receiver.core.types import Headers

_PREFIX = "sha256="
_STANDARD_PREFIX = "whsec_"
_STANDARD_KEY_BYTES = (24, 64)
"""Standard Webhooks, "Signature scheme":
https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md"""


def sign(body: bytes, secret: str) -> str:
    """Return the value of the signature header for this exact body."""
    signing = _keyed(secret).copy()
    signing.update(body)
    return _PREFIX + signing.hexdigest()


@lru_cache(maxsize=128)
def _keyed(secret: str) -> hmac.HMAC:
    """Return an HMAC that has taken in the secret: from a copy of it, 1 KB is signed in 0.7 of the time."""
    return hmac.new(secret.encode(), digestmod="sha256")


def verify(body: bytes, signature: str, secrets: Sequence[str]) -> bool:
    """Tell whether any of the secrets gives this signature for this body.

    Every secret is tried, so the time does not tell which one matched. Any other form is refused, such as another
    algorithm or upper-case digits.
    """
    sent = signature.encode("utf-8", "replace")
    matched = False
    for secret in secrets:
        matched |= hmac.compare_digest(sign(body, secret).encode(), sent)
    return matched


def token_matches(token: str, tokens: Sequence[str]) -> bool:
    """Tell whether the value of the token header is one of the configured tokens, in constant time."""
    sent = token.encode("latin-1", "replace")
    matched = False
    for known in tokens:
        matched |= hmac.compare_digest(known.encode(), sent)
    return matched


def standard_key(secret: str) -> bytes:
    """Return the key of a secret of Standard Webhooks; ValueError if it is not one."""
    key = base64.b64decode(secret.removeprefix(_STANDARD_PREFIX), validate=True)
    if not _STANDARD_KEY_BYTES[0] <= len(key) <= _STANDARD_KEY_BYTES[1]:
        raise ValueError("the key has the wrong length")
    return key


def sign_standard(body: bytes, secret: str, *, message_id: str, timestamp: int) -> str:
    """Return `webhook-signature` for a webhook with this id and time in seconds."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(standard_key(secret), signed, "sha256")).decode()


# FOLDED: The trace of a delivery, kept with its headers: https://www.w3.org/TR/trace-context/ // The fields that we
# add have names with a colon in front, such as `:traceparent`. No header of a request can have such a name (RFC
# 9110, section 5.1), so nobody outside can send one, and what was sent stays as it was.
_MARK = ":"
_FIELDS = ("traceparent", "tracestate")


def with_trace(headers: Headers, fields: Mapping[str, str]) -> Headers:
    """Return the headers with the fields of a trace behind them."""
    return (*headers, *((_MARK + name, value) for name, value in fields.items()))


def trace_of(headers: Headers) -> Mapping[str, str]:
    """Return the fields that continue the trace of a delivery: those that were added, else those that were sent."""
    found = dict(headers)
    for mark in (_MARK, ""):
        if fields := {name: found[mark + name] for name in _FIELDS if mark + name in found}:
            return fields
    return {}


def as_sent(headers: Headers) -> Headers:
    """Return a tuple of the headers as the sender wrote them."""
    if headers and headers[-1][0].startswith(_MARK):
        return tuple([header for header in headers if not header[0].startswith(_MARK)])
    return tuple(headers)
