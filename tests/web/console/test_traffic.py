"""The counts of deliveries by minute, which the first page draws."""

from datetime import timedelta

from receiver.core.arrivals import MINUTE
from receiver.core.clock import VirtualClock
from receiver.core.ports.store import Store
from receiver.web.console.access import StoreAccess
from receiver.web.console.traffic import DAY, Traffic
from tests.doubles import NOON, delivery
from tests.stores.opened import Opened
from tests.web.console.browsing import Browser

HOUR = timedelta(hours=1)


async def test_the_last_hour_is_counted_by_minute(store: Store, opened: Opened, clock: VirtualClock) -> None:
    """The clock stands at one o'clock: what came at noon is just outside, and what came later is counted once."""
    access = StoreAccess(store)
    traffic = Traffic(access, clock)
    for number, seconds in enumerate((0, 60, 61, 3599, 3600)):
        await opened.add(delivery(f"k{number}", received_at=NOON + timedelta(seconds=seconds)))

    for _ in range(2):
        traffic.look()
        await traffic.counted()
        assert traffic.is_counted
        points = traffic.last(HOUR, MINUTE)

    assert len(points) == 60
    assert [(moment, count) for moment, count in points if count] == [
        (NOON + MINUTE, 2),
        (NOON + 59 * MINUTE, 1),
        (NOON + HOUR, 1),
    ]
    assert sum(count for _, count in traffic.last(DAY, 15 * MINUTE)) == 5
    await access.aclose()


async def test_what_is_older_than_a_day_is_left_out_and_forgotten(
    store: Store, opened: Opened, clock: VirtualClock
) -> None:
    access = StoreAccess(store)
    traffic = Traffic(access, clock)
    await opened.add(delivery("old", received_at=NOON - DAY))
    await opened.add(delivery("new", received_at=NOON))
    traffic.look()
    await traffic.counted()
    assert sum(count for _, count in traffic.last(2 * DAY, HOUR)) == 1

    clock.advance(DAY)
    traffic.look()
    await traffic.counted()

    assert sum(count for _, count in traffic.last(3 * DAY, HOUR)) == 0
    await access.aclose()


async def test_the_first_page_draws_them(browser: Browser, opened: Opened, clock: VirtualClock) -> None:
    await opened.add(delivery("a", received_at=clock.now()))
    await browser.page("/")
    await browser.app.parts.traffic.counted()

    page = await browser.page("/")

    assert 'aria-label="1 deliveries, at most 1 in 1 minutes"' in page
    assert page.count('class="bar"') == 2
