"""What the pages do: plans first, then the change, and a record of it."""

import asyncio
import re
from datetime import timedelta
from html import unescape

import pytest

from receiver.core.claims import ClaimLimits
from receiver.core.clock import VirtualClock
from receiver.core.deliveries import Quarantined
from receiver.core.recorded_actions import NewAction
from receiver.core.types import HandlerSwitch
from receiver.core.work import WorkFilter
from tests.doubles import LONG, NOON, body_of, delivery
from tests.stores.opened import DEAD, DONE, HELD, MUCH, ONE, TWO, WAITING, Opened, ended
from tests.web.console.browsing import Browser, links

_FIELD = re.compile(r'<input type="hidden" name="(\w+)" value="([^"]*)"')


async def states(opened: Opened) -> list[str]:
    """Return the states of all work items, the oldest first."""
    return [one.state.value async for one in opened.reports.work_items(WorkFilter())][::-1]


async def finished(browser: Browser) -> str:
    """Return the page of the first action, when it has ended."""
    await browser.app.parts.runs.idle()
    return await browser.page("/actions/1")


async def test_dead_items_of_a_filter_are_retried_after_a_plan(browser: Browser, opened: Opened) -> None:
    for _ in range(3):
        await opened.in_state(DEAD)
    await opened.in_state(DEAD, TWO)

    plan = await browser.page("/work-items/retry/plan?handler=one&state=dead")
    assert "Retry 3 work items?" in plan
    assert await states(opened) == ["dead"] * 4

    answer = await browser.send(
        "/work-items/retry", at="/work-items/retry/plan?handler=one", handler="one", state="dead"
    )

    assert answer.headers["location"] == "/actions/1"
    page = await finished(browser)
    assert "3 of 3 changed" in page
    assert await states(opened) == ["waiting"] * 3 + ["dead"]
    record = await browser.page("/actions")
    assert "10.0.0.7" in record
    assert "handler one, state dead" in record


async def test_what_came_after_the_plan_is_left_alone(browser: Browser, opened: Opened) -> None:
    first = await opened.in_state(DEAD)
    await opened.in_state(DEAD)

    await browser.send("/work-items/retry", handler="one", last_id=str(first))
    await finished(browser)

    assert await states(opened) == ["waiting", "dead"]


async def test_one_item_is_buried_with_a_reason(browser: Browser, opened: Opened) -> None:
    await opened.in_state(WAITING)
    assert "Bury" in await browser.page("/work-items/1")

    await browser.send("/work-items/bury", ids="1", reason="nobody wants it")
    await finished(browser)

    assert await states(opened) == ["dead"]
    assert "nobody wants it" in await browser.page("/work-items/1")


async def test_an_action_on_everything_is_refused(browser: Browser, opened: Opened) -> None:
    await opened.in_state(DEAD)

    for fields in ({}, {"state": "gone"}, {"ids": "x"}, {"ids": "1 " * 500}):
        assert (await browser.send("/work-items/retry", **fields)).status_code == 400
    assert (await browser.send("/work-items/explode", ids="1")).status_code == 400
    assert (await browser.send("/work-items/retry", ids="99")).status_code == 404
    assert await states(opened) == ["dead"]


async def test_a_plan_says_what_is_left_alone_and_what_will_not_run(browser: Browser, opened: Opened) -> None:
    await opened.in_state(DEAD)
    await opened.in_state(DONE)
    await opened.controls.switch(ONE, HandlerSwitch.PAUSED)

    plan = await browser.page("/work-items/retry/plan?ids=1,2")

    assert "one is paused: they wait until it is resumed" in plan
    assert "Retry 2 work items?" in plan or "Retry 1 work item?" in plan


async def test_a_delivery_runs_again_for_all_its_handlers_or_one(browser: Browser, opened: Opened) -> None:
    await opened.add(delivery("a"))
    await opened.route(ONE, TWO)

    answer = await browser.send("/deliveries/a/run-again", at="/deliveries/a")
    assert answer.headers["location"] == "/deliveries/a"
    await browser.send("/deliveries/a/run-again", at="/deliveries/a", handler="two")

    items = [one async for one in opened.reports.work_items(WorkFilter())]
    assert [one.handler for one in items] == ["two", "two", "one", "two", "one"]
    assert {one.state for one in items[:3]} == {WAITING}


async def test_a_handler_is_paused_resumed_and_disabled(browser: Browser, opened: Opened) -> None:
    await opened.in_state(WAITING)

    for verb, switch in (
        ("pause", HandlerSwitch.PAUSED),
        ("resume", HandlerSwitch.ON),
        ("disable", HandlerSwitch.DISABLED),
    ):
        answer = await browser.send(f"/handlers/one/{verb}", at="/handlers/one")
        assert answer.headers["location"] == "/handlers/one"
        assert (await opened.reports.switches()).get(ONE, HandlerSwitch.ON) is switch
    assert (await browser.send("/handlers/none/pause")).status_code == 400
    assert (await browser.send("/handlers/one/explode")).status_code == 400


async def test_a_request_leaves_quarantine_if_it_can_be_read_now(browser: Browser, opened: Opened) -> None:
    await opened.log.quarantine(
        Quarantined(NOON, "malformed", "too new", None, (), body_of(id="job", webhookId="w"))
    )
    await opened.log.quarantine(Quarantined(NOON, "malformed", "no JSON", None, (), b"{"))

    released = await browser.send("/quarantine/1/release", at="/quarantine/1")
    stays = await browser.send("/quarantine/2/release", at="/quarantine/2")

    assert released.headers["location"] == "/deliveries/w"
    assert "It stays" in stays.text


async def test_a_held_item_can_be_buried(browser: Browser, opened: Opened) -> None:
    await opened.in_state(HELD)

    await browser.send("/work-items/bury", ids="1")
    await finished(browser)

    assert await states(opened) == ["dead"]


async def test_a_plan_takes_the_beginning_of_a_job_as_its_list_does(browser: Browser, opened: Opened) -> None:
    await opened.add(delivery("a", job_id="job-17"), delivery("b", job_id="other"))
    await opened.route(ONE, claim=False)

    listed = await browser.page("/work-items?job=job-1")
    plan = await browser.page("/work-items/bury/plan?job=job-1")
    await browser.send("/work-items/bury", at="/work-items/bury/plan?job=job-1", job="job-1", reason="old")
    await finished(browser)

    assert "/work-items/1" in listed
    assert "Bury 1 work item?" in plan
    assert await states(opened) == ["dead", "waiting"]


async def test_a_group_of_any_size_is_one_action(browser: Browser, opened: Opened) -> None:
    """Its errors differ in numbers, and hold what a glob would take for a wildcard. Others stay."""
    for number, work_id in enumerate(await opened.items(300, ONE, claim=True)):
        error = "[x]? gone*" if number < 10 else f"ValueError: row {number} of 300 [sic]\nand more {number}"
        await opened.settle(ended(work_id, DEAD, error=error))
    held = (await opened.items(1, ONE, claim=True, lane="a"))[0]
    await opened.settle(ended(held, DEAD, error="x] gone", holds_lane=True))

    page = await browser.page("/dead")
    of_group = "/work-items/retry/plan?handler=one&state=dead&error="
    plans = [link for link in links(page) if link.startswith(of_group)]
    assert len(plans) == 3
    assert len([link for link in links(page) if link.startswith("/work-items/bury/plan?")]) == 1
    for link, count in zip(plans[:2], (290, 10), strict=True):
        plan = await browser.page(link)
        assert f"Retry {count} work items?" in plan
        await browser.http.post("/work-items/retry", data=dict(_FIELD.findall(unescape(plan))))
        await browser.app.parts.runs.idle()

    assert [one.id for one in await opened.work(state=DEAD)] == [held]
    assert (await browser.http.get("/work-items/retry/plan?ids=" + "1," * 201)).status_code == 400


async def test_what_fits_only_after_the_plan_needs_a_new_plan(browser: Browser, opened: Opened) -> None:
    """An older item that died meanwhile was in no plan."""
    (older, newer) = await opened.items(2, ONE, claim=True)
    await opened.settle(ended(newer, DEAD, error="no"))
    at = "/work-items/retry/plan?handler=one&state=dead"
    form = dict(_FIELD.findall(await browser.page(at)))
    assert form["count"] == "1"

    await opened.settle(ended(older, DEAD, error="no"))
    answer = await browser.http.post("/work-items/retry", data=form)

    assert answer.status_code == 409
    assert "More work items match now" in answer.text
    assert await states(opened) == ["dead", "dead"]
    again = dict(_FIELD.findall(answer.text))
    await browser.http.post("/work-items/retry", data=again)
    await finished(browser)
    assert await states(opened) == ["waiting", "waiting"]


async def test_what_came_after_the_plan_does_not_stop_it(browser: Browser, opened: Opened) -> None:
    """Where work fails all the time, no plan is ever the newest."""
    (first,) = await opened.items(1, ONE, claim=True)
    await opened.settle(ended(first, DEAD, error="no"))
    form = dict(_FIELD.findall(await browser.page("/work-items/retry/plan?handler=one&state=dead")))

    (later,) = await opened.items(1, ONE, claim=True)
    await opened.settle(ended(later, DEAD, error="no"))
    answer = await browser.http.post("/work-items/retry", data=form)
    await finished(browser)

    assert answer.status_code == 303
    assert await states(opened) == ["waiting", "dead"]
    assert "1 of 1 changed; done" in await browser.page(answer.headers["location"])


async def test_a_span_of_time_is_that_of_the_plan(browser: Browser, opened: Opened, clock: VirtualClock) -> None:
    """With `until=30m` more and more items would fit while somebody reads the plan."""
    for minutes in (0, 31):
        (work_id,) = await opened.items(1, ONE, claim=True, now=timedelta(minutes=minutes))
        await opened.settle(ended(work_id, DEAD, error="no"))
    form = dict(_FIELD.findall(await browser.page("/work-items/retry/plan?until=30m")))
    assert form["count"] == "1"

    clock.advance(timedelta(minutes=10))
    await browser.http.post("/work-items/retry", data=form)
    await finished(browser)

    assert await states(opened) == ["waiting", "dead"]


async def test_a_record_says_what_is_kept_and_where(browser: Browser, opened: Opened) -> None:
    """It outlives the console, and has what the command line did."""
    await opened.in_state(WAITING)
    await browser.send("/handlers/one/pause", at="/handlers/one")
    by_command = NewAction("cli operator@host", "prune", "events older than 30 days", 5)
    await opened.controls.begin_action(by_command, now=NOON + timedelta(hours=1))

    page = await browser.page("/actions")

    assert "for 90 days" in page
    assert "console 10.0.0.7" in page
    assert "handler one" in page
    assert "cli operator@host" in page
    assert "It runs in another process" in await browser.page("/actions/2")


async def page_with(browser: Browser, path: str, text: str) -> str:
    """Return a page as soon as it has a text: its counts may be those of the page before."""
    async with asyncio.timeout(LONG):
        page = await browser.page(path)
        while text not in page:
            page = await browser.page(path)
    return page


def undo_link(page: str) -> str:
    """Return the link to the plan of an undo."""
    (link,) = [one for one in links(page) if "/plan?action=" in one]
    return link


async def test_a_retry_is_undone_as_far_as_it_has_not_run(browser: Browser, opened: Opened) -> None:
    for _ in range(3):
        await opened.in_state(DEAD)
    await browser.send("/work-items/retry", handler="one", state="dead")
    page = await finished(browser)
    (first,) = await opened.claimed(wanted=ClaimLimits(1, MUCH), now=timedelta(hours=2))
    assert first == 1

    page = await browser.page("/actions/1")
    assert "2 work items have not run yet and can become dead again." in page
    plan = await browser.page(undo_link(page))
    assert "Take back 2 work items?" in plan
    assert "This undoes" in plan
    form = dict(_FIELD.findall(plan))
    answer = await browser.http.post("/work-items/take-back", data=form)
    await browser.app.parts.runs.idle()

    assert await states(opened) == ["running", "dead", "dead"]
    assert {one.last_error for one in await opened.work(state=DEAD)} == {"no"}
    assert "Nothing is left to take back" in await browser.page("/actions/1")
    again = await browser.page(answer.headers["location"])
    assert "2 work items can run again" in again


async def test_a_burial_is_undone(browser: Browser, opened: Opened) -> None:
    for state in (WAITING, HELD, DEAD):
        await opened.in_state(state)
    await browser.send("/work-items/bury", handler="one", reason="a mistake")
    page = await finished(browser)
    assert await states(opened) == ["dead"] * 3

    assert "2 work items can run again" in page
    form = dict(_FIELD.findall(await browser.page(undo_link(page))))
    await browser.http.post("/work-items/retry", data=form)
    await browser.app.parts.runs.idle()

    assert await states(opened) == ["waiting", "waiting", "dead"]


async def test_a_run_again_is_undone_before_it_runs(browser: Browser, opened: Opened) -> None:
    await opened.add(delivery("a"))
    await opened.route(ONE, TWO)
    await browser.send("/deliveries/a/run-again", at="/deliveries/a")

    form = dict(_FIELD.findall(await browser.page(undo_link(await browser.page("/actions/1")))))
    await browser.http.post("/work-items/take-back", data=form)
    await browser.app.parts.runs.idle()

    assert await states(opened) == ["running", "running", "dead", "dead"]
    assert "action #1 was undone" in await browser.page("/work-items/3")
    assert (await browser.send("/work-items/take-back", handler="one")).status_code == 400


@pytest.mark.parametrize(
    ("verb", "said", "back"),
    [
        ("pause", "It runs again, with 1 waiting item.", "resume"),
        ("disable", "It runs again, with 0 waiting items. 1 item that it skipped stay so", "resume"),
    ],
)
async def test_a_switch_is_set_back(browser: Browser, opened: Opened, verb: str, said: str, back: str) -> None:
    await opened.in_state(WAITING)
    await browser.send(f"/handlers/one/{verb}", at="/handlers/one")
    await opened.claimed(now=timedelta(hours=2))  # a worker looks for work, and skips that of disabled handlers

    page = await page_with(browser, "/actions/1", said)
    assert f"Undo: {back}" in page
    await browser.send(f"/handlers/one/{back}", at="/actions/1")

    assert await opened.reports.switches() == {}
    assert "There is nothing to undo: the handler is on now" in await browser.page("/actions/1")
    assert f"Undo: {verb}" in await browser.page("/actions/2")


async def test_an_action_is_stopped_and_goes_on(browser: Browser, opened: Opened, clock: VirtualClock) -> None:
    """Without JavaScript the page reloads by itself. An action of a process that died is continued, too."""
    for _ in range(2):
        await opened.in_state(DEAD)
    choice = {"handler": "one", "state": "dead"}
    died = NewAction("console 10.0.0.9", "retry", "work items with handler one", 2, choice)
    number = await opened.controls.begin_action(died, now=clock.now())
    await opened.controls.retry([1], now=clock.now(), action=number)

    running = await browser.page("/actions/1")
    assert "1 of 2 changed …" in running
    assert 'value="50"' in running
    assert '<noscript><meta http-equiv="refresh"' in running
    clock.advance(timedelta(minutes=2))
    page = await browser.page("/actions/1")
    assert "interrupted: nothing was seen of it since" in page
    assert "noscript" not in page
    (rest,) = [one for one in links(page) if "handler=one&state=dead" in one]
    assert "Retry 1 work item?" in await browser.page(rest)


async def test_what_cannot_be_undone_says_why(browser: Browser, opened: Opened) -> None:
    request = Quarantined(NOON, "malformed", "no JSON", None, (), body_of(id="j", webhookId="w"))
    await opened.log.quarantine(request)
    await browser.send("/quarantine/1/release", at="/quarantine/1")

    page = await browser.page("/actions/1")

    assert "The request is a delivery now." in page
    assert "Undo …" not in page


@pytest.mark.parametrize("field", ["last_id", "count"])
async def test_a_form_with_an_odd_number_is_refused(browser: Browser, opened: Opened, field: str) -> None:
    await opened.in_state(DEAD)

    for odd in ("²", "9" * 30, "-1"):
        answer = await browser.send("/work-items/retry", handler="one", **{field: odd})
        assert answer.status_code == 400


async def test_the_deliveries_of_a_filter_run_again_after_a_plan(browser: Browser, opened: Opened) -> None:
    """All handlers that had work of them, the oldest delivery first. What came after the plan is not in it."""
    for number in range(3):
        await opened.add(delivery(f"k{number}", kind="crawl.page" if number else "crawl.completed"))
    await opened.route(ONE, TWO)
    page = await browser.page("/deliveries?type=crawl.page&state=working")
    assert "Retry their dead work" not in page
    (link,) = [one for one in links(page) if one.startswith("/run-again/plan?")]

    plan = await browser.page(link)
    assert "Run the handlers of 2 deliveries again?" in plan
    form = dict(_FIELD.findall(plan))
    answer = await browser.http.post("/run-again", data=form)
    await browser.app.parts.runs.idle()

    made = [(one.key, one.handler) for one in await opened.work(action=1)][::-1]
    assert made == [("k1", "one"), ("k1", "two"), ("k2", "one"), ("k2", "two")]
    page = await browser.page(answer.headers["location"])
    assert "4 work items made; looked at 2 of 2; done" in page
    assert "4 work items have not run yet" in page
    assert (await browser.send("/run-again")).status_code == 400
    dead = await browser.page("/deliveries?job=job&state=dead")
    assert "/work-items/retry/plan?job=job&state=dead" in links(dead)


async def test_more_deliveries_than_in_the_plan_need_a_new_plan(browser: Browser, opened: Opened) -> None:
    await opened.add(delivery("a"))
    form = dict(_FIELD.findall(await browser.page("/run-again/plan?type=crawl.page")))
    await opened.add(delivery("b"))

    answer = await browser.http.post("/run-again", data=form)

    assert answer.status_code == 409
    assert "More deliveries match now" in answer.text
    assert await opened.reports.actions(limit=1) == []
