"""From calls to httpx and back: address, key, requests, bodies, and httpx's errors as ours."""

import functools
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import httpx
from pydantic import SecretStr

from receiver.core.addresses import is_loopback, require_service_address
from receiver.core.clock import Clock
from receiver.errors import ConfigurationError, ServiceError, ServiceUnreachable, UnexpectedAnswer
from receiver.service.client.calls import ServiceCall, ServiceResponse

CONNECTED_WITHIN = timedelta(seconds=10)
GET_WITHIN = timedelta(minutes=1)
"""For the whole answer to a plain `get`, which may take any time."""
_CODINGS = ("gzip", "deflate")
"""The compressions that are asked for. They unpack a byte to about a thousand; others, and two at once, to more."""


class KeyForService(httpx.Auth):
    """Adds the key to requests that go to the service, and to no others.

    The service's answers contain absolute addresses, and a program may follow one to another host.
    """

    def __init__(self, service: httpx.URL, key: SecretStr) -> None:
        self._service = service
        self._key = key

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Add the header."""
        if _origin(request.url) == _origin(self._service):
            request.headers["Authorization"] = f"Bearer {self._key.get_secret_value()}"
        yield request


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def options(base_url: str, api_key: str, *, places: int) -> dict[str, Any]:
    """Return the arguments of an httpx client for the service.

    Raises ConfigurationError for an unusable address or key.
    """
    base, key = read_base_url(base_url), SecretStr(_checked(api_key))
    return {
        "base_url": base,
        "auth": KeyForService(base, key),
        "timeout": httpx.Timeout(GET_WITHIN.total_seconds(), connect=CONNECTED_WITHIN.total_seconds()),
        "limits": httpx.Limits(max_connections=places, max_keepalive_connections=places),
        "headers": {"User-Agent": "crawl-receiver", "Accept-Encoding": ", ".join(_CODINGS)},
        "trust_env": not is_loopback(base.host),  # a proxy would look for a local service on its own host
    }


def request(http: httpx.Client | httpx.AsyncClient, call: ServiceCall[Any]) -> httpx.Request:
    """Return the request of a call."""
    headers = {} if call.idempotency_key is None else {"x-idempotency-key": call.idempotency_key}
    patient = httpx.Timeout(call.answered_within.total_seconds(), connect=CONNECTED_WITHIN.total_seconds())
    return http.build_request(
        call.method,
        call.path,
        params=call.query or None,
        json=call.body,
        files=call.parts,
        headers=headers,
        timeout=patient,
    )


def refuse_other_codings(response: httpx.Response) -> None:
    """Raise httpx.DecodingError for an answer that is compressed otherwise than asked for, before it is read."""
    given = response.headers.get("content-encoding", "")
    codings = [one for part in given.split(",") if (one := part.strip().lower()) not in ("", "identity")]
    if len(codings) > 1 or not set(codings) <= set(_CODINGS):
        raise httpx.DecodingError("a compression that was not asked for", request=response.request)


class Body:
    """Collects the body of an answer, up to the call's limit of length."""

    def __init__(self, call: ServiceCall[Any]) -> None:
        self._call = call
        self._chunks: list[bytes] = []
        self._size = 0

    def add(self, chunk: bytes) -> None:
        """Add the next chunk. A ServiceError refuses one too many."""
        self._size += len(chunk)
        most = self._call.max_answer_bytes
        if self._size > most:
            raise UnexpectedAnswer(f"{self._call.method} {self._call.path}: longer than {most} bytes")
        self._chunks.append(chunk)

    def answer(self, response: httpx.Response) -> ServiceResponse:
        """Return the whole answer."""
        headers = {name.lower(): value for name, value in response.headers.items()}
        return ServiceResponse(response.status_code, headers, b"".join(self._chunks))


FAULTS = (httpx.TransportError, httpx.DecodingError, TimeoutError)
"""The exceptions of httpx during a call, and that of the call's own time limit."""


def as_service_error(error: Exception, call: ServiceCall[Any], service: httpx.URL) -> ServiceError:
    """Return a ServiceError for an exception of httpx, without its text, which can quote the request."""
    name = f"{call.method} {call.path}"
    match error:
        case ServiceError():
            return error
        case httpx.ConnectError() | httpx.ConnectTimeout() | httpx.ProxyError() | httpx.UnsupportedProtocol():
            return ServiceUnreachable(f"{name}: {service.host} cannot be reached", sent=False)
        case httpx.TimeoutException() | TimeoutError():
            seconds = call.answered_within.total_seconds()
            return ServiceUnreachable(f"{name}: no whole answer within {seconds:g} s")
        case httpx.DecodingError():
            return UnexpectedAnswer(f"{name}: its compression is broken, or was not asked for")
    return ServiceUnreachable(f"{name}: the connection ended before the answer")


def no_whole_answer(path: str) -> httpx.ReadTimeout:
    """Return the error of a plain `get` whose time is over."""
    return httpx.ReadTimeout(f"GET {path}: no whole answer within {GET_WITHIN.total_seconds():g} s")


def read_base_url(base_url: str) -> httpx.URL:
    """Return the address of the service, or raise ConfigurationError if a client would not take it."""
    try:
        return httpx.URL(require_service_address(base_url))
    except ValueError as exc:
        raise ConfigurationError(f"RECEIVER_BASE_URL: {exc}") from None
    except httpx.InvalidURL:  # its text can quote a password
        raise ConfigurationError("RECEIVER_BASE_URL: the address is not a valid URL") from None


def _checked(api_key: str) -> str:
    if not api_key.isascii() or not api_key.isprintable() or " " in api_key or not api_key:
        raise ConfigurationError("RECEIVER_API_KEY has characters that no header may have")
    return api_key


_CONNECTED = (".connect_tcp.complete", ".start_tls.complete")
_SLICE = 16 * 1024
"""The bytes of one write. The system takes this many at once, so a slow reader cannot stretch a write."""


class CallDeadlines:
    """Ends every read and write of a thread when the time of its call is over.

    httpx limits each single read. A server that sends one byte now and then, in its headers, in 1xx answers or
    between chunks, would hold a call for ever. httpx has no limit for a whole request (its manual, Timeouts).
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._call = threading.local()

    @contextmanager
    def within(self, duration: timedelta) -> Iterator[None]:
        """Limit what this thread reads and writes in the block: after the duration it raises TimeoutError.

        A clock that is set meanwhile does not matter.
        """
        self._call.until = self._clock.steady() + duration
        try:
            yield
        finally:
            self._call.until = None

    def watch(self, request: httpx.Request) -> None:
        """Limit the connection of a request; an event hook of httpx."""
        request.extensions["trace"] = self._trace

    def _trace(self, event: str, info: dict[str, Any]) -> None:
        """Limit a new connection, which later requests share (httpcore's documentation, Extensions, "trace")."""
        if event.endswith(_CONNECTED):
            stream = info["return_value"]
            stream.read = functools.partial(self._read, stream.read)
            stream.write = functools.partial(self._write, stream.write)

    def _read(self, read: Callable[..., bytes], max_bytes: int, timeout: float | None = None) -> bytes:
        return read(max_bytes, timeout=self._left(timeout))

    def _write(self, write: Callable[..., None], buffer: bytes, timeout: float | None = None) -> None:
        for start in range(0, len(buffer), _SLICE):
            write(buffer[start : start + _SLICE], timeout=self._left(timeout))

    def _left(self, timeout: float | None) -> float | None:
        """Return the seconds that are left, at most the time-out of a single read or write."""
        until = getattr(self._call, "until", None)
        if until is None:
            return timeout
        left: float = (until - self._clock.steady()).total_seconds()
        if left <= 0:
            raise TimeoutError
        return left if timeout is None else min(left, timeout)
