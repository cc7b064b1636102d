"""What handlers did and who works, on the overview and on the page of a handler."""

from dataclasses import replace
from datetime import timedelta

import pytest

from receiver.core.activity import LATE, HandlerLimits, WorkerSign
from receiver.core.claims import HandlerClaim
from receiver.core.clock import VirtualClock
from receiver.core.work import StoreFacts
from tests.doubles import OpenStore
from tests.stores.opened import DEAD, DONE, ONE, TWO, A, Opened, ended
from tests.web.console.browsing import Browser

SIGN = WorkerSign(A, "host-<1>", 4711, "1.2.3", VirtualClock().now())
MINUTE, SECOND, HOUR = timedelta(minutes=1), timedelta(seconds=1), timedelta(hours=1)


async def handle(opened: Opened) -> None:
    """Let handler one succeed three times and fail once, now and a moment ago."""
    ids = await opened.items(4, ONE, claim=True)
    for work_id, state in zip(ids, (DONE, DONE, DONE, DEAD), strict=True):
        await opened.settle(ended(work_id, state, error="no" if state is DEAD else None))
    await opened.queue.sign_off(A)


@pytest.mark.parametrize("path", ["/", f"/handlers/{ONE}"])
async def test_what_was_handled_is_drawn_and_told(
    browser: Browser, opened: Opened, clock: VirtualClock, path: str
) -> None:
    await handle(opened)
    clock.jump(-30 * MINUTE)  # of the hour that the console is ahead

    page = await browser.page(path)

    assert "Handled in the last hour" in page
    assert "Handled in the last day" in page
    assert "4 attempts, " in page
    assert "25% failed" in page
    assert page.count("3 succeeded, 1 failed") == 2


async def test_attempts_of_no_time_took_less_than_a_millisecond(
    browser: Browser, opened: Opened, clock: VirtualClock
) -> None:
    """A sentence with "less than" says neither `0 ms` nor `< 1 ms`."""
    (work_id,) = await opened.items(1, ONE, claim=True)
    settled = ended(work_id)
    at_once = settled.attempt._replace(started_at=settled.attempt.ended_at)
    await opened.settle(settled._replace(attempt=at_once))
    await opened.queue.sign_off(A)

    page = await browser.page(f"/handlers/{ONE}")

    assert "half took less than about 1 ms, 95% less than about 1 ms" in page
    assert "1 attempt, " in page


async def test_a_handler_shows_only_its_own_attempts(browser: Browser, opened: Opened, clock: VirtualClock) -> None:
    await handle(opened)
    await opened.items(1, TWO)
    clock.jump(-30 * MINUTE)

    page = await browser.page(f"/handlers/{TWO}")

    assert page.count("No attempt has ended.") == 2


async def test_attempts_of_long_ago_are_not_shown(browser: Browser, opened: Opened, clock: VirtualClock) -> None:
    await handle(opened)
    clock.jump(timedelta(hours=3))

    page = await browser.page("/")

    assert page.count("4 attempts, ") == 1  # of the day
    assert page.count("No attempt has ended.") == 1


async def test_workers_are_shown_with_what_they_run(browser: Browser, opened: Opened, clock: VirtualClock) -> None:
    await opened.queue.sign_on(SIGN, now=clock.now())
    await opened.items(2, ONE, claim=True)

    page = await browser.page("/")

    assert "host-&lt;1&gt;" in page
    assert "process 4711" in page
    assert f"2 {ONE}" in page
    assert "1.2.3" in page
    assert ">late<" not in page


async def test_a_worker_that_nobody_has_seen_needs_somebody(
    browser: Browser, opened: Opened, clock: VirtualClock
) -> None:
    await opened.queue.sign_on(SIGN, now=clock.now() - LATE - 1.5 * MINUTE)

    page = await browser.page("/")

    assert f"The worker {A} has not been seen for 3m30s: it hangs, or was killed" in page
    assert 'href="/#workers"' in page


async def test_without_a_worker_the_overview_says_how_to_start_one(browser: Browser, opened: Opened) -> None:
    assert "No worker runs." in await browser.page("/")


async def test_a_handler_shows_how_much_of_its_limits_it_uses(
    browser: Browser, opened: Opened, clock: VirtualClock
) -> None:
    """One has its own limits; the other has the slots of the workers."""
    limits = {ONE: HandlerLimits(3, 6 * SECOND)}
    await opened.queue.sign_on(replace(SIGN, slots=32, limits=limits), now=clock.now())
    await opened.items(4, ONE)
    claim = HandlerClaim(ONE, concurrency=3, interval=6 * SECOND)
    assert len(await opened.claimed(claimants=[claim], now=HOUR)) == 1
    await opened.items(2, TWO, claim=True)

    page = await browser.page(f"/handlers/{ONE}")
    assert "1 of 3, its own limit" in page
    assert "10 attempts a minute at most; the limit is reached: the next may begin" in page
    assert "6 s from now" in page
    assert "2 of 32, the slots of all workers" in await browser.page(f"/handlers/{TWO}")
    listed = await browser.page("/handlers")
    assert '1 <span class="note">of 3</span>' in listed
    assert "10 a minute" in listed

    clock.jump(LATE + SECOND)
    page = await browser.page(f"/handlers/{TWO}")
    assert "2; no worker lives" in page


@pytest.mark.parametrize("store", ["memory"], indirect=True)
async def test_the_lag_of_a_standby_is_shown(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a standby there is no such figure."""
    assert "lag of the last standby" not in await browser.page("/")

    async def facts(self: OpenStore) -> StoreFacts:
        return StoreFacts(1, standby_lag=timedelta(seconds=70))

    monkeypatch.setattr(OpenStore, "facts", facts)

    assert "<b>1 min 10 s</b><span>lag of the last standby</span>" in await browser.page("/")
