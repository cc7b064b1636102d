"""The counts of deliveries by minute, which the first page draws."""

from datetime import timedelta

from receiver.core.activity import MINUTE
from receiver.core.clock import VirtualClock
from receiver.web.console.reports import by_span, last_steps
from tests.doubles import NOON, delivery
from tests.stores.opened import Opened
from tests.web.console.browsing import Browser

HOUR = timedelta(hours=1)


def test_a_span_ends_with_the_minute_of_now() -> None:
    steps = last_steps(NOON + timedelta(seconds=59), HOUR, MINUTE)

    assert (steps[0], steps[-1], len(steps)) == (NOON - 59 * MINUTE, NOON, 60)


def test_longer_steps_begin_at_whole_ones() -> None:
    """So that a bar does not change while it is drawn again."""
    steps = last_steps(NOON + 17 * MINUTE, HOUR, 15 * MINUTE)

    assert steps == [NOON - 30 * MINUTE, NOON - 15 * MINUTE, NOON, NOON + 15 * MINUTE]
    assert by_span({NOON: 1, NOON + 14 * MINUTE: 2, NOON + 15 * MINUTE: 4}, steps, 15 * MINUTE) == [
        (steps[0], 0),
        (steps[1], 0),
        (NOON, 3),
        (NOON + 15 * MINUTE, 4),
    ]


async def test_the_first_page_draws_them(browser: Browser, opened: Opened, clock: VirtualClock) -> None:
    """The clock stands at one o'clock: what came at noon is in the bars of the day only."""
    await opened.add(delivery("a", received_at=clock.now()), delivery("b", received_at=NOON))

    page = await browser.page("/")

    assert 'aria-label="1 deliveries, at most 1 in 1 minutes"' in page
    assert 'aria-label="2 deliveries, at most 1 in 15 minutes"' in page
    assert page.count('class="bar"') == 3
