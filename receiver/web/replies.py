"""The HTTP answers of this server."""

import json
from typing import NamedTuple

from starlette.types import Message, Send

from receiver.core.deliveries import Receipt
from receiver.core.types import AppendOutcome
from receiver.errors import RejectedRequest


class Reply(NamedTuple):
    """An answer, whichever server sends it."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes

    def messages(self) -> tuple[Message, Message]:
        """Return the answer as ASGI messages."""
        return (
            {"type": "http.response.start", "status": self.status, "headers": list(self.headers)},
            {"type": "http.response.body", "body": self.body},
        )


async def send_reply(reply: Reply, send: Send) -> None:
    """Send an answer through ASGI."""
    for message in reply.messages():
        await send(message)


RETRY_AFTER_SECONDS = 10


def reply(status: int, content: dict[str, str], *headers: tuple[bytes, bytes]) -> Reply:
    """Return an answer with a JSON object as its body."""
    return _reply(status, json.dumps(content, separators=(",", ":")).encode(), *headers)


def _reply(
    status: int, body: bytes, *headers: tuple[bytes, bytes], content_type: bytes = b"application/json"
) -> Reply:
    return Reply(status, ((b"content-type", content_type), (b"content-length", b"%d" % len(body)), *headers), body)


def acknowledged(receipt: Receipt) -> Reply:
    """Return a 200: the delivery is durable. A conflict gets it too, because the sender cannot resolve it."""
    status = b"accepted" if receipt.outcome is AppendOutcome.ACCEPTED else b"duplicate"
    # The characters of a key need no JSON escapes: see envelope.py.
    return _reply(200, b'{"status":"%b","id":"%b"}' % (status, receipt.key.encode()))


def refused(error: RejectedRequest) -> Reply:
    """Return a 4xx: to send the same request again cannot help."""
    return reply(error.status, {"error": error.code, "detail": str(error)})


def unavailable(detail: str, *headers: tuple[bytes, bytes]) -> Reply:
    """Return a 503: the receiver has a fault, and the sender may try again."""
    retry_after = (b"retry-after", b"%d" % RETRY_AFTER_SECONDS)
    return reply(503, {"error": "unavailable", "detail": detail}, retry_after, *headers)


def unauthenticated(detail: str) -> Reply:
    """Return a 401: the request needs a bearer token (RFC 6750)."""
    return reply(401, {"error": "unauthenticated", "detail": detail}, (b"www-authenticate", b"Bearer"))


def exposition(body: bytes) -> Reply:
    """Return a 200 with metrics in Prometheus' text format."""
    return _reply(200, body, content_type=b"text/plain; version=0.0.4; charset=utf-8")


def not_found(detail: str = "deliveries are accepted only at the configured path") -> Reply:
    """Return a 404: the server has no endpoint at this path."""
    return reply(404, {"error": "not_found", "detail": detail})


def method_not_allowed(allowed: str) -> Reply:
    """Return a 405: the path exists, but not with this method."""
    detail = f"use {allowed} here"
    return reply(405, {"error": "method_not_allowed", "detail": detail}, (b"allow", allowed.encode()))
