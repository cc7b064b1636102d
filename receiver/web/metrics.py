"""The `/metrics` endpoint and its access rules."""

import hmac
from collections.abc import Awaitable, Callable, Mapping

from starlette.types import Receive, Scope, Send

from receiver.core.addresses import is_loopback
from receiver.runtime.log_lines import event_log
from receiver.web.replies import Reply, exposition, method_not_allowed, send_reply, unauthenticated, unavailable

log = event_log(__name__)

PATH = "/metrics"
_FORWARDED = frozenset(
    {
        b"forwarded",  # RFC 7239
        b"via",  # RFC 9110, section 7.6.3
        b"x-forwarded-for",
        b"x-forwarded-host",
        b"x-forwarded-proto",
        b"x-forwarded-server",
        b"x-real-ip",
    }
)


class MetricsEndpoint:
    """An ASGI app that answers requests with the token or, if none is set, requests from this machine.

    A proxy on this machine makes remote clients look local. So the endpoint refuses a request with a sign of a
    proxy: a header that proxies add, the Host of another machine, or HTTP/1.0. A proxy can be configured to hide
    these signs, so a deployment behind a proxy must set a token.
    """

    def __init__(self, read: Callable[[], Awaitable[bytes]], *, token: str | None) -> None:
        self._read = read
        self._token = None if token is None else token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await send_reply(await self._answer(scope), send)

    async def _answer(self, scope: Scope) -> Reply:
        if scope["method"] not in ("GET", "HEAD"):
            return method_not_allowed("GET")
        headers = dict(scope["headers"])
        if self._token is None and not _is_local(scope, headers):
            return unauthenticated(
                "only this machine may read the metrics; set RECEIVER_METRICS_TOKEN to allow others"
            )
        if self._token is not None and not _carries(self._token, headers):
            return unauthenticated("send the token as `Authorization: Bearer ...`")
        try:
            return exposition(await self._read())
        except Exception:
            log.exception("metrics_failed")
            return unavailable("the metrics could not be read; the log shows why")


def _carries(token: bytes, headers: Mapping[bytes, bytes]) -> bool:
    scheme, _, sent = headers.get(b"authorization", b"").partition(b" ")
    return scheme.lower() == b"bearer" and hmac.compare_digest(sent.strip(), token)


def _is_local(scope: Scope, headers: Mapping[bytes, bytes]) -> bool:
    client = scope.get("client")
    return (
        client is not None
        and is_loopback(client[0])
        # nginx before 1.29.7 sends HTTP/1.0 to its upstream by default (proxy_http_version).
        and scope["http_version"] != "1.0"
        and not _FORWARDED & headers.keys()
        and is_loopback(_host(headers.get(b"host", b"").decode("latin-1")))
    )


def _host(header: str) -> str:
    """Return a Host header without its port."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0]
