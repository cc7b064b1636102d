"""Connections of other programs to the browser of a session: its debugging protocol, and a picture of its page."""

import asyncio
from contextlib import suppress

from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route, Router, WebSocketRoute
from starlette.types import ASGIApp
from starlette.websockets import WebSocket, WebSocketDisconnect
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from receiver.service.emulator.browser.sessions import BrowserSessions
from receiver.service.emulator.failures import CallRefused

_MAX_MESSAGE = 64 * 1024 * 1024
_UNKNOWN, _GONE = 1008, 1011
CDP_PATH = "/v2/browser/{id}/cdp"
LIVE_PATH = "/_media/live/{id}"


class RemoteBrowsers:
    """Serves the addresses of sessions. The token in an address is the key."""

    def __init__(self, sessions: BrowserSessions) -> None:
        self._sessions = sessions

    def sockets(self) -> ASGIApp:
        """Return an ASGI app that relays the debugging protocol (https://chromedevtools.github.io)."""
        return Router([WebSocketRoute(CDP_PATH, self._relay)], redirect_slashes=False)

    def views(self) -> ASGIApp:
        """Return an ASGI app that shows the page of a session as it is now, and asks to be asked again."""
        return Router([Route(LIVE_PATH, self._show)], redirect_slashes=False)

    async def _relay(self, socket: WebSocket) -> None:
        url = self._sessions.connect(socket.path_params["id"], socket.query_params.get("token", ""))
        await socket.accept()
        if url is None:
            await socket.close(_UNKNOWN, "Browser session not found")
            return
        try:
            async with connect(url, max_size=_MAX_MESSAGE, compression=None, proxy=None) as browser:
                await self._exchange(socket, browser)
        except (OSError, InvalidHandshake, ConnectionClosed):
            with suppress(RuntimeError):
                await socket.close(_GONE, "The browser session has ended")

    async def _exchange(self, socket: WebSocket, browser: ClientConnection) -> None:
        session_id, token = socket.path_params["id"], socket.query_params.get("token", "")

        async def forward() -> None:
            with suppress(WebSocketDisconnect, ConnectionClosed):
                while True:
                    await browser.send(await socket.receive_text())
                    self._sessions.connect(session_id, token)

        async def back() -> None:
            with suppress(WebSocketDisconnect, ConnectionClosed):
                async for message in browser:
                    await socket.send_text(message if isinstance(message, str) else message.decode())

        tasks = [asyncio.create_task(forward()), asyncio.create_task(back())]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with suppress(RuntimeError):
            await socket.close()

    async def _show(self, request: HttpRequest) -> Response:
        record = self._sessions.by_token(request.path_params["id"], request.query_params.get("token", ""))
        picture = None
        if record is not None:
            with suppress(CallRefused):
                picture = await self._sessions.picture(record)
        if picture is None:
            return Response("There is no such browser session, or it shows no page.", 404, media_type="text/plain")
        return Response(picture, media_type="image/png", headers={"Refresh": "2", "Cache-Control": "no-store"})
