"""Takes over each tab of a browser before it asks for anything, whoever opened it.

A new tab waits until any of its debuggers lets it go on (`Target.setAutoAttach`, `waitForDebuggerOnStart`:
https://chromedevtools.github.io/devtools-protocol/tot/Target/). The driver lets tabs go on by itself, and so does
each program that is connected, so this is a debugger of its own. When another one was first, the tab asks for its
document before its requests are paused in the tab. They are then paused in the browser, which is asked last, and
wait there until the tab is taken over.
"""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
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
        """Answer no more."""


class TabSession:
    """What is said to one tab, and heard of it."""

    def __init__(self, tabs: "TabWatch", session_id: str) -> None:
        self._tabs = tabs
        self._id = session_id

    async def send(self, method: str, params: Json | None = None) -> Json:
        """Ask the tab for something. Error if it refuses, or is gone."""
        return await self._tabs.send(method, params or {}, self._id)

    def on(self, event: str, hear: Hear) -> None:
        """Call `hear` with each event of a name."""
        self._tabs.hear(self._id, event, hear)


@dataclass(slots=True)
class _Tab:
    """A tab that is taken over, or about to be."""

    traffic: TabTraffic
    """Answers its requests."""
    main_frame: str
    """The id of its own frame."""
    taken_over: asyncio.Event
    """Set when its requests are paused in the tab."""


class TabWatch:
    """Watches one browser from outside. Its block ends the watch; what tabs ask for afterwards reaches nothing."""

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
        # The tabs that are there have been told of before the answer.
        await asyncio.gather(*self._tasks)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
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
        """Answer the tabs that are opened within the block by other traffic."""
        usual, self._make = self._make, traffic
        try:
            yield
        finally:
            self._make = usual

    async def send(self, method: str, params: Json, session_id: str = "") -> Json:
        """Ask the browser or one of its tabs for something. Error if it refuses, or is gone."""
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
        """Call `hear` with each event of a name, of one tab or, without id, of the browser."""
        self._heard[session_id, event] = hear

    async def _listen(self, socket: ClientConnection) -> None:
        try:
            async for text in socket:
                message = json.loads(text)
                if "id" in message:
                    self._answer(message)
                elif hear := self._heard.get((message.get("sessionId", ""), message["method"])):
                    hear(message["params"])
        except ConnectionClosed:  # the end is told below
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
            # The id of a page is that of its main frame. A tab that waits does not tell its frames.
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
        """Answer what a tab asked for before it was taken over. What no tab is known for reaches nothing."""
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
