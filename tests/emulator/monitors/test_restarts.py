"""Checks that the end of the process cuts short, and what comes after the restart."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from receiver.core.clock import VirtualClock
from receiver.emulator.failures import ScrapeFailed
from tests.doubles import eventually, turns
from tests.emulator.monitors.studio import HOURLY, Studio, pages_target, site_target, studio
from tests.emulator.pages import HOME, TEAM

Json = dict[str, Any]
URLS = [f"{HOME}{number}" for number in range(6)]


def show_all(one: Studio) -> None:
    for url in URLS:
        one.web.show(url, url)


async def until_pages(one: Studio, check_id: str, count: int) -> None:
    """Return when the check has so many pages."""
    while len(await one.monitors.pages(check_id, 100, 0, None)) < count:
        await turns(1)


async def cut_short(one: Studio, monitor: Json, pages: int) -> str:
    """Start a check that stays where it is after some pages, and return its id."""
    one.web.gate = asyncio.Event()
    one.web.gate.set()
    one.web.shut_after = pages
    check_id = str((await one.monitors.run(TEAM, monitor["id"]))["id"])
    await until_pages(one, check_id, pages)
    await turns()
    return check_id


@pytest.mark.parametrize("pages", [0, 1, 5])
async def test_a_check_goes_on_where_it_was(tmp_path: Path, pages: int) -> None:
    """No page is recorded, paid for or told twice; the answer is that of a check without a restart."""
    clock = VirtualClock()
    async with studio(tmp_path / "state.db", clock=clock) as one:
        show_all(one)
        monitor = await one.create(pages_target(*URLS))
        check_id = await cut_short(one, monitor, pages)
        before = await one.answer(monitor, check_id)
        told, paid = list(one.mailbox.events), list(one.purse.charged)
    clock.advance(timedelta(minutes=1))
    async with studio(tmp_path / "state.db", clock=clock) as one:
        show_all(one)
        await one.monitors.over()
        check = await one.answer(monitor, check_id, limit="100")
        again = await one.check(monitor)
        told += one.mailbox.events[: len(URLS) + 1 - pages]
        paid += one.purse.charged[: len(URLS) - pages]

    assert (before["status"], before["summary"]["totalPages"]) == ("running", pages)
    assert (check["status"], check["summary"]["new"], check["actualCredits"]) == ("completed", 6, 6)
    assert check["startedAt"] == before["startedAt"]
    assert [page["url"] for page in check["pages"]] == URLS
    assert check["targetResults"][0]["expectedJobs"] == [page["currentScrapeId"] for page in check["pages"]]
    assert [event["data"][0].get("url") for event in told] == [*URLS, None]
    assert (sum(paid), {event["id"] for event in told}) == (6, {check_id})
    assert again["summary"]["same"] == 6


async def test_a_target_that_is_done_is_not_looked_at_again(tmp_path: Path) -> None:
    """Also what could not be checked at all is remembered."""
    search = {"type": "search", "queries": ["bikes"]}
    async with studio(tmp_path / "state.db") as one:
        one.site.failure = ScrapeFailed("SCRAPE_DNS_RESOLUTION_ERROR", "no such host")
        show_all(one)
        monitor = await one.create(search, site_target(), pages_target(*URLS), judgeEnabled=False)
        check_id = await cut_short(one, monitor, 2)
    async with studio(tmp_path / "state.db") as one:
        show_all(one)
        await one.monitors.over()
        check = await one.answer(monitor, check_id)
        crawled = list(one.site.crawled)

    assert (check["status"], check["summary"]["totalPages"], crawled) == ("partial", 6, [])
    assert "cannot search" in check["error"]
    assert "no such host" in check["error"]
    assert [result["type"] for result in check["targetResults"]] == ["search", "crawl", "scrape"]


async def test_a_check_goes_on_with_what_its_monitor_was(tmp_path: Path) -> None:
    """A change of the monitor counts from the next check on."""
    async with studio(tmp_path / "state.db") as one:
        show_all(one)
        monitor = await one.create(pages_target(*URLS))
        check_id = await cut_short(one, monitor, 2)
        await one.monitors.change(TEAM, monitor["id"], {"targets": [pages_target(HOME)]})
    async with studio(tmp_path / "state.db") as one:
        show_all(one)
        await one.monitors.over()
        check = await one.answer(monitor, check_id)

    assert (check["status"], check["summary"]["new"]) == ("completed", 6)


async def test_a_check_that_was_queued_runs(tmp_path: Path) -> None:
    """Due runs are queued together with the time of the next one: none is lost."""
    clock = VirtualClock()
    async with studio(tmp_path / "state.db", clock=clock) as one:
        one.web.gate = asyncio.Event()
        monitor = await one.create(schedule=HOURLY)
        clock.advance(timedelta(hours=3))
        await eventually(lambda: bool(one.web.fetched))
        queued = await one.checks(monitor)
    async with studio(tmp_path / "state.db", clock=clock) as one:
        one.web.show("a")
        await one.idle()
        checks = await one.checks(monitor)

    assert [check["status"] for check in queued] == ["queued", "queued", "running"]
    assert [check["status"] for check in checks] == ["completed"] * 3
    assert [check["id"] for check in checks] == [check["id"] for check in queued]


async def test_after_a_restart_with_an_earlier_clock_monitors_run_by_it(tmp_path: Path) -> None:
    """The clock was moved forward by hand, and a new process begins with the time of the machine."""
    ahead = VirtualClock()
    ahead.advance(timedelta(days=365))
    async with studio(tmp_path / "state.db", clock=ahead) as one:
        monitor = await one.create()
    async with studio(tmp_path / "state.db") as one:
        one.web.show("a")
        kept = await one.monitors.get(TEAM, monitor["id"])
        await one.passes(timedelta(hours=1))
        (check,) = await one.checks(monitor)

    assert monitor["nextRunAt"] == "2027-01-01T13:00:00.000Z"
    assert kept["nextRunAt"] == check["scheduledFor"] == "2026-01-01T13:00:00.000Z"


async def test_while_a_check_goes_on_its_monitor_is_busy(tmp_path: Path) -> None:
    async with studio(tmp_path / "state.db") as one:
        show_all(one)
        monitor = await one.create(pages_target(*URLS))
        check_id = await cut_short(one, monitor, 2)
    async with studio(tmp_path / "state.db") as one:
        show_all(one)
        answer = await one.operations.run(one.call(id=monitor["id"]))
        kept = await one.monitors.get(TEAM, monitor["id"])
        await one.monitors.over()

    assert (answer.status, answer.body["checkId"]) == (409, check_id)
    assert kept["currentCheckId"] == check_id


async def test_a_check_that_stood_still_for_an_hour_has_failed(tmp_path: Path) -> None:
    """Its end is told, its pages stay, and the monitor is free for the next one."""
    clock = VirtualClock()
    async with studio(tmp_path / "state.db", clock=clock) as one:
        show_all(one)
        monitor = await one.create(pages_target(*URLS), schedule={"cron": "0 0 1 1 *"})
        check_id = await cut_short(one, monitor, 2)
    clock.advance(timedelta(minutes=61))
    async with studio(tmp_path / "state.db", clock=clock) as one:
        show_all(one)
        await one.monitors.over()
        check = await one.answer(monitor, check_id)
        told = list(one.mailbox.events)
        again = await one.check(monitor)

    assert (check["status"], check["error"]) == ("failed", "Nothing happened in the check for 60 minutes")
    assert (check["billingStatus"], len(check["pages"])) == ("confirmed", 2)
    assert [(event["type"], event["success"]) for event in told] == [("monitor.check.completed", False)]
    assert (again["status"], again["summary"]["same"]) == ("completed", 2)


async def test_a_page_is_not_kept_without_its_event_and_its_price(tmp_path: Path) -> None:
    """They are one transaction: what fails in it undoes the page."""
    async with studio(tmp_path / "state.db") as one:
        show_all(one)
        monitor = await one.create(pages_target(*URLS))
        one.mailbox.full_after = 2
        started = await one.monitors.run(TEAM, monitor["id"])
        await one.monitors.over()
        pages = await one.monitors.pages(started["id"], 100, 0, None)

    assert [page["url"] for page in pages] == URLS[:2]
    assert [event["data"][0]["url"] for event in one.mailbox.events] == URLS[:2]
