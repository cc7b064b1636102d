"""Webhooks to public hosts alone: the addresses that a name stands for are checked when the connection is made."""

from collections.abc import AsyncIterator

import httpcore
import httpx

from receiver.service.emulator.failures import ScrapeFailed
from receiver.service.emulator.fetching.network import CheckedNetwork, Resolve
from receiver.service.emulator.fetching.refusals import HostNotAllowed
from receiver.service.emulator.fetching.zones import NetworkZone

_PUBLIC = frozenset({NetworkZone.INTERNET})
_FAILURES = (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, OSError)


class _AnswerStream(httpx.AsyncByteStream):
    """The body of an answer, as it comes."""

    def __init__(self, response: httpcore.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._response.aiter_stream():
                yield piece
        except _FAILURES as exc:
            raise httpx.ReadError(str(exc)) from exc

    async def aclose(self) -> None:
        await self._response.aclose()


class PublicTransport(httpx.AsyncBaseTransport):
    """Sends requests to addresses in the given zones. It raises HostNotAllowed for a host that has none."""

    def __init__(self, resolve: Resolve, zones: frozenset[NetworkZone] = _PUBLIC) -> None:
        network = CheckedNetwork(resolve, zones)
        self._pool = httpcore.AsyncConnectionPool(ssl_context=httpx.create_ssl_context(), network_backend=network)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Return the answer to a request."""
        url = request.url
        sent = httpcore.Request(
            method=request.method,
            url=httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        try:
            response = await self._pool.handle_async_request(sent)
        except HostNotAllowed:
            raise
        except (*_FAILURES, ScrapeFailed) as exc:  # the last says that nobody knows the name
            raise httpx.ConnectError(str(exc), request=request) from exc
        return httpx.Response(
            response.status,
            headers=response.headers,
            stream=_AnswerStream(response),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._pool.aclose()
