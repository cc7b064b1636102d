"""Browser sessions: each has a Chromium of its own, for code of its owner and for programs that connect to it.

A session may begin with a profile: the cookies and the local storage of an earlier one of the same team.

Each tab of a browser is taken over before it requests anything, whoever opened it. A new tab waits until one of its
debuggers lets it run (`Target.setAutoAttach`, `waitForDebuggerOnStart`:
https://chromedevtools.github.io/devtools-protocol/tot/Target/). The driver lets tabs run by itself, and so does
each connected program. This is a debugger of its own. If another debugger was faster, the tab requests its document
before its requests are paused in the tab. Then they are paused in the browser, the last to see them, and
wait there until the tab is taken over.
"""

import asyncio
import base64
import itertools
import json
import secrets
import sqlite3
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

from playwright.async_api import BrowserContext, Error, Page
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from receiver.core.clock import Clock, Timer, to_micros
from receiver.emulator.browser.chromium import ChromiumStarter, debugging_url, not_started, own_folder
from receiver.emulator.browser.code_runs import run_code
from receiver.emulator.browser.confinement import can_shut_in
from receiver.emulator.browser.session_records import CodeOutcome, Language, SessionPlan, SessionRecord
from receiver.emulator.browser.traffic import EVERY_REQUEST, PageTraffic, device_of
from receiver.emulator.clock import Activity
from receiver.emulator.contracts import Account
from receiver.emulator.failures import CallRefused
from receiver.emulator.fetching.fetcher import Fetcher
from receiver.emulator.ids import IdSource
from receiver.emulator.scrapes import Json, ScrapePlan
from receiver.emulator.state.database import StateDatabase, pack, unpack
from receiver.runtime.log_lines import event_log

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


log = event_log(__name__)

MAX_PROFILE_BYTES = 16 * 1024 * 1024
"""Bytes of one profile as JSON; a larger one is not kept."""
MOST_PROFILES = 100
"""Profiles of one team; the one that was saved first goes first."""
_PROFILE_SECONDS = 15.0
_EMPTY_PAGE = base64.b64encode(b"<html></html>").decode()
_FILL = "items => { for (const one of items) localStorage.setItem(one.name, one.value); }"
_KEEP = "INSERT OR REPLACE INTO browser_profiles (team, name, saved_at, state) VALUES (?, ?, ?, ?)"
_FIND = "SELECT state FROM browser_profiles WHERE team = ? AND name = ?"
_EVICT = (
    "DELETE FROM browser_profiles WHERE team = ? AND name NOT IN"
    " (SELECT name FROM browser_profiles WHERE team = ? ORDER BY saved_at DESC, rowid DESC LIMIT ?)"
)
MAX_REMEMBERED = 1_000
"""Ended sessions that lists still have."""
_CLOSE_SECONDS = 5.0
_PAGE_SECONDS = 30.0
_MODEL_TEXT = 20_000
_RUNS_AT_ONCE = 2
_NOT_SHUT_IN = (
    "Code is run only where Landlock can shut it in, which takes Linux 6.7 or newer; connect to the session's "
    "cdpUrl with a program of your own instead"
)
_GONE = "The browser session has ended"


class ProfileStore:
    """Keeps profiles in the state. Of two sessions with one profile, the later end is kept."""

    def __init__(self, database: StateDatabase, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def load(self, team: str, name: str) -> Json | None:
        """Return a profile; None if the team has no such profile."""
        row = await self._database.run(lambda connection: connection.execute(_FIND, (team, name)).fetchone())
        if row is None:
            return None
        state: Json = json.loads(await asyncio.to_thread(unpack, row["state"]))
        return state

    async def save(self, team: str, name: str, state: Json) -> None:
        """Keep a profile in place of the one before. It may hold what signs a user in."""
        data = json.dumps(state).encode()
        if len(data) > MAX_PROFILE_BYTES:
            log.warning(
                "browser_profile_not_saved", extra={"reason": f"it has more than {MAX_PROFILE_BYTES:,} bytes"}
            )
            return
        packed = await asyncio.to_thread(pack, data)
        now = to_micros(self._clock.now())

        def write(connection: sqlite3.Connection) -> None:
            connection.execute(_KEEP, (team, name, now, packed))
            connection.execute(_EVICT, (team, team, MOST_PROFILES))

        await self._database.run(write)


class EmptyPages:
    """Answers every request of a tab with an empty page: storage can be reached without the site."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def begin_answer(self, session: TabSession, event: Json, main_frame: str) -> None:
        """Begin to answer a request that is paused."""
        task = asyncio.ensure_future(self._answer(session, event["requestId"]))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, session: TabSession, request_id: str) -> None:
        with suppress(Error):  # the tab went away meanwhile
            headers = [{"name": "Content-Type", "value": "text/html"}]
            found = {"requestId": request_id, "responseCode": 200, "responseHeaders": headers, "body": _EMPTY_PAGE}
            await session.send("Fetch.fulfillRequest", found)

    async def close(self) -> None:
        """Do nothing: a closed tab requests nothing."""


async def _restore(context: BrowserContext, tabs: TabWatch, state: Json) -> None:
    """Give a new browser the cookies and the local storage of a profile."""
    await context.add_cookies(state["cookies"])
    if not state["origins"]:
        return
    async with tabs.answering(EmptyPages):
        page = await context.new_page()
        for one in state["origins"]:
            await page.goto(one["origin"])
            await page.evaluate(_FILL, one["localStorage"])
        await page.close()


async def _collect(context: BrowserContext, tabs: TabWatch) -> Json | None:
    """Return the cookies and the local storage of a browser; None if it does not return them in time."""
    try:
        async with asyncio.timeout(_PROFILE_SECONDS), tabs.answering(EmptyPages):
            state = await context.storage_state()
    except (Error, TimeoutError) as exc:
        log.warning("browser_profile_not_saved", extra={"reason": str(exc).partition("\n")[0][:300] or "time-out"})
        return None
    return {"cookies": state["cookies"], "origins": state["origins"]}


@dataclass(slots=True)
class _OpenBrowser:
    """The browser of a session that has not ended."""

    stack: AsyncExitStack
    """Closes it."""
    context: BrowserContext
    url: str
    """Where it can be connected to by CDP."""
    tabs: TabWatch
    turns: asyncio.Semaphore
    """Bounds the code that runs at one time."""
    timer: Timer | None = None
    """Ends the session."""
    running: set[asyncio.Task[CodeOutcome]] = field(default_factory=set)
    """Code that runs or waits for its turn. It ends with the session."""


class BrowserSessions:
    """Keeps sessions until they end, or their time on the emulator's clock is over. Its block ends all."""

    def __init__(
        self,
        starter: ChromiumStarter,
        fetcher: Fetcher,
        *,
        clock: Clock,
        ids: IdSource,
        account: Account,
        activity: Activity,
        profiles: ProfileStore,
        most: int,
    ) -> None:
        self._starter = starter
        self._fetcher = fetcher
        self._clock = clock
        self._ids = ids
        self._account = account
        self._activity = activity
        self._profiles = profiles
        self._most = most
        self._opening = 0
        self._records: dict[str, SessionRecord] = {}
        self._open: dict[str, _OpenBrowser] = {}
        self._ending: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.reset()

    async def reset(self) -> None:
        """End all sessions without charging for them, and forget them."""
        for session_id in list(self._open):
            await self._close(session_id)
        await asyncio.gather(*self._ending, return_exceptions=True)
        self._records.clear()

    async def open(self, team: str, plan: SessionPlan) -> SessionRecord:
        """Open a session. CallRefused with status 429 if there are too many."""
        if len(self._open) + self._opening >= self._most:
            raise CallRefused(429, f"At most {self._most} browser sessions are open at one time: end one")
        self._opening += 1
        try:
            browser = await self._start(team, plan)
        finally:
            self._opening -= 1
        now = self._clock.now()
        record = SessionRecord(
            id=self._ids.new(),
            team=team,
            token=secrets.token_urlsafe(24),
            plan=plan,
            created_at=now,
            last_activity=now,
        )
        ended = [one.id for one in self._records.values() if one.ended_at is not None]
        for session_id in ended[: max(0, len(ended) - MAX_REMEMBERED)]:
            del self._records[session_id]
        self._records[record.id], self._open[record.id] = record, browser
        browser.context.on("close", lambda _: self._end_later(record))
        self._set_timer(record)
        return record

    def find(self, team: str, session_id: str) -> SessionRecord:
        """Return an open session. CallRefused with status 404 if there is none, 410 if it has ended."""
        record = self._records.get(session_id)
        if record is None or record.team != team:
            raise CallRefused(404, "Browser session not found")
        if record.ended_at is not None:
            raise CallRefused(410, _GONE)
        return record

    def of_scrape(self, team: str, scrape_id: str) -> SessionRecord | None:
        """Return the open session of a scrape, if there is one."""
        found = (one for one in self._records.values() if one.team == team and one.plan.scrape_id == scrape_id)
        return next((one for one in found if one.ended_at is None), None)

    def listed(self, team: str) -> Sequence[SessionRecord]:
        """Return all sessions of a team, the newest first."""
        return [record for record in reversed(self._records.values()) if record.team == team]

    def by_token(self, session_id: str, token: str) -> SessionRecord | None:
        """Return an open session; None for a wrong token."""
        record = self._records.get(session_id)
        if record is None or session_id not in self._open:
            return None
        return record if secrets.compare_digest(record.token.encode(), token.encode()) else None

    def connect(self, session_id: str, token: str) -> str | None:
        """Return the address of a browser for CDP; None for a wrong token, or after the end."""
        record = self.by_token(session_id, token)
        if record is None:
            return None
        self.touch(record)
        return self._open[session_id].url

    def touch(self, record: SessionRecord) -> None:
        """Note that a session was used."""
        if record.ended_at is None:
            record.last_activity = self._clock.now()
            self._set_timer(record)

    async def execute(self, record: SessionRecord, language: Language, code: str, seconds: float) -> CodeOutcome:
        """Run code on the page of a session. CallRefused if this system cannot shut it in."""
        browser = self._browser(record)
        if not can_shut_in():
            raise CallRefused(400, _NOT_SHUT_IN, code="SCRAPE_ACTIONS_NOT_SUPPORTED")
        self.touch(record)

        async def run_in_turn() -> CodeOutcome:
            with self._activity.running():
                async with browser.turns:
                    return await run_code(language, code, browser.url, seconds)

        run = asyncio.ensure_future(run_in_turn())
        browser.running.add(run)
        try:
            await asyncio.wait([run])
        finally:
            run.cancel()
            browser.running.discard(run)
            self.touch(record)
        if run.cancelled():
            raise CallRefused(410, _GONE)
        return run.result()

    async def page_text(self, record: SessionRecord) -> str:
        """Return address, title and text of the page of a session."""
        try:
            page = self._page(record)
            text = await page.inner_text("body", timeout=_PAGE_SECONDS * 1000)
            return f"URL: {page.url}\nTitle: {await page.title()}\n\n{text[:_MODEL_TEXT]}"
        except Error as exc:
            raise CallRefused(500, f"The page cannot be read: {exc.message[:200]}") from exc

    async def picture(self, record: SessionRecord) -> bytes | None:
        """Return a picture of the page; None if it shows none now."""
        with suppress(Error):
            return await self._page(record).screenshot(timeout=_PAGE_SECONDS * 1000)
        return None

    async def end(self, record: SessionRecord) -> None:
        """End a session and charge for it, once."""
        if record.ended_at is not None:
            return
        record.ended_at = self._clock.now()
        await self._save_profile(record)
        await self._close(record.id)
        await self._account.charge(record.team, record.credits(record.ended_at))

    async def _start(self, team: str, plan: SessionPlan) -> _OpenBrowser:
        device = device_of(ScrapePlan(url="", country=plan.country))

        def traffic() -> PageTraffic:
            return PageTraffic(
                self._fetcher, device, url="", headers={}, verify=True, bounded=False, block_ads=plan.block_ads
            )

        state = None if plan.profile is None else await self._profiles.load(team, plan.profile)
        stack = AsyncExitStack()
        try:
            folder = await stack.enter_async_context(own_folder())
            context = await self._starter.start_alone(folder, device.context(self._starter.version))
            stack.push_async_callback(_close_context, context)
            url = await asyncio.to_thread(debugging_url, folder)
            tabs = await stack.enter_async_context(TabWatch(url, traffic))
            if state is not None:
                await _restore(context, tabs, state)
            if plan.url is not None:
                with suppress(Error):  # if the page is gone, the session begins with the browser's own error page
                    await context.pages[0].goto(plan.url, wait_until="load", timeout=_PAGE_SECONDS * 1000)
        except (Error, OSError, TimeoutError, WebSocketException) as exc:
            await stack.aclose()
            raise not_started(exc) from exc
        except BaseException:
            await stack.aclose()
            raise
        return _OpenBrowser(stack, context, url, tabs, asyncio.Semaphore(_RUNS_AT_ONCE))

    async def _save_profile(self, record: SessionRecord) -> None:
        browser, plan = self._open.get(record.id), record.plan
        if browser is None or plan.profile is None or not plan.saves:
            return
        state = await _collect(browser.context, browser.tabs)
        if state is not None:
            await self._profiles.save(record.team, plan.profile, state)

    def _browser(self, record: SessionRecord) -> _OpenBrowser:
        browser = self._open.get(record.id)
        if browser is None:
            raise CallRefused(410, _GONE)
        return browser

    def _page(self, record: SessionRecord) -> Page:
        pages = self._browser(record).context.pages
        if not pages:
            raise Error("it has no page")
        return pages[-1]

    def _set_timer(self, record: SessionRecord) -> None:
        browser = self._open.get(record.id)
        if browser is None:
            return
        if browser.timer is not None:
            browser.timer.cancel()
        due = min(record.expires_at, record.last_activity + record.plan.activity_ttl)
        browser.timer = self._clock.call_later(due - self._clock.now(), lambda: self._time_over(record))

    def _time_over(self, record: SessionRecord) -> None:
        browser, now = self._open.get(record.id), self._clock.now()
        if browser is not None and browser.running and now < record.expires_at:
            self.touch(record)
        else:
            self._end_later(record)

    def _end_later(self, record: SessionRecord) -> None:
        if record.ended_at is None:
            self._run_later(self.end(record))

    def _run_later(self, work: Coroutine[Any, Any, None]) -> None:
        self._activity.begin()
        task = asyncio.ensure_future(work)
        self._ending.add(task)

        def over(done: asyncio.Task[None]) -> None:
            self._ending.discard(done)
            self._activity.end()

        task.add_done_callback(over)

    async def _close(self, session_id: str) -> None:
        browser = self._open.pop(session_id, None)
        if browser is not None:
            if browser.timer is not None:
                browser.timer.cancel()
            for run in browser.running:
                run.cancel()
            await browser.stack.aclose()


async def _close_context(context: BrowserContext) -> None:
    with suppress(Error, TimeoutError):
        async with asyncio.timeout(_CLOSE_SECONDS):
            await context.close()
