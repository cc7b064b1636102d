"""Pictures and PDFs over HTTP."""

from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from receiver.service.emulator.api.replies import OPEN_TO_BROWSERS, refusal_body, reply
from receiver.service.emulator.browser.media import PREFIX, MediaStore
from receiver.service.emulator.failures import CallRefused

_SAFE = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "sandbox; default-src 'none'"}
"""Nothing of a page runs with the rights of the emulator's origin."""


class MediaEndpoint:
    """An ASGI app for the files that a browser made. It needs no key: their names are secrets."""

    def __init__(self, store: MediaStore) -> None:
        self._store = store

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request for a file: 404 if there is none, or its time is over."""
        response = await self._respond(HttpRequest(scope, receive))
        await response(scope, receive, send)

    async def _respond(self, request: HttpRequest) -> Response:
        if request.method not in ("GET", "HEAD"):
            return await reply(refusal_body(CallRefused(405, "Files are only read")), 405, {"Allow": "GET, HEAD"})
        file = await self._store.find(str(request.scope["path"]).removeprefix(f"{PREFIX}/"))
        if file is None:
            return await reply(
                refusal_body(CallRefused(404, "There is no such file, or its 24 hours are over")), 404
            )
        return Response(file.data, headers=_SAFE | OPEN_TO_BROWSERS, media_type=file.content_type)
