"""One request to a server and its answer, within limits."""

import string
import zlib
from collections.abc import AsyncIterable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Protocol, Self

import brotli
import httpcore
import httpx
import zstandard
from typing_extensions import override

from receiver.emulator.fetching.network import CheckedNetwork, NetworkZone, Resolve, zone_of
from receiver.emulator.fetching.refusals import too_large, translated

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_SAFE_METHODS = frozenset({"GET", "HEAD"})
_MAX_CONNECTIONS = 100
_KEEP_SECONDS = 5.0
_NO_TIMEOUTS = {"connect": None, "read": None, "write": None, "pool": None}
_OWN_HEADERS = frozenset({
    b"host", b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade",
    b"content-length", b"accept-encoding", b"expect", b"range",
})  # fmt: skip
"""Headers that the caller of the API cannot set: they frame the request, or ask for what is not supported here."""
_TOKEN = frozenset((string.ascii_letters + string.digits + "!#$%&'*+-.^_`|~").encode())
"""The characters in the name of a header: RFC 9110, section 5.6.2."""

RawHeaders = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RawRequest:
    """One request to one server."""

    url: httpx.URL
    headers: RawHeaders = field(repr=False)
    """Without those that frame the request."""
    zones: frozenset[NetworkZone]
    verify: bool
    max_bytes: int
    cut: bool = False
    """A larger body is cut, and not a failure."""
    method: str = "GET"
    content: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """The answer of one server. The body still has its content coding; that of a redirect is not read."""

    status: int
    headers: RawHeaders
    body: bytes
    zone: NetworkZone | None
    """Of the server; None if it is unknown."""

    @property
    def is_redirect(self) -> bool:
        """Whether it names another URL."""
        return self.status in _REDIRECTS and self.header(b"location") != ""

    def header(self, name: bytes) -> str:
        """Return the first header of that name (in lower case), empty without one."""
        return next((value.decode("latin-1").strip() for key, value in self.headers if key.lower() == name), "")


class Exchange(Protocol):
    """Sends single requests. It follows no redirects, and keeps no cookies."""

    async def send(self, request: RawRequest) -> RawAnswer:
        """Return the answer. Raises ScrapeFailed for every failure of the network.

        There is no time-out: the caller has one for the whole fetch.
        """


class TransportExchange(Exchange):
    """Sends requests by a transport, which decides what it reaches: zones do not count."""

    def __init__(self, transport: httpx.AsyncBaseTransport) -> None:
        self._transport = transport

    @override
    async def send(self, request: RawRequest) -> RawAnswer:
        headers = [(b"Host", request.url.netloc), *request.headers]
        sent = httpx.Request(request.method, request.url, headers=headers, content=request.content or None)
        try:
            response = await self._transport.handle_async_request(sent)
            try:
                answer = RawAnswer(response.status_code, list(response.headers.raw), b"", None)
                if answer.is_redirect:
                    return answer
                return replace(answer, body=await _read(response.aiter_raw(), request))
            finally:
                await response.aclose()
        except (httpx.TransportError, httpx.StreamError, OSError) as exc:
            raise translated(str(request.url), exc) from exc


class WebExchange(Exchange):
    """Sends requests over checked connections, which it keeps for some seconds."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._pools: dict[tuple[bool | None, frozenset[NetworkZone]], httpcore.AsyncConnectionPool] = {}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    @override
    async def send(self, request: RawRequest) -> RawAnswer:
        url = request.url
        pool = await self._pool(request.zones, verify=request.verify if url.scheme == "https" else None)
        headers = [(b"Host", url.netloc), *request.headers]
        if request.content:
            headers.append((b"Content-Length", str(len(request.content)).encode()))
        sent = httpcore.Request(
            request.method,
            httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            headers=headers,
            content=request.content or None,
        )
        reuse = _ReuseCheck()
        try:
            try:
                return await _over(pool, sent, request, reuse)
            except (httpcore.RemoteProtocolError, httpcore.ReadError, httpcore.WriteError):
                # RFC 9112, section 9.3.1: a server may close a kept connection just when it is used again.
                if reuse.connected or reuse.answered or request.method not in _SAFE_METHODS:
                    raise
                return await _over(pool, sent, request, reuse)
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, OSError) as exc:
            raise translated(str(url), exc) from exc

    async def _pool(self, zones: frozenset[NetworkZone], *, verify: bool | None) -> httpcore.AsyncConnectionPool:
        key = (verify, zones)
        if key not in self._pools:
            pool = httpcore.AsyncConnectionPool(
                # The certificates of httpx, or those that SSL_CERT_FILE and SSL_CERT_DIR name.
                ssl_context=None if verify is None else httpx.create_ssl_context(verify=verify),
                max_connections=_MAX_CONNECTIONS,
                max_keepalive_connections=_MAX_CONNECTIONS,
                keepalive_expiry=_KEEP_SECONDS,
                network_backend=CheckedNetwork(self._resolve, zones),
            )
            self._pools[key] = await self._stack.enter_async_context(pool)
        return self._pools[key]


class _ReuseCheck:
    """Notes whether a request needed a new connection, and whether it was answered."""

    def __init__(self) -> None:
        self.connected = False
        self.answered = False

    async def trace(self, event: str, info: Mapping[str, Any]) -> None:
        self.connected = self.connected or event.endswith("connect_tcp.started")


async def _over(
    pool: httpcore.AsyncConnectionPool, sent: httpcore.Request, request: RawRequest, reuse: _ReuseCheck
) -> RawAnswer:
    sent.extensions = {"timeout": _NO_TIMEOUTS, "trace": reuse.trace}
    response = await pool.handle_async_request(sent)
    try:
        reuse.answered = True
        answer = RawAnswer(response.status, response.headers, b"", _zone_of_peer(response))
        if answer.is_redirect:
            return answer
        return replace(answer, body=await _read(response.aiter_stream(), request))
    finally:
        await response.aclose()


async def _read(pieces: AsyncIterable[bytes], request: RawRequest) -> bytes:
    body = bytearray()
    async for piece in pieces:
        body += piece
        if len(body) > request.max_bytes:
            if request.cut:
                break
            raise too_large(str(request.url), request.max_bytes)
    return bytes(body[: request.max_bytes])


def _zone_of_peer(response: httpcore.Response) -> NetworkZone | None:
    stream: httpcore.AsyncNetworkStream = response.extensions["network_stream"]
    peer = stream.get_extra_info("server_addr")
    return zone_of(str(peer[0])) if peer else None


def carried_headers(headers: Iterable[tuple[str, str]]) -> RawHeaders:
    """Return headers of a caller as they are sent, without those that callers cannot set.

    Raises ValueError for a header that HTTP cannot carry, with its name and without its value.
    """
    carried: RawHeaders = []
    for name, value in headers:
        try:
            pair = (name.strip().encode("ascii"), value.strip().encode("latin-1"))
        except UnicodeEncodeError:
            raise ValueError(f"the header {name!r} has characters that HTTP cannot carry") from None
        if not pair[0] or not _TOKEN.issuperset(pair[0]) or any(mark in pair[1] for mark in b"\r\n\0"):
            raise ValueError(f"the header {name!r} has no valid name, or not one line as its value")
        if pair[0].lower() not in _OWN_HEADERS:
            carried.append(pair)
    return carried


ACCEPTED_CODINGS = "gzip, deflate, br, zstd"
_GZIP, _ZLIB, _RAW = 31, 15, -15
"""The parameter `wbits` of zlib: https://docs.python.org/3/library/zlib.html#zlib.decompress."""
_PIECE_BYTES = 64 * 1024
_MAX_MEMBERS = 1000
"""Of a gzip file (RFC 1952, section 2.2). Each one costs, since the rest of its piece is copied."""
_ZSTD_PIECE_BYTES = 512
"""Less, since the output of a piece has no limit: 4 bytes can mean 128 KiB (RFC 8878, 3.1.1.2)."""
_ZSTD_WINDOW_BYTES = 8 * 1024 * 1024
"""The largest window of the content coding: RFC 9659, section 3."""
_NOT_IN_CODING = "the data are not in their content coding"
_ENDS_EARLY = "the data end before their content coding does"


class BrokenCoding(ValueError):
    """The data are not in the coding that their header names, or the coding is not supported."""


def decoded(data: bytes, codings: Sequence[str], limit: int, *, cut: bool = False) -> bytes:
    """Return the first `limit` bytes of the data without their content coding (RFC 9110, section 8.4).

    It stops there, so that a little data for a huge output takes neither time nor memory. Raises BrokenCoding, also
    for several codings, which no request asks for. With `cut` the data may end too early.
    """
    match [coding.strip().lower() for coding in codings]:
        case [] | ["identity"]:
            return data[:limit]
        case ["gzip" | "x-gzip"]:
            return _of_members(data, limit, lambda: zlib.decompressobj(_GZIP), cut=cut)
        case ["deflate"]:
            # RFC 9110, section 8.4.1.2: some leave out the wrapper.
            bits = _ZLIB if data[:1] and data[0] & 0x0F == 8 and int.from_bytes(data[:2]) % 31 == 0 else _RAW
            return _of_members(data, limit, lambda: zlib.decompressobj(bits), cut=cut)
        case ["br"]:
            return _unbrotlied(data, limit, cut=cut)
        case ["zstd"]:
            begin = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES).decompressobj
            return _of_members(data, limit, begin, cut=cut, piece_bytes=_ZSTD_PIECE_BYTES, is_limited=False)
    raise BrokenCoding(f"the content coding {', '.join(codings)[:40]!r} is not known")


def is_gzip(data: bytes) -> bool:
    """Return whether data look like a gzip file: RFC 1952, section 2.3.1."""
    return data.startswith(b"\x1f\x8b")


def _of_members(
    data: bytes,
    limit: int,
    begin: Callable[[], Any],
    *,
    cut: bool,
    piece_bytes: int = _PIECE_BYTES,
    is_limited: bool = True,
) -> bytes:
    """Return the output of the streams in the data, such as the members of a gzip file.

    `begin` returns a decompressor, which takes the limit of its output if `is_limited`.
    """
    out = bytearray()
    view = memoryview(data)
    place, members, stream, is_begun = 0, 0, begin(), False
    while place < len(view) and len(out) < limit and members < _MAX_MEMBERS:
        piece = view[place : place + piece_bytes]
        try:
            out += stream.decompress(piece, *([limit - len(out)] if is_limited else []))
        except (zlib.error, zstandard.ZstdError) as exc:
            if members and isinstance(exc, zlib.error):  # padding after the last member
                return bytes(out)
            raise BrokenCoding(_NOT_IN_CODING) from None
        place += len(piece) - len(stream.unconsumed_tail) - len(stream.unused_data)
        is_begun = not stream.eof
        if stream.eof:
            members += 1
            stream = begin()
    if is_begun and len(out) < limit and not cut:
        raise BrokenCoding(_ENDS_EARLY)
    return bytes(out[:limit])


def _unbrotlied(data: bytes, limit: int, *, cut: bool) -> bytes:
    stream = brotli.Decompressor()
    out = bytearray()
    place = 0
    while not stream.is_finished() and len(out) < limit:
        piece = b""
        if stream.can_accept_more_data():
            piece = data[place : place + _PIECE_BYTES]
            place += len(piece)
            if not piece:
                break
        try:
            out += stream.process(piece, output_buffer_limit=limit - len(out))
        except brotli.error:
            raise BrokenCoding(_NOT_IN_CODING) from None
    if not stream.is_finished() and len(out) < limit and not cut:
        raise BrokenCoding(_ENDS_EARLY)
    return bytes(out[:limit])
