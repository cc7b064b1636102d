"""The browser of an emulator, put together, with the addresses at which other programs reach its sessions.

It needs the extra `browser`.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route, Router, WebSocketRoute
from starlette.types import ASGIApp
from starlette.websockets import WebSocket, WebSocketDisconnect
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from receiver.core.clock import Clock
from receiver.emulator.browser.chromium import BrowserRoom, ChromiumStarter
from receiver.emulator.browser.executable import FoundBrowser
from receiver.emulator.browser.rendering import ChromiumRenderer
from receiver.emulator.browser.session_records import BrowserParts
from receiver.emulator.browser.sessions import BrowserSessions, ProfileStore
from receiver.emulator.clock import Activity
from receiver.emulator.contracts import Account
from receiver.emulator.failures import CallRefused
from receiver.emulator.fetching.fetcher import Fetcher
from receiver.emulator.ids import IdSource
from receiver.emulator.options import EmulatorOptions
from receiver.emulator.state.database import StateDatabase

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
        """Return an ASGI app that shows a picture of a session's page, which the viewer reloads by itself."""
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


@asynccontextmanager
async def open_browser(
    found: FoundBrowser,
    options: EmulatorOptions,
    fetcher: Fetcher,
    *,
    clock: Clock,
    ids: IdSource,
    account: Account,
    activity: Activity,
    state: StateDatabase,
) -> AsyncIterator[BrowserParts]:
    """Provide a browser for as long as the block lasts. Chromium starts when something needs it."""
    async with AsyncExitStack() as stack:
        starter = await stack.enter_async_context(ChromiumStarter(found, memory=options.browser_memory))
        room = await stack.enter_async_context(BrowserRoom(starter, most=options.browser_pages))
        sessions = await stack.enter_async_context(
            BrowserSessions(
                starter,
                fetcher,
                clock=clock,
                ids=ids,
                account=account,
                activity=activity,
                profiles=ProfileStore(state, clock),
                most=options.browser_pages,
            )
        )
        renderer = ChromiumRenderer(room, fetcher, clock, max_bytes=options.max_page_bytes)
        remote = RemoteBrowsers(sessions)
        yield BrowserParts(renderer.render, sessions, remote.sockets(), remote.views())
