"""Profiles: the cookies and the local storage of a session, kept by name for later sessions of the same team."""

import asyncio
import base64
import json
import sqlite3
from contextlib import suppress
from typing import Any

from playwright.async_api import BrowserContext, Error

from receiver.core.clock import Clock, to_micros
from receiver.emulator.browser.tabs import TabSession, TabWatch
from receiver.emulator.state.database import StateDatabase, pack, unpack
from receiver.runtime.log_lines import event_log

log = event_log(__name__)
Json = dict[str, Any]

MAX_BYTES = 16 * 1024 * 1024
"""Bytes of one profile as JSON; a larger one is not kept."""
MOST_PROFILES = 100
"""Profiles of one team; the one that was saved first goes first."""
_SECONDS = 15.0
_PAGE = base64.b64encode(b"<html></html>").decode()
_FILL = "items => { for (const one of items) localStorage.setItem(one.name, one.value); }"
_KEEP = "INSERT OR REPLACE INTO browser_profiles (team, name, saved_at, state) VALUES (?, ?, ?, ?)"
_FIND = "SELECT state FROM browser_profiles WHERE team = ? AND name = ?"
_EVICT = (
    "DELETE FROM browser_profiles WHERE team = ? AND name NOT IN"
    " (SELECT name FROM browser_profiles WHERE team = ? ORDER BY saved_at DESC, rowid DESC LIMIT ?)"
)


class ProfileStore:
    """Keeps profiles in the state. Of two sessions with one profile, the one that ends last is kept."""

    def __init__(self, database: StateDatabase, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def load(self, team: str, name: str) -> Json | None:
        """Return a profile; None if the team has none of this name."""
        row = await self._database.run(lambda connection: connection.execute(_FIND, (team, name)).fetchone())
        if row is None:
            return None
        state: Json = json.loads(await asyncio.to_thread(unpack, row["state"]))
        return state

    async def save(self, team: str, name: str, state: Json) -> None:
        """Keep a profile in place of the one before. It may hold what signs a user in."""
        data = json.dumps(state).encode()
        if len(data) > MAX_BYTES:
            log.warning("browser_profile_not_saved", extra={"reason": f"it has more than {MAX_BYTES:,} bytes"})
            return
        packed = await asyncio.to_thread(pack, data)
        now = to_micros(self._clock.now())

        def write(connection: sqlite3.Connection) -> None:
            connection.execute(_KEEP, (team, name, now, packed))
            connection.execute(_EVICT, (team, team, MOST_PROFILES))

        await self._database.run(write)


class EmptyPages:
    """Answers every request of a tab with an empty page: storage can be reached without asking the site."""

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
            found = {"requestId": request_id, "responseCode": 200, "responseHeaders": headers, "body": _PAGE}
            await session.send("Fetch.fulfillRequest", found)

    async def close(self) -> None:
        """Do nothing: a tab that is gone asks for nothing."""


async def restore(context: BrowserContext, tabs: TabWatch, state: Json) -> None:
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


async def collect(context: BrowserContext, tabs: TabWatch) -> Json | None:
    """Return the cookies and the local storage of a browser; None if it does not tell them in time."""
    try:
        async with asyncio.timeout(_SECONDS), tabs.answering(EmptyPages):
            state = await context.storage_state()
    except (Error, TimeoutError) as exc:
        log.warning("browser_profile_not_saved", extra={"reason": str(exc).partition("\n")[0][:300] or "time-out"})
        return None
    return {"cookies": state["cookies"], "origins": state["origins"]}
