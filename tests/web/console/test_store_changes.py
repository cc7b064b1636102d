"""A store that is replaced, fails or is locked while the console runs."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from datetime import timedelta
from pathlib import Path

import pytest

from receiver.core.clock import VirtualClock
from receiver.core.ports.reports import Reports
from receiver.core.ports.store import Controls
from receiver.core.recorded_actions import NewAction
from receiver.core.types import HandlerSwitch
from receiver.core.work import WorkFilter
from receiver.errors import StoreError
from receiver.stores.memory import MemoryStore
from receiver.stores.sqlite import bodies
from receiver.stores.sqlite.store import SqliteStore
from receiver.web.console.actions import MAX_RUNNING, ActionRun, ActionRuns, TooManyActions
from receiver.web.console.app import ConsoleApp
from receiver.web.console.parts import ConsoleOptions
from receiver.web.console.reports import BackgroundReport
from receiver.web.console.store import StoreAccess, StoreChanges
from tests.doubles import NOON, OpenStore, delivery, soon
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


async def test_a_delivery_whose_body_is_away_is_shown_without_it(tmp_path: Path) -> None:
    """With the reason, and everything else. There is nothing to download."""
    path = tmp_path / "receiver.db"
    async with opening(path) as opened, console_of(path) as browser:
        await opened.add(delivery("a", body=b" " * 10_000))
        await opened.route(ONE)
        bodies.body_files(path)[0].unlink()

        shown = await browser.page("/deliveries/a")
        assert "the body of delivery a cannot be read:" in shown
        assert "/work-items/1" in shown
        assert "Headers" in shown
        assert "/deliveries/a/body" not in shown
        downloaded = await browser.http.get("/deliveries/a/body")
        assert downloaded.status_code == 503
        assert "the body of delivery a cannot be read:" in downloaded.text


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
            assert sent.status_code == 503
        assert browser.app.parts.access.losses == 0


async def test_a_page_that_reads_is_not_cut_off_by_one_that_fails() -> None:
    access = StoreAccess(OpenStore())
    async with access.reading() as reports:
        with pytest.raises(StoreError):
            async with access.reading():
                raise StoreError("the disk is gone")
        async with access.reading() as again:
            assert again is not None
        assert await reports.handler_names() == []
    assert access.losses == 1
    await access.aclose()


async def test_a_report_is_not_shown_hours_after_it_was_read() -> None:
    """Of a large store each report takes longer than a page waits; nobody may have asked for the last one."""
    access, numbers, gate = StoreAccess(OpenStore()), iter(range(9)), asyncio.Event()

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

    changes = StoreChanges(Broken(OpenStore()), VirtualClock(NOON))

    assert await soon(changes.next()) is False


ACTION = NewAction("console 10.0.0.7", "retry", "all", 900)


async def test_an_action_with_a_fault_says_so(tmp_path: Path) -> None:
    path = tmp_path / "receiver.db"
    async with opening(path):
        pass
    async with console_of(path) as browser:
        runs = browser.app.parts.runs

        async def carry_out(*_: object) -> None:
            raise RuntimeError("no way")

        number = await runs.start(ACTION, carry_out)
        await runs.idle()

        page = await browser.page(f"/actions/{number}")
        assert "stopped: a fault of the program: RuntimeError" in page
        assert "no way" not in page


async def test_a_stop_counts_the_chunk_that_was_changed() -> None:
    """Whether the console stops or somebody stops the action: it can go on with the rest."""
    store, clock = OpenStore(), VirtualClock(NOON)
    runs, begun, goes_on = ActionRuns(StoreAccess(store), clock), asyncio.Event(), asyncio.Event()

    async def carry_out(reports: Reports, controls: Controls, run: ActionRun) -> None:
        begun.set()
        await goes_on.wait()
        await controls.advance_action(run.number, seen=500, changed=400, now=NOON)

    number = await runs.start(ACTION, carry_out)
    waiting = await runs.start(ACTION, carry_out)
    await soon(begun.wait())
    runs.stop(number)
    closing_down = asyncio.create_task(runs.aclose())
    goes_on.set()
    await soon(closing_down)

    stopped = await store.action(number)
    assert (stopped.seen, stopped.changed, stopped.error) == (500, 400, "it was stopped")
    assert not runs.is_running(number)
    never_begun = await store.action(waiting)
    assert (never_begun.seen, never_begun.error) == (0, "it was stopped")


async def test_no_more_actions_begin_than_a_console_can_hold() -> None:
    runs, goes_on = ActionRuns(StoreAccess(OpenStore()), VirtualClock(NOON)), asyncio.Event()

    async def carry_out(*_: object) -> None:
        await goes_on.wait()

    for _ in range(MAX_RUNNING):
        await runs.start(ACTION, carry_out)
    with pytest.raises(TooManyActions):
        await runs.start(ACTION, carry_out)
    goes_on.set()
    await runs.idle()
    assert await runs.start(ACTION, carry_out)
    await runs.idle()


async def test_a_slow_page_does_not_hold_up_the_others() -> None:
    """Each page that reads gets a connection that nobody uses, until all are in use. Then it shares one."""
    access = StoreAccess(MemoryStore(), most=3)
    async with AsyncExitStack() as stack:
        lent = [await stack.enter_async_context(access.reading()) for _ in range(3)]
        assert len(set(map(id, lent))) == 3
        async with access.reading() as shared:
            assert shared in lent
    async with access.reading() as again:
        assert again in lent
    await access.aclose()


async def test_a_search_that_never_ends_lets_other_pages_through(tmp_path: Path) -> None:
    """One connection is held inside its thread, as by a statement that takes for ever."""
    path = tmp_path / "receiver.db"
    async with opening(path) as opened:
        await opened.add(delivery("a"))
    async with console_of(path) as browser:
        begun, ends = threading.Event(), threading.Event()

        def hold(_: object) -> None:
            begun.set()
            ends.wait()

        async with browser.app.parts.access.reading() as reports:
            held = asyncio.create_task(reports.database.call(hold))
            await soon(asyncio.to_thread(begun.wait))
            try:
                assert "/deliveries/a" in await soon(browser.page("/deliveries"))
                assert "#1" not in await soon(browser.page("/work-items"))
            finally:
                ends.set()
            await held


async def test_two_tabs_that_retry_the_same_plan_change_each_item_once(browser: Browser, opened: Opened) -> None:
    for _ in range(3):
        await opened.in_state(DEAD)
    token = await browser.token("/work-items/retry/plan?handler=one&state=dead")
    form = {"token": token, "handler": "one", "state": "dead", "last_id": "3", "count": "3"}

    await asyncio.gather(*[browser.http.post("/work-items/retry", data=form) for _ in range(2)])
    await browser.app.parts.runs.idle()

    assert sum(one.changed for one in await opened.reports.actions(limit=9)) == 3
    assert {one.state.value async for one in opened.reports.work_items(WorkFilter())} == {"waiting"}


async def test_a_switch_is_that_of_now_whenever_the_counts_are_from(browser: Browser, opened: Opened) -> None:
    await opened.in_state(DEAD)
    await browser.page("/handlers")
    await opened.controls.switch(ONE, HandlerSwitch.PAUSED)

    assert "Resume" in await browser.page("/handlers/one")
