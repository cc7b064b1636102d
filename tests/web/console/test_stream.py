"""The stream that open pages listen to."""

import asyncio

from receiver.core.clock import VirtualClock
from receiver.core.ports.store import Store
from receiver.web.console.access import StoreAccess
from receiver.web.console.changes import PAUSE, StoreChanges
from tests.doubles import delivery, eventually, soon
from tests.stores.opened import Opened


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
