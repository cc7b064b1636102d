"""Signed deliveries that all differ, cheap enough to make that the sender does not become the bottleneck.

Each is a `crawl.page` as the service sends it. What differs, the `webhookId`, stands at the end, so that the bulk
of the body is hashed once for all of them; the server sees a body that it has not seen before, with a signature
of its own.
"""

import hashlib
import hmac
import itertools
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

from receiver.service.samples import encode, load_sample

SECRET = "benchmark-secret"
SIGNATURE_HEADER = "X-Firecrawl-Signature"
_ODD = 0x9E3779B97F4B
"""Multiplying by an odd number modulo a power of two gives each number another one."""


@dataclass(frozen=True, slots=True)
class Signed:
    """What differs between two deliveries: the end of the body, and the signature."""

    signature: str
    tail: bytes


class Pages:
    """Deliveries of one size, without end. Two of these never make the same one."""

    def __init__(self, size: int) -> None:
        self._run = uuid.uuid4().hex[:20]
        self.head = _head(size, tail=len(self._tail(0)))
        self.size = len(self.head) + len(self._tail(0))
        self._state = hmac.new(SECRET.encode(), self.head, hashlib.sha256)

    def __iter__(self) -> Iterator[Signed]:
        for number in itertools.count():
            tail = self._tail(number)
            state = self._state.copy()
            state.update(tail)
            yield Signed(f"sha256={state.hexdigest()}", tail)

    def body(self) -> bytes:
        """Return one whole body."""
        return self.head + self._tail(0)

    def _tail(self, number: int) -> bytes:
        # Scattered as random ids are, since ids in ascending order would spare the store's index most of its work.
        digits = f"{number * _ODD % 2**48:012x}{self._run}"
        return b',"webhookId":"%s"}' % str(uuid.UUID(digits)).encode()


def request_head(size: int, signature: str, *, path: str = "/webhooks") -> bytes:
    """Return the head of a request like the service's own, for a body of this size."""
    return (
        f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: keep-alive\r\ncontent-type: application/json\r\n"
        f"{SIGNATURE_HEADER}: {signature}\r\naccept: */*\r\naccept-language: *\r\nsec-fetch-mode: cors\r\n"
        f"user-agent: undici\r\naccept-encoding: gzip, deflate\r\ncontent-length: {size}\r\n\r\n"
    ).encode()


def _head(size: int, *, tail: int) -> bytes:
    """Return the part of the body that all share, so long that with a tail it has the wanted size."""
    payload = load_sample("crawl.page")
    del payload["webhookId"]
    document = payload["data"][0]
    text = document["markdown"]
    document["markdown"] = ""
    # The sample's text is not ASCII; only text that is can be cut to the byte.
    missing = size - len(encode(payload)[:-1]) - tail
    plain = text.encode("ascii", "ignore").decode()
    document["markdown"] = _fitting(plain, missing)
    return encode(payload)[:-1]


def _fitting(text: str, length: int) -> str:
    """Return the text repeated, so long that as JSON it has about this length; never cut within an escape."""
    escaped = len(encode(text)) - 2
    repeated = text * (max(0, length) // escaped + 1)
    while (excess := len(encode(repeated)) - 2 - max(0, length)) > 0:
        repeated = repeated[: -max(1, excess // 2)]
    return repeated
