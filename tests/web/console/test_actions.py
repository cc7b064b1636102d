"""What the pages do: plans first, then the change, and a record of it."""

import re
from datetime import timedelta

import pytest

from receiver.core.clock import VirtualClock
from receiver.core.quarantine import Quarantined
from receiver.core.types import HandlerSwitch
from receiver.core.work import WorkFilter
from tests.doubles import NOON, body_of, delivery
from tests.stores.opened import DEAD, DONE, HELD, ONE, TWO, WAITING, Opened, ended
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


async def test_two_hundred_items_of_a_group_are_one_action(browser: Browser, opened: Opened) -> None:
    """The address of their plan is longer than any other value may be."""
    for work_id in await opened.items(200, ONE, claim=True):
        await opened.settle(ended(work_id, DEAD, error="no"))

    page = await browser.page("/dead")
    (retry,) = [link for link in links(page) if link.startswith("/work-items/retry/plan?ids=")]
    assert any(link.startswith("/work-items/bury/plan?ids=") for link in links(page))
    plan = await browser.page(retry)
    await browser.send("/work-items/retry", at=retry, ids=retry.partition("ids=")[2])
    await finished(browser)

    assert "Retry 200 work items?" in plan
    assert set(await states(opened)) == {"waiting"}
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
    page = await browser.page("/actions")

    assert "it forgets this list when it stops" in page
    assert "console_action" in page


@pytest.mark.parametrize("field", ["last_id", "count"])
async def test_a_form_with_an_odd_number_is_refused(browser: Browser, opened: Opened, field: str) -> None:
    await opened.in_state(DEAD)

    for odd in ("²", "9" * 30, "-1"):
        answer = await browser.send("/work-items/retry", handler="one", **{field: odd})
        assert answer.status_code == 400
