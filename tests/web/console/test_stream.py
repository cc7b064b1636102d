"""The stream that open pages listen to."""

import asyncio

from starlette.types import Message

from receiver.core.clock import VirtualClock
from receiver.core.ports.store import Store
from receiver.web.console.pages.overview import MAX_STREAMS
from receiver.web.console.store import PAUSE, StoreAccess, StoreChanges
from tests.doubles import delivery, eventually, soon
from tests.stores.opened import Opened
from tests.web.console.browsing import Browser


async def test_all_who_wait_hear_of_a_change(store: Store, opened: Opened, clock: VirtualClock) -> None:
    """A store tells a change only once; ten open pages all have to renew themselves."""
    access = StoreAccess(store)
    changes = StoreChanges(access, clock)
    pages = [asyncio.create_task(changes.next()) for _ in range(10)]

    async def keep_time() -> None:
        while True:
            clock.advance(PAUSE)
            await asyncio.sleep(0)

    ticking = asyncio.create_task(keep_time())
    await opened.add(delivery("a"))

    assert await soon(asyncio.gather(*pages)) == [True] * 10
    ticking.cancel()
    changes.end()
    await access.aclose()


async def test_the_end_wakes_everybody(store: Store, opened: Opened, clock: VirtualClock) -> None:
    access = StoreAccess(store)
    changes = StoreChanges(access, clock)
    await opened.add(delivery("a"))
    assert await soon(changes.next())
    page = asyncio.create_task(changes.next())
    await eventually(lambda: not page.done())

    changes.end()

    assert await soon(page) is False
    assert await changes.next() is False
    await access.aclose()


async def test_only_so_many_pages_listen_at_a_time(browser: Browser, opened: Opened) -> None:
    """Each holds a connection. A HEAD holds none."""
    tasks, begun = [], 0

    async def send(message: Message) -> None:
        nonlocal begun
        begun += message["type"] == "http.response.body"

    async def receive() -> Message:
        await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    scope = {"type": "http", "method": "GET", "path": "/changes", "query_string": b"", "root_path": ""}
    scope["headers"] = [(b"host", b"127.0.0.1")]
    tasks = [asyncio.create_task(browser.app(dict(scope), receive, send)) for _ in range(MAX_STREAMS)]
    await eventually(lambda: begun >= MAX_STREAMS)

    refused = await browser.http.get("/changes")
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "30")
    assert (await browser.http.head("/changes")).status_code == 200
    await browser.page("/deliveries")

    for task in tasks[:2]:
        task.cancel()
    await asyncio.gather(*tasks[:2], return_exceptions=True)
    more = asyncio.create_task(browser.app(dict(scope), receive, send))
    before = begun
    await eventually(lambda: begun > before)
    browser.app.parts.changes.end()
    await soon(asyncio.gather(*tasks[2:], more))
