"""One request to a server and its answer, within limits."""

import string
import zlib
from collections.abc import AsyncIterable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Protocol, Self

import brotli
import httpcore
import httpx
import zstandard

from receiver.emulator.fetching.network import CheckedNetwork, Resolve
from receiver.emulator.fetching.refusals import too_large, translated
from receiver.emulator.fetching.zones import NetworkZone, zone_of

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_SAFE_METHODS = frozenset({"GET", "HEAD"})
_MAX_CONNECTIONS = 100
_KEEP_SECONDS = 5.0
_NO_TIMEOUTS = {"connect": None, "read": None, "write": None, "pool": None}
_OWN_HEADERS = frozenset({
    b"host", b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade",
    b"content-length", b"accept-encoding", b"expect", b"range",
})  # fmt: skip
"""What the caller of the API cannot set: it frames the request, or asks for what is not understood here."""

_TOKEN = frozenset((string.ascii_letters + string.digits + "!#$%&'*+-.^_`|~").encode())
"""The characters in the name of a header: RFC 9110, section 5.6.2."""

RawHeaders = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """What one server answered. The body still has its content coding; that of a redirect is not read."""

    status: int
    """HTTP status."""
    headers: RawHeaders
    """Names and values as they came."""
    body: bytes
    """The body, within the size limit."""
    zone: NetworkZone | None
    """Where the server is."""

    @property
    def is_redirect(self) -> bool:
        """Whether it says where to look instead."""
        return self.status in _REDIRECTS and self.header(b"location") != ""

    def header(self, name: bytes) -> str:
        """Return the first header of that name (in lower case), empty without one."""
        return next((value.decode("latin-1").strip() for key, value in self.headers if key.lower() == name), "")


class Exchange(Protocol):
    """Sends one request. It follows no redirect, and keeps no cookie."""

    async def get(
        self,
        url: httpx.URL,
        headers: RawHeaders,
        *,
        zones: frozenset[NetworkZone],
        verify: bool,
        max_bytes: int,
        cut: bool = False,
        method: str = "GET",
        content: bytes = b"",
    ) -> RawAnswer:
        """Return the answer to a GET, or another method. Only addresses in `zones` are connected to.

        A body of more than `max_bytes` is cut there, or a ScrapeFailed. So is every failure of the network. There
        is no time-out: the caller has one for the whole fetch.
        """


class TransportExchange:
    """Hands requests to a transport, which decides what it reaches: there are no zones, and no network of ours."""

    def __init__(self, transport: httpx.AsyncBaseTransport) -> None:
        self._transport = transport

    async def get(
        self,
        url: httpx.URL,
        headers: RawHeaders,
        *,
        zones: frozenset[NetworkZone],
        verify: bool,
        max_bytes: int,
        cut: bool = False,
        method: str = "GET",
        content: bytes = b"",
    ) -> RawAnswer:
        """Return the answer, as an Exchange does."""
        request = httpx.Request(method, url, headers=[(b"Host", url.netloc), *headers], content=content or None)
        try:
            response = await self._transport.handle_async_request(request)
            try:
                answer = RawAnswer(response.status_code, list(response.headers.raw), b"", None)
                if answer.is_redirect:
                    return answer
                body = await _read(response.aiter_raw(), str(url), max_bytes, cut=cut)
                return replace(answer, body=body)
            finally:
                await response.aclose()
        except (httpx.TransportError, httpx.StreamError, OSError) as exc:
            raise translated(str(url), exc) from exc


class WebExchange:
    """Sends requests over checked connections, which it keeps for some seconds. Its block closes them."""

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

    async def get(
        self,
        url: httpx.URL,
        headers: RawHeaders,
        *,
        zones: frozenset[NetworkZone],
        verify: bool,
        max_bytes: int,
        cut: bool = False,
        method: str = "GET",
        content: bytes = b"",
    ) -> RawAnswer:
        """Return the answer, as an Exchange does."""
        pool = await self._pool(zones, verify=verify if url.scheme == "https" else None)
        own = [(b"Host", url.netloc), *headers]
        if content:
            own.append((b"Content-Length", str(len(content)).encode()))
        request = httpcore.Request(
            method,
            httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            headers=own,
            content=content or None,
        )
        reuse = _ReuseCheck()
        try:
            try:
                return await self._send(pool, request, str(url), max_bytes, cut=cut, reuse=reuse)
            except (httpcore.RemoteProtocolError, httpcore.ReadError, httpcore.WriteError):
                # RFC 9112, section 9.3.1: a server may close a kept connection just when it is used again.
                if reuse.connected or reuse.answered or method not in _SAFE_METHODS:
                    raise
                return await self._send(pool, request, str(url), max_bytes, cut=cut, reuse=reuse)
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, OSError) as exc:
            raise translated(str(url), exc) from exc

    async def _pool(self, zones: frozenset[NetworkZone], *, verify: bool | None) -> httpcore.AsyncConnectionPool:
        """Return the pool of connections to these zones; without TLS if `verify` is None."""
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

    async def _send(
        self,
        pool: httpcore.AsyncConnectionPool,
        request: httpcore.Request,
        url: str,
        max_bytes: int,
        *,
        cut: bool,
        reuse: "_ReuseCheck",
    ) -> RawAnswer:
        request.extensions = {"timeout": _NO_TIMEOUTS, "trace": reuse.trace}
        response = await pool.handle_async_request(request)
        try:
            reuse.answered = True
            answer = RawAnswer(response.status, response.headers, b"", _zone_of_peer(response))
            if answer.is_redirect:
                return answer
            return replace(answer, body=await _read(response.aiter_stream(), url, max_bytes, cut=cut))
        finally:
            await response.aclose()


class _ReuseCheck:
    """Finds out whether a request went over a connection that was open already."""

    def __init__(self) -> None:
        self.connected = False
        self.answered = False

    async def trace(self, event: str, info: Mapping[str, Any]) -> None:
        self.connected = self.connected or event.endswith("connect_tcp.started")


async def _read(pieces: AsyncIterable[bytes], url: str, max_bytes: int, *, cut: bool) -> bytes:
    body = bytearray()
    async for piece in pieces:
        body += piece
        if len(body) > max_bytes:
            if cut:
                break
            raise too_large(url, max_bytes)
    return bytes(body[:max_bytes])


def _zone_of_peer(response: httpcore.Response) -> NetworkZone | None:
    stream: httpcore.AsyncNetworkStream = response.extensions["network_stream"]
    peer = stream.get_extra_info("server_addr")
    return zone_of(str(peer[0])) if peer else None


def carried_headers(headers: Iterable[tuple[str, str]]) -> RawHeaders:
    """Return headers of a caller as they are sent, without those that are not theirs to set.

    A ValueError names a header that HTTP cannot carry, not its value.
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


# FOLDED: Content codings (RFC 9110, section 8.4), within a limit on what comes out.
ACCEPTED_CODINGS = "gzip, deflate, br, zstd"
_GZIP, _ZLIB, _RAW = 31, 15, -15
"""How zlib is told what wraps the data: https://docs.python.org/3/library/zlib.html#zlib.decompress."""
_PIECE_BYTES = 64 * 1024
_MAX_MEMBERS = 1000
"""Of a gzip file (RFC 1952, section 2.2). What is left of a piece after a member is copied, so each one costs."""
_ZSTD_PIECE_BYTES = 512
"""Less, since the output of a piece cannot be limited: each 4 bytes can stand for 128 KiB (RFC 8878, 3.1.1.2)."""
_ZSTD_WINDOW_BYTES = 8 * 1024 * 1024
"""The largest window of the content coding: RFC 9659, section 3."""

_NOT_IN_CODING = "the data are not in their content coding"
_ENDS_EARLY = "the data end before their content coding does"


class BrokenCoding(ValueError):
    """The data are not in the coding that they are said to be in, or in one that is not known."""


def decoded(data: bytes, codings: Sequence[str], limit: int, *, cut: bool = False) -> bytes:
    """Return the first `limit` bytes of the data without their content coding.

    It stops there, so that a little data that stand for a lot need neither the time nor the memory. Raises
    BrokenCoding, also for several codings: nobody asked for them. With `cut` the data may end too early.
    """
    match [coding.strip().lower() for coding in codings]:
        case [] | ["identity"]:
            return data[:limit]
        case ["gzip" | "x-gzip"]:
            return _inflated(data, _GZIP, limit, cut=cut)
        case ["deflate"]:
            # RFC 9110, section 8.4.1.2: some leave out the wrapper.
            bits = _ZLIB if data[:1] and data[0] & 0x0F == 8 and int.from_bytes(data[:2]) % 31 == 0 else _RAW
            return _inflated(data, bits, limit, cut=cut)
        case ["br"]:
            return _unbrotlied(data, limit, cut=cut)
        case ["zstd"]:
            return _unzstandarded(data, limit, cut=cut)
    raise BrokenCoding(f"the content coding {', '.join(codings)[:40]!r} is not known")


def is_gzip(data: bytes) -> bool:
    """Tell whether data look like a gzip file: RFC 1952, section 2.3.1."""
    return data.startswith(b"\x1f\x8b")


def _inflated(data: bytes, bits: int, limit: int, *, cut: bool) -> bytes:
    out = bytearray()
    view = memoryview(data)
    place, stream, is_begun = 0, zlib.decompressobj(bits), False
    members = 0
    while place < len(view) and len(out) < limit and members < _MAX_MEMBERS:
        piece = view[place : place + _PIECE_BYTES]
        try:
            out += stream.decompress(piece, limit - len(out))
        except zlib.error:
            if members:  # padding after the last member
                return bytes(out)
            raise BrokenCoding(_NOT_IN_CODING) from None
        place += len(piece) - len(stream.unconsumed_tail) - len(stream.unused_data)
        is_begun = not stream.eof
        if stream.eof:
            members += 1
            stream = zlib.decompressobj(bits)
    if is_begun and len(out) < limit and not cut:
        raise BrokenCoding(_ENDS_EARLY)
    return bytes(out)


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


def _unzstandarded(data: bytes, limit: int, *, cut: bool) -> bytes:
    decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES)
    out = bytearray()
    place, members, is_begun = 0, 0, False
    stream = decompressor.decompressobj()
    while place < len(data) and len(out) < limit and members < _MAX_MEMBERS:
        piece = data[place : place + _ZSTD_PIECE_BYTES]
        try:
            out += stream.decompress(piece)
        except zstandard.ZstdError:
            raise BrokenCoding(_NOT_IN_CODING) from None
        place += len(piece) - len(stream.unused_data)
        is_begun = not stream.eof
        if stream.eof:
            members += 1
            stream = decompressor.decompressobj()
    if is_begun and len(out) < limit and not cut:
        raise BrokenCoding(_ENDS_EARLY)
    return bytes(out[:limit])
