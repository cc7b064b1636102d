"""Takes over each tab of a browser before it requests anything, whoever opened it.

A new tab waits until one of its debuggers lets it run (`Target.setAutoAttach`, `waitForDebuggerOnStart`:
https://chromedevtools.github.io/devtools-protocol/tot/Target/). The driver lets tabs run by itself, and so does
each connected program: therefore this is a debugger of its own. If another debugger was faster, the tab requests
its document before its requests are paused in the tab. Then they are paused in the browser, the last to see them,
and wait there until the tab is taken over.
"""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol, Self

from playwright.async_api import Error
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from receiver.emulator.browser.traffic import EVERY_REQUEST

Json = dict[str, Any]
Hear = Callable[[Json], object]

_MAX_MESSAGE = 256 * 1024 * 1024


class TabTraffic(Protocol):
    """Answers the requests of one tab."""

    def begin_answer(self, session: "TabSession", event: Json, main_frame: str) -> None:
        """Begin to answer a request that is paused (`Fetch.requestPaused`); `main_frame` is the page's own."""

    async def close(self) -> None:
        """Stop answering."""


class TabSession:
    """One tab, as its debugger speaks to it."""

    def __init__(self, tabs: "TabWatch", session_id: str) -> None:
        self._tabs = tabs
        self._id = session_id

    async def send(self, method: str, params: Json | None = None) -> Json:
        """Send the tab a command and return the result. Error if it refuses, or is gone."""
        return await self._tabs.send(method, params or {}, self._id)

    def on(self, event: str, hear: Hear) -> None:
        """Call `hear` with each event of a name."""
        self._tabs.hear(self._id, event, hear)


@dataclass(slots=True)
class _Tab:
    """A tab that is, or is about to be, taken over."""

    traffic: TabTraffic
    main_frame: str
    """The id of its own frame."""
    taken_over: asyncio.Event
    """Set when its requests are paused in the tab."""


class TabWatch:
    """Watches one browser from outside. Its block ends the watch; requests of tabs reach nothing after it."""

    def __init__(self, url: str, traffic: Callable[[], TabTraffic]) -> None:
        """`url` is where the browser can be connected to by CDP; `traffic` is made for each tab."""
        self._url = url
        self._make = traffic
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[Json]] = {}
        self._heard: dict[tuple[str, str], Hear] = {}
        self._tabs: dict[str, _Tab] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._socket: ClientConnection | None = None
        self._listening: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._socket = await connect(
            self._url, max_size=_MAX_MESSAGE, compression=None, proxy=None, ping_interval=None
        )
        self._listening = asyncio.create_task(self._listen(self._socket))
        self.hear("", "Target.attachedToTarget", self._attached)
        self.hear("", "Target.detachedFromTarget", lambda event: self._run(self._let_go(event["sessionId"])))
        self.hear("", "Fetch.requestPaused", lambda event: self._run(self._answer_early(event)))
        await self.send("Fetch.enable", EVERY_REQUEST)
        options = {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True}
        await self.send("Target.setAutoAttach", options)
        # The existing tabs were reported before the answer.
        await asyncio.gather(*self._tasks)
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._socket is not None:
            await self._socket.close()
        tasks = [task for task in (*self._tasks, self._listening) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for session_id in list(self._tabs):
            await self._let_go(session_id)

    @asynccontextmanager
    async def answering(self, traffic: Callable[[], TabTraffic]) -> AsyncIterator[None]:
        """Let other traffic answer the tabs that are opened within the block."""
        usual, self._make = self._make, traffic
        try:
            yield
        finally:
            self._make = usual

    async def send(self, method: str, params: Json, session_id: str = "") -> Json:
        """Send the browser or one of its tabs a command. Error if it refuses, or is gone."""
        if self._socket is None:
            raise Error("the browser is not watched")
        number = next(self._numbers)
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        message: Json = {"id": number, "method": method, "params": params}
        if session_id:
            message["sessionId"] = session_id
        try:
            await self._socket.send(json.dumps(message))
            return await answer
        except ConnectionClosed as exc:
            raise Error("the browser has ended") from exc
        finally:
            self._asked.pop(number, None)

    def hear(self, session_id: str, event: str, hear: Hear) -> None:
        """Call `hear` with each event of this name: of one tab or, without id, of the browser."""
        self._heard[session_id, event] = hear

    async def _listen(self, socket: ClientConnection) -> None:
        try:
            async for text in socket:
                message = json.loads(text)
                if "id" in message:
                    self._answer(message)
                elif hear := self._heard.get((message.get("sessionId", ""), message["method"])):
                    hear(message["params"])
        except ConnectionClosed:  # reported below
            pass
        finally:
            for answer in list(self._asked.values()):
                if not answer.done():
                    answer.set_exception(Error("the browser has ended"))

    def _answer(self, message: Json) -> None:
        answer = self._asked.get(message["id"])
        if answer is None or answer.done():
            return
        if "error" in message:
            answer.set_exception(Error(str(message["error"].get("message"))))
        else:
            answer.set_result(message.get("result", {}))

    def _attached(self, event: Json) -> None:
        session_id, target = event["sessionId"], event["targetInfo"]
        if target["type"] == "page":
            # The id of a page is that of its main frame. A waiting tab does not report its frames.
            self._tabs[session_id] = _Tab(self._make(), target["targetId"], asyncio.Event())
        self._run(self._take_over(session_id))

    async def _take_over(self, session_id: str) -> None:
        session, tab = TabSession(self, session_id), self._tabs.get(session_id)
        with suppress(Error):  # a tab that is gone asks for nothing
            if tab is not None:
                session.on(
                    "Fetch.requestPaused", lambda event: tab.traffic.begin_answer(session, event, tab.main_frame)
                )
                await session.send("Fetch.enable", EVERY_REQUEST)
                tab.taken_over.set()
            await session.send("Runtime.runIfWaitingForDebugger")

    async def _answer_early(self, event: Json) -> None:
        """Answer what a tab requested before it was taken over. Requests of unknown tabs are refused."""
        browser = TabSession(self, "")
        tab = next((one for one in self._tabs.values() if one.main_frame == event.get("frameId")), None)
        if tab is not None:
            await tab.taken_over.wait()
            tab.traffic.begin_answer(browser, event, tab.main_frame)
            return
        with suppress(Error):
            await browser.send(
                "Fetch.failRequest", {"requestId": event["requestId"], "errorReason": "BlockedByClient"}
            )

    async def _let_go(self, session_id: str) -> None:
        self._heard = {key: hear for key, hear in self._heard.items() if key[0] != session_id}
        tab = self._tabs.pop(session_id, None)
        if tab is not None:
            tab.taken_over.set()
            await tab.traffic.close()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
