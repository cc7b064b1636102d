"""A store that is replaced, fails or is locked while the console runs."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from datetime import timedelta
from pathlib import Path

import pytest

from receiver.core.clock import VirtualClock
from receiver.core.ports.reports import Reports
from receiver.core.types import HandlerSwitch
from receiver.core.work import WorkFilter
from receiver.errors import StoreError
from receiver.stores.memory import MemoryStore
from receiver.stores.sqlite.store import SqliteStore
from receiver.web.console.access import StoreAccess
from receiver.web.console.app import ConsoleApp
from receiver.web.console.background_reports import BackgroundReport
from receiver.web.console.changes import StoreChanges
from receiver.web.console.parts import ConsoleOptions
from tests.doubles import NOON, delivery, eventually, soon
from tests.stores.opened import DEAD, ONE, Opened
from tests.web.console.browsing import Browser


@asynccontextmanager
async def opening(path: Path) -> AsyncIterator[Opened]:
    """Open a database with all its faces."""
    store = SqliteStore(f"sqlite:///{path}")
    async with (
        store.log() as log,
        store.queue() as queue,
        store.queue() as other,
        store.controls() as controls,
        store.reports() as reports,
        store.maintenance() as maintenance,
    ):
        yield Opened(log, queue, other, controls, reports, maintenance)


@asynccontextmanager
async def console_of(path: Path) -> AsyncIterator[Browser]:
    """Browse a console for a database."""
    store = SqliteStore(f"sqlite:///{path}", patience=timedelta(milliseconds=20))
    app = ConsoleApp(store, VirtualClock(NOON + timedelta(hours=1)), ConsoleOptions(version="1"))
    async with app.lifespan():
        yield Browser(app)


def replace(path: Path, by: Path) -> None:
    """Put another database in the place of one, with its log."""
    for ending in ("-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)
    by.rename(path)


async def test_no_page_and_no_action_sees_a_database_that_was_replaced(tmp_path: Path) -> None:
    """Its ids are of other rows. An action would change those."""
    path, other = tmp_path / "receiver.db", tmp_path / "other.db"
    async with opening(other) as new:
        await new.add(delivery("new-1"), delivery("new-2"))
    async with opening(path) as old:
        await old.in_state(DEAD)
    async with console_of(path) as browser:
        assert "item-0" in await browser.page("/deliveries")
        await browser.page("/")
        replace(path, other)

        page = await browser.page("/deliveries")
        assert "item-0" not in page
        assert "new-2" in page
        assert (await browser.send("/work-items/retry", ids="1")).status_code == 404
        await browser.page("/")
        assert "2 deliveries, at most 2 in 15 minutes" in await browser.page("/")


async def test_a_database_that_is_away_is_told_and_found_again(tmp_path: Path) -> None:
    path, away = tmp_path / "receiver.db", tmp_path / "away.db"
    async with opening(path) as opened:
        await opened.add(delivery("a"))
    async with console_of(path) as browser:
        await browser.page("/deliveries")
        path.rename(away)
        assert "no database yet" in await browser.page("/deliveries", 503)
        away.rename(path)
        assert "/deliveries/a" in await browser.page("/deliveries")


async def test_a_locked_store_refuses_the_decision_alone(tmp_path: Path) -> None:
    """Other pages go on with the connection that they use."""
    path = tmp_path / "receiver.db"
    async with opening(path) as opened:
        await opened.in_state(DEAD)
    async with console_of(path) as browser:
        token = await browser.token()
        with closing(sqlite3.connect(path, isolation_level=None)) as locking:
            locking.execute("BEGIN IMMEDIATE")
            await browser.page("/deliveries")
            answer = await browser.http.post("/handlers/one/pause", data={"token": token})
            assert answer.status_code == 503
            sent = await browser.http.post("/work-items/retry", data={"token": token, "ids": "1"})
            await browser.app.parts.runs.idle()
            page = await browser.page(sent.headers["location"])
            assert "stopped: " in page
            assert "0 of 1 changed" in page
        assert browser.app.parts.access.openings == 1


async def test_a_page_that_reads_is_not_cut_off_by_one_that_fails() -> None:
    access = StoreAccess(MemoryStore())
    async with access.reading() as reports:
        with pytest.raises(StoreError):
            async with access.reading():
                raise StoreError("the disk is gone")
        async with access.reading() as again:
            assert again is not None
        assert await reports.handler_names() == []
    assert access.openings == 2
    await access.aclose()


async def test_a_report_is_not_shown_hours_after_it_was_read() -> None:
    """Of a large store each report takes longer than a page waits; nobody may have asked for the last one."""
    access, numbers, gate = StoreAccess(MemoryStore()), iter(range(9)), asyncio.Event()

    async def read(reports: Reports) -> int:
        number = next(numbers)
        if number == 0:
            await gate.wait()
        return number

    report = BackgroundReport(access, read)
    assert await report.get() is None
    gate.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    assert await report.get() == 1
    await report.aclose()
    await access.aclose()


async def test_a_fault_of_the_watch_ends_the_streams_so_that_browsers_come_again() -> None:
    class Broken(StoreAccess):
        """Fails in a way that nobody expects."""

        @asynccontextmanager
        async def reading(self) -> AsyncIterator[Reports]:
            raise RuntimeError("no way")
            yield

    changes = StoreChanges(Broken(MemoryStore()), VirtualClock(NOON))

    assert await soon(changes.next()) is False


async def test_an_action_with_a_fault_says_so(tmp_path: Path) -> None:
    path = tmp_path / "receiver.db"
    async with opening(path):
        pass
    async with console_of(path) as browser:
        runs = browser.app.parts.runs

        async def carry_out(run: object) -> None:
            raise RuntimeError("no way")

        run = runs.start("retry", "all", "here", planned=3, carry_out=carry_out)
        await runs.idle()

        assert run.error is not None
        assert "stopped: the console has a fault (RuntimeError)" in await browser.page(f"/actions/{run.id}")


async def test_a_stop_counts_the_chunk_that_was_changed() -> None:
    app = ConsoleApp(MemoryStore(), VirtualClock(NOON), ConsoleOptions(version="1"))
    runs, begun, goes_on = app.parts.runs, asyncio.Event(), asyncio.Event()

    async def carry_out(run: object) -> None:
        begun.set()
        await goes_on.wait()
        one.changed = one.seen = 500

    one = runs.start("retry", "all", "here", planned=900, carry_out=carry_out)
    await soon(begun.wait())
    closing_down = asyncio.create_task(runs.aclose())
    await eventually(lambda: one.must_stop)
    goes_on.set()
    await soon(closing_down)

    assert one.changed == 500
    assert one.error is not None
    assert "stopped" in one.error


async def test_actions_that_run_stay_in_the_list() -> None:
    app = ConsoleApp(MemoryStore(), VirtualClock(NOON), ConsoleOptions(version="1"))
    runs, goes_on = app.parts.runs, asyncio.Event()

    async def carry_out(run: object) -> None:
        await goes_on.wait()

    running = runs.start("retry", "all", "here", planned=9, carry_out=carry_out)
    for _ in range(150):
        runs.done("pause", "handler one", "here", changed=1)

    assert runs.find(running.id) is running
    assert len(runs.newest_first()) == 100
    goes_on.set()
    await runs.idle()


async def test_two_tabs_that_retry_the_same_plan_change_each_item_once(browser: Browser, opened: Opened) -> None:
    for _ in range(3):
        await opened.in_state(DEAD)
    token = await browser.token("/work-items/retry/plan?handler=one&state=dead")
    form = {"token": token, "handler": "one", "state": "dead", "last_id": "3", "count": "3"}

    await asyncio.gather(*[browser.http.post("/work-items/retry", data=form) for _ in range(2)])
    await browser.app.parts.runs.idle()

    assert sum(run.changed for run in browser.app.parts.runs.newest_first()) == 3
    assert {one.state.value async for one in opened.reports.work_items(WorkFilter())} == {"waiting"}


async def test_a_switch_is_that_of_now_whenever_the_counts_are_from(browser: Browser, opened: Opened) -> None:
    await opened.in_state(DEAD)
    await browser.page("/handlers")
    await opened.controls.switch(ONE, HandlerSwitch.PAUSED)

    assert "Resume" in await browser.page("/handlers/one")
