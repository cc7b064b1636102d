"""The service's side of a delivery: sign the bytes, post them, and say what came back."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import TracebackType
from typing import Self

import httpx

from receiver.core.clock import Clock, SystemClock, time_limit
from receiver.core.envelope import NotJson, load_json
from receiver.core.signing import sign
from receiver.errors import ConfigurationError
from receiver.service.schedule import SERVICE
from receiver.signals.traces.switch import call_span

MAX_ANSWER_BYTES = 64 * 1024
_PIECES = 8
"""The most pieces of a slow upload."""
_LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
_OF_THE_CONNECTION = frozenset(
    {
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that the HTTP library has to write itself, or the endpoint could not read the request."""


@dataclass(frozen=True, slots=True)
class SendResult:
    """What became of one delivery. `answer` and `key` come from outside."""

    status: int | None
    """HTTP status of the answer; None when none came."""
    answer: str
    """The receiver's word (`accepted`, `duplicate`, `unauthenticated`), or what went wrong on the way."""
    key: str | None
    """The id that the receiver gave the delivery; None when it gave none."""
    seconds: float
    """Seconds from the first byte sent to the end of the answer."""
    meaning: str = ""
    """A sentence for people; empty when the delivery was accepted."""

    @property
    def ok(self) -> bool:
        """Whether the service would count this delivery as received: any 2xx."""
        return self.status is not None and 200 <= self.status < 300


class Sender:
    """Posts deliveries to one address as the service does: exact bytes, its headers, no redirects followed.

    With a secret it signs; `token` is the name and value of a header that it adds. At most `concurrency` deliveries
    are sent at one time. Every failure on the way is a SendResult. An unusable address or token is a
    ConfigurationError at once.
    """

    def __init__(
        self,
        url: str,
        *,
        secret: str | None = None,
        signature_header: str = "X-Firecrawl-Signature",
        token: tuple[str, str] | None = None,
        timeout: timedelta = SERVICE.timeout,
        concurrency: int = 16,
        clock: Clock | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._url = _checked_url(url)
        self.address = str(self._url.copy_with(userinfo=b"", query=None, fragment=None))
        self._secret = secret
        self._signature_header = signature_header
        self._token = None if token is None else _checked_token(*token)
        self._timeout = timeout
        self._concurrency = concurrency
        self._slots = asyncio.Semaphore(concurrency)
        self._clock = clock or SystemClock()
        self._transport = transport
        self._stack = AsyncExitStack()

    def __repr__(self) -> str:
        return f"Sender({self.address!r})"

    async def __aenter__(self) -> Self:
        self._client = await self._stack.enter_async_context(
            httpx.AsyncClient(
                headers={"User-Agent": "undici"},
                timeout=None,  # noqa: S113 - the window is one for the whole delivery, not one for each step
                limits=httpx.Limits(max_connections=self._concurrency),
                transport=self._transport,
                # A proxy would look for a local receiver on its own host.
                trust_env=self._url.host not in _LOCAL_HOSTS,
            )
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def send(
        self,
        body: bytes,
        *,
        signed: bytes | None = None,
        over: timedelta = timedelta(0),
        headers: Mapping[str, str] | None = None,
    ) -> SendResult:
        """Post one delivery and return the result.

        It carries the signature of `signed`, by default of the body itself. The body is sent in pieces over the
        time `over`. `headers` are those of the webhook's configuration: they may replace the content type, but
        neither the signature nor what belongs to the connection.
        """
        async with self._slots:
            return await self._post(body, self._headers(body if signed is None else signed, headers or {}), over)

    async def send_all(
        self,
        bodies: Iterable[bytes] | AsyncIterable[bytes],
        report: Callable[[bytes, SendResult], None],
        *,
        rate: float | None = None,
    ) -> None:
        """Post deliveries, and call `report` with each as soon as it is answered.

        They start in order, evenly spaced if a `rate` per second is given. With a concurrency of 1 each waits for
        the answer to the one before. An exception from `bodies` or `report` ends the sending and is raised here.
        """
        free = asyncio.Semaphore(self._concurrency)

        async def deliver(body: bytes) -> None:
            try:
                report(body, await self.send(body))
            finally:
                free.release()

        started = self._clock.now()
        try:
            async with asyncio.TaskGroup() as group:
                number = 0
                async for body in bodies if isinstance(bodies, AsyncIterable) else _each(bodies):
                    await self._wait_for_turn(started, number, rate)
                    await free.acquire()
                    group.create_task(deliver(body))
                    number += 1
        except BaseExceptionGroup as raised:
            raise raised.exceptions[0] from None

    async def _wait_for_turn(self, started: datetime, number: int, rate: float | None) -> None:
        if rate is None:
            return
        early = started + timedelta(seconds=number / rate) - self._clock.now()
        if early > timedelta(0):
            await self._clock.sleep(early)

    async def _post(self, body: bytes, headers: list[tuple[bytes, bytes]], over: timedelta) -> SendResult:
        started = self._clock.now()

        def seconds() -> float:
            return max(0.0, (self._clock.now() - started).total_seconds())

        content = self._in_pieces(body, over) if over else body
        headers.append((b"Content-Length", b"%d" % len(body)))
        request = self._client.build_request("POST", self._url, content=content, headers=headers)
        try:
            async with time_limit(self._clock, self._timeout):
                with call_span("POST", str(request.url), request.headers) as span:
                    response = await self._client.send(request, stream=True)
                    if span is not None:
                        span.note_status(response.status_code)
            return await self._read(response, seconds())
        except TimeoutError:
            waited = f"{self._timeout.total_seconds():g} s"
            meaning = f"{self.address} did not answer within {waited}, as long as the service waits"
            return SendResult(None, "no answer", None, seconds(), meaning)
        except httpx.TransportError as exc:
            answer, meaning = _failure(exc, self.address)
            return SendResult(None, answer, None, seconds(), meaning)

    async def _in_pieces(self, body: bytes, over: timedelta) -> AsyncIterator[bytes]:
        size = -(-len(body) // _PIECES)
        places = range(0, len(body), size)
        for place in places:
            await self._clock.sleep(over / len(places))
            yield body[place : place + size]

    def _headers(self, body: bytes, configured: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
        """Return the headers in the service's order: content type, configured ones, signature."""
        names = {name.lower() for name in configured}
        headers = [] if "content-type" in names else [(b"Content-Type", b"application/json")]
        own = _OF_THE_CONNECTION | {self._signature_header.lower()}
        headers += [(name.encode(), text.encode()) for name, text in configured.items() if name.lower() not in own]
        if self._token is not None:
            headers.append(self._token)
        if self._secret is not None:
            headers.append((self._signature_header.encode(), sign(body, self._secret).encode()))
        return headers

    async def _read(self, response: httpx.Response, seconds: float) -> SendResult:
        """Read the receiver's answer. Its status counts, even if reading the body fails."""
        content = b""
        try:
            async with time_limit(self._clock, self._timeout), aclosing(response):
                async for chunk in response.aiter_bytes():
                    content += chunk
                    if len(content) > MAX_ANSWER_BYTES:
                        break
        except (httpx.TransportError, httpx.DecodingError, TimeoutError):
            content = b""
        said = _said(content)
        answer = said.get("status") or said.get("error") or response.reason_phrase
        meaning = "" if response.is_success else _meaning(response, said.get("detail", ""))
        return SendResult(response.status_code, answer, said.get("id"), seconds, meaning)


async def _each(bodies: Iterable[bytes]) -> AsyncIterator[bytes]:
    for body in bodies:
        yield body


def _checked_url(url: str) -> httpx.URL:
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        raise ConfigurationError("invalid address: write http://HOST:PORT/PATH") from None
    if parsed.scheme not in ("http", "https") or not parsed.host or (parsed.port or 0) > 65535:
        raise ConfigurationError("the address to send to must be http://HOST:PORT/PATH or https://...")
    return parsed


def _checked_token(name: str, value: str) -> tuple[bytes, bytes]:
    """Refuse an impossible header here: the HTTP library would quote its value in an error."""
    if not value.isprintable() or value != value.strip():
        raise ConfigurationError(
            f"the value for {name} holds what no HTTP header may: control characters or outer spaces"
        )
    return name.encode(), value.encode()


def _said(content: bytes) -> dict[str, str]:
    try:
        said = load_json(content)
    except NotJson:
        return {}
    return {key: value for key, value in said.items() if isinstance(value, str)} if isinstance(said, dict) else {}


def _meaning(response: httpx.Response, detail: str) -> str:
    """Return a sentence about an answer other than 2xx, for the person who sends."""
    if response.is_redirect:
        return f"{response.status_code}: a redirect, which the service does not follow; post to its target"
    words = {
        400: "the receiver does not accept this body as an envelope, and keeps it in quarantine",
        401: "the receiver has another secret or token, or expects one and got none: compare RECEIVER_SECRETS",
        404: "there is no endpoint at this path: compare RECEIVER_PATH of the receiver",
        405: "this path is not that of the endpoint: compare RECEIVER_PATH of the receiver",
        408: "the body did not reach the receiver within its read time-out",
        413: "the body is longer than the receiver's RECEIVER_MAX_BODY",
        503: "the receiver cannot store now: look at its /readyz and its log; the service would come again",
    }
    explained = words.get(response.status_code, detail or response.reason_phrase)
    return f"{response.status_code}: {explained}"


def _failure(error: httpx.TransportError, address: str) -> tuple[str, str]:
    """Return a short and a long reason why a delivery got no answer."""
    causes = list(_causes(error))
    if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        return "no connection", f"nothing listens at {address}; start it with `receiver dev` or `receiver serve`"
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        return "no connection", f"the host of {address} is not known"
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        return (
            "no connection",
            f"no TLS connection to {address}: its certificate or protocol is not accepted",
        )
    if isinstance(error, httpx.ConnectError | httpx.ProxyError | httpx.ConnectTimeout):
        return "no connection", f"{address} cannot be reached"
    if isinstance(error, httpx.TimeoutException):
        return "no answer", f"{address} did not answer in time"
    return "no answer", f"the connection to {address} ended before an answer came"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
