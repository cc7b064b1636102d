"""Actions beside others: forms that are sent twice, pages that are old, and what somebody else has done since."""

import asyncio
import re
from datetime import timedelta

from receiver.core.clock import VirtualClock
from receiver.core.recorded_actions import NewAction
from receiver.core.types import HandlerSwitch
from tests.doubles import delivery
from tests.stores.opened import DEAD, ONE, TWO, WAITING, Opened
from tests.web.console.browsing import Browser

_FIELD = re.compile(r'<input type="hidden" name="(\w+)" value="([^"]*)"')


def fields(page: str) -> dict[str, str]:
    """Return the hidden fields of a page's form."""
    return dict(_FIELD.findall(page))


async def test_a_plan_that_is_sent_twice_runs_once(browser: Browser, opened: Opened, clock: VirtualClock) -> None:
    """A second click, or the back button, makes no second work items. A new plan does."""
    await opened.add(delivery("a"))
    await opened.route(ONE, TWO)
    form = fields(await browser.page("/run-again/plan?type=crawl.page"))

    for _ in range(2):
        answer = await browser.http.post("/run-again", data=form)
        assert answer.headers["location"] == "/actions/1"
        await browser.app.parts.runs.idle()

    assert len(await opened.work()) == 4
    clock.advance(timedelta(seconds=1))
    again = fields(await browser.page("/run-again/plan?type=crawl.page"))
    assert (await browser.http.post("/run-again", data=again)).headers["location"] == "/actions/2"


async def test_two_clicks_run_a_delivery_once(browser: Browser, opened: Opened, clock: VirtualClock) -> None:
    """Both forms may arrive at the same time. Another handler, or a newer page, is another wish."""
    await opened.add(delivery("a"))
    await opened.route(ONE, TWO)
    form = fields(await browser.page("/deliveries/a")) | {"handler": "one"}

    sent = [browser.http.post("/deliveries/a/run-again", data=form) for _ in range(2)]
    assert {one.status_code for one in await asyncio.gather(*sent)} == {303}
    assert len(await opened.work()) == 3
    await browser.http.post("/deliveries/a/run-again", data=form | {"handler": "two"})
    assert len(await opened.work()) == 4
    clock.advance(timedelta(seconds=1))
    newer = fields(await browser.page("/deliveries/a")) | {"handler": "one"}
    await browser.http.post("/deliveries/a/run-again", data=newer)
    assert len(await opened.work()) == 5


async def test_only_the_last_switch_of_a_handler_is_undone(browser: Browser, opened: Opened) -> None:
    """Somebody else resumed it, and paused it for a reason of their own. Another handler does not matter."""
    await opened.add(delivery("a"))
    await opened.route(ONE, TWO)
    for verb in ("pause", "resume", "pause"):
        await browser.send(f"/handlers/one/{verb}", at="/handlers/one")
    await browser.send("/handlers/two/pause", at="/handlers/two")

    assert "Undo: resume" in await browser.page("/actions/3")
    page = await browser.page("/actions/1")
    assert "Undo: resume" not in page
    assert "switched again since, by action #3" in page


async def test_an_old_page_does_not_undo_what_others_switched_since(browser: Browser, opened: Opened) -> None:
    await opened.in_state(WAITING)
    await browser.send("/handlers/one/pause", at="/handlers/one")
    form = fields(await browser.page("/actions/1"))
    await opened.controls.switch(ONE, HandlerSwitch.DISABLED)

    answer = await browser.http.post("/handlers/one/resume", data=form)

    assert answer.status_code == 409
    assert "The handler is disabled now: it was switched since." in answer.text
    assert await opened.reports.switches() == {ONE: HandlerSwitch.DISABLED}


async def test_only_what_can_go_on_says_so(browser: Browser, opened: Opened) -> None:
    """Deliveries that run again would all run once more."""
    await opened.in_state(DEAD)
    release = asyncio.Event()

    async def wait(*_: object) -> None:
        await release.wait()

    pages = []
    for verb in ("retry", "run again"):
        action = NewAction("console", verb, "all", 1, {"handler": "one"})
        number = await browser.app.parts.runs.start(action, wait)
        pages.append(await browser.page(f"/actions/{number}"))
    release.set()
    await browser.app.parts.runs.idle()

    assert ["Stop after this part" in page for page in pages] == [True, True]
    assert ["The rest can go on later." in page for page in pages] == [True, False]
    # The page is drawn anew each second: the button keeps the focus by its id, and nobody hears all of it again.
    assert all('<button id="stop">' in page and 'aria-busy="true"' in page for page in pages)


async def test_a_text_that_no_store_can_keep_finds_nothing(browser: Browser, opened: Opened) -> None:
    """Only somebody who writes addresses by hand sends NUL. The store is not said to be out of use."""
    await opened.in_state(DEAD)
    for path in ("/work-items?error=a%00", "/deliveries?job=a%00", "/run-again/plan?type=a%00"):
        assert (await browser.http.get(path)).status_code in (200, 404), path
    for path in ("/deliveries/a%00", "/jobs/~YQA", "/handlers/a%00"):
        assert (await browser.http.get(path)).status_code in (400, 404), path

    await browser.send("/work-items/bury", ids="1", reason="a\0b")
    await browser.app.parts.runs.idle()
    assert (await opened.reports.action(1)).what.choice["reason"] == "a\\x00b"
    assert browser.app.parts.access.losses == 0
