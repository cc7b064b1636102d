"""Checks: what they find, record, cost and tell."""

import asyncio
from datetime import timedelta
from typing import Any

import httpx
import pytest

from receiver.emulator.failures import ScrapeFailed
from tests.doubles import event_of, eventually, turns
from tests.emulator.monitors.studio import HOOK, pages_target, site_target, studio
from tests.emulator.pages import HOME, TEAM, model_that

Json = dict[str, Any]
A, B, C = f"{HOME}a", f"{HOME}b", f"{HOME}c"
PRICE = {"type": "object", "properties": {"price": {"type": "number"}}}
VALUES = {"type": "changeTracking", "modes": ["json"], "schema": PRICE}
BOTH = {"type": "changeTracking", "modes": ["json", "git-diff"], "schema": PRICE}


def summary(**counts: int) -> Json:
    zero = dict.fromkeys(("same", "changed", "new", "removed", "error"), 0)
    return {"totalPages": sum(counts.values()), **zero, **counts}


async def test_pages_are_new_then_the_same_then_changed() -> None:
    async with studio() as one:
        one.web.show("a", A)
        one.web.show("b", B)
        monitor = await one.create(pages_target(A, B))
        first = await one.check(monitor)
        second = await one.check(monitor)
        one.web.show("bb", B)
        third = await one.check(monitor)

    assert [check["summary"] for check in (first, second, third)] == [
        summary(new=2),
        summary(same=2),
        summary(same=1, changed=1),
    ]
    assert [check["status"] for check in (first, second, third)] == ["completed"] * 3
    assert [page["url"] for page in first["pages"]] == [A, B]
    page = third["pages"][1]
    assert page["previousScrapeId"] == second["pages"][1]["currentScrapeId"]
    assert page["diff"]["text"].endswith("-b\n\\ No newline at end of file\n+bb\n\\ No newline at end of file\n")
    assert list(page["diff"]["json"]) == ["files"]
    assert (first["pages"][1]["diff"], second["pages"][1]["diff"]) == (None, None)


async def test_text_that_only_moved_is_the_same() -> None:
    async with studio() as one:
        one.web.show("<p>one</p><p>two</p>")
        monitor = await one.create()
        await one.check(monitor)
        one.web.show("<p>two</p><p>one</p>")
        check = await one.check(monitor)

    assert check["summary"] == summary(same=1)


async def test_values_are_compared_by_their_paths() -> None:
    """In this mode the text is not compared, and the check keeps all values."""
    async with studio() as one:
        one.web.show("<p>Price: 5</p>")
        monitor = await one.create(pages_target(HOME, formats=["markdown", VALUES]))
        await one.check(monitor)
        one.web.show("<p>Price: 5</p><p>more</p>")
        same = await one.check(monitor)
        one.web.show("<p>Price: 6</p>")
        changed = await one.check(monitor)

    assert same["summary"] == summary(same=1)
    assert same["pages"][0]["snapshot"] == {"json": {"price": 5}}
    assert changed["pages"][0]["diff"] == {"json": {"price": {"previous": 5, "current": 6}}}
    assert one.mailbox.of("monitor.page")[2]["data"][0]["diff"] == {
        "json": {"price": {"previous": 5, "current": 6}}
    }


async def test_in_mixed_mode_text_and_values_are_compared() -> None:
    async with studio() as one:
        one.web.show("<p>Price: 5</p>")
        monitor = await one.create(pages_target(HOME, formats=["markdown", BOTH]))
        await one.check(monitor)
        one.web.show("<p>Price: 5</p><p>more</p>")
        text = await one.check(monitor)
        one.web.show("<p>Price: 6</p><p>more</p>")
        both = await one.check(monitor)

    assert "+more" in text["pages"][0]["diff"]["text"]
    assert text["pages"][0]["diff"]["json"] == {}
    assert both["pages"][0]["diff"]["json"] == {"price": {"previous": 5, "current": 6}}
    assert "+Price: 6" in both["pages"][0]["diff"]["text"]


async def test_an_event_has_no_tree_of_lines() -> None:
    async with studio() as one:
        one.web.show("a")
        monitor = await one.create()
        await one.check(monitor)
        one.web.show("b")
        await one.check(monitor)

    assert list(one.mailbox.of("monitor.page")[1]["data"][0]["diff"]) == ["text"]


async def test_every_page_is_told_and_then_the_check() -> None:
    async with studio() as one:
        one.web.show("a", A)
        one.web.failures[B] = ScrapeFailed("SCRAPE_SITE_ERROR", "refused")
        monitor = await one.create(pages_target(A, B))
        check = await one.check(monitor)
        await one.check(monitor)

    page, failed, completed = one.mailbox.events[:3]
    assert page == {
        "type": "monitor.page",
        "id": check["id"],
        "success": True,
        "error": None,
        "data": [
            {
                "monitorId": monitor["id"],
                "checkId": check["id"],
                "url": A,
                "status": "new",
                "previousScrapeId": None,
                "currentScrapeId": check["pages"][0]["currentScrapeId"],
                "error": None,
                "isMeaningful": None,
                "judgment": None,
                "diff": None,
            }
        ],
    }
    assert (failed["success"], failed["error"], failed["data"][0]["status"]) == (False, "refused", "error")
    assert completed == {
        "type": "monitor.check.completed",
        "id": check["id"],
        "success": False,
        "error": None,
        "data": [
            {
                "monitorId": monitor["id"],
                "checkId": check["id"],
                "status": "partial",
                "summary": summary(new=1, error=1),
            }
        ],
    }
    assert [one_event["data"][0]["status"] for one_event in one.mailbox.of("monitor.page")[2:]] == ["same", "error"]


async def test_a_page_of_two_targets_is_told_once() -> None:
    async with studio() as one:
        one.web.show("a", A)
        check = await one.check(await one.create(pages_target(A), pages_target(A)))

    assert check["summary"] == summary(new=2)
    assert len(one.mailbox.of("monitor.page")) == 1


async def test_a_page_that_fails_is_compared_with_the_last_good_one() -> None:
    async with studio() as one:
        one.web.show("a")
        monitor = await one.create()
        first = await one.check(monitor)
        one.web.failures[HOME] = ScrapeFailed("SCRAPE_SITE_ERROR", "refused")
        failed = await one.check(monitor)
        one.web.failures.clear()
        again = await one.check(monitor)

    assert failed["status"] == "partial"
    assert failed["pages"][0]["error"] == "refused"
    assert failed["pages"][0]["previousScrapeId"] == first["pages"][0]["currentScrapeId"]
    assert again["summary"] == summary(same=1)


async def test_a_page_of_a_site_that_is_gone_is_removed_without_an_event() -> None:
    """When it comes back it is new."""
    async with studio() as one:
        for url in (A, B, C):
            one.web.show(url, url)
        monitor = await one.create(site_target())
        found = []
        for urls in ([A, B, C], [A], [A], [A, B]):
            one.site.urls = urls
            found.append(await one.check(monitor))

    assert [check["summary"] for check in found] == [
        summary(new=3),
        summary(same=1, removed=2),
        summary(same=1),
        summary(same=1, new=1),
    ]
    removed = [page for page in found[1]["pages"] if page["status"] == "removed"]
    assert [page["url"] for page in removed] == [B, C]
    assert removed[0]["previousScrapeId"] == found[0]["pages"][1]["currentScrapeId"]
    assert removed[0]["currentScrapeId"] is None
    assert len(one.mailbox.of("monitor.page")) == 3 + 1 + 1 + 2
    assert found[0]["targetResults"][0]["type"] == "crawl"


async def test_a_page_of_a_site_that_fails_is_not_removed() -> None:
    async with studio() as one:
        one.web.show("a", A)
        monitor = await one.create(site_target())
        one.site.urls = [A]
        await one.check(monitor)
        one.web.failures[A] = ScrapeFailed("SCRAPE_SITE_ERROR", "refused")
        check = await one.check(monitor)

    assert check["summary"] == summary(error=1)


async def test_a_site_that_cannot_be_reached_has_not_removed_its_pages() -> None:
    async with studio() as one:
        one.web.show("a", A)
        one.web.show("b", B)
        monitor = await one.create(site_target())
        one.site.urls = [A, B]
        await one.check(monitor)
        one.site.urls = [A]
        one.web.failures[A] = ScrapeFailed("SCRAPE_SITE_ERROR", "refused")
        check = await one.check(monitor)

    assert check["summary"] == summary(error=1)
    assert check["targetResults"][0]["removedProcessed"] is False


async def test_a_crawl_that_cannot_begin_fails_the_check_and_removes_nothing() -> None:
    async with studio() as one:
        one.web.show("a", A)
        one.site.urls = [A]
        monitor = await one.create(site_target())
        await one.check(monitor)
        one.site.failure = ScrapeFailed("SCRAPE_DNS_RESOLUTION_ERROR", "no such host")
        check = await one.check(monitor)
        completed = one.mailbox.events[-1]

    assert (check["status"], check["error"], check["summary"]) == ("failed", "no such host", summary())
    assert (completed["success"], completed["error"]) == (False, "no such host")


async def test_without_searches_a_search_target_cannot_be_checked_and_the_check_says_so() -> None:
    search = {"type": "search", "queries": ["bikes"]}
    async with studio() as one:
        one.web.show("a")
        alone = await one.check(await one.create(search, goal="new bikes"))
        both = await one.check(await one.create(search, pages_target(), goal="new bikes"))

    assert (alone["status"], both["status"]) == ("failed", "partial")
    assert "cannot search" in alone["error"]
    assert alone["targetResults"][0] | {"targetId": "", "degradedReason": ""} == {
        "targetId": "",
        "type": "search",
        "searchCompleted": False,
        "degradedReason": "",
    }
    assert both["summary"] == summary(new=1)


async def test_a_check_is_charged_and_recorded() -> None:
    async with studio() as one:
        one.web.show("<p>Price: 5</p>", A)
        one.web.show("b", B)
        monitor = await one.create(pages_target(A, B, formats=["markdown", VALUES]))
        started = await one.monitors.run(TEAM, monitor["id"])
        await one.monitors.over()
        check = await one.answer(monitor, started["id"])

    assert started == {
        "id": started["id"],
        "monitorId": monitor["id"],
        "status": "queued",
        "trigger": "manual",
        "scheduledFor": None,
        "startedAt": None,
        "finishedAt": None,
        "estimatedCredits": 10,
        "reservedCredits": 0,
        "actualCredits": 0,
        "billingStatus": "not_applicable",
        "summary": summary(),
        "targetResults": [],
        "notificationStatus": {},
        "error": None,
        "createdAt": "2026-01-01T12:00:00.000Z",
        "updatedAt": "2026-01-01T12:00:00.000Z",
    }
    assert check["startedAt"] == check["finishedAt"] == "2026-01-01T12:00:00.000Z"
    assert [check[key] for key in ("estimatedCredits", "reservedCredits", "actualCredits")] == [10, 10, 10]
    assert check["billingStatus"] == "confirmed"
    assert check["notificationStatus"]["webhook"]["queued"] is True
    assert check["targetResults"] == [
        {
            "targetId": monitor["targets"][0]["id"],
            "type": "scrape",
            "expectedJobs": [page["currentScrapeId"] for page in check["pages"]],
        }
    ]
    assert one.purse.charged == [5, 5]
    assert check["pages"][0] | {"id": "", "currentScrapeId": ""} == {
        "id": "",
        "targetId": monitor["targets"][0]["id"],
        "url": A,
        "status": "new",
        "previousScrapeId": None,
        "currentScrapeId": "",
        "statusCode": 200,
        "error": None,
        "metadata": {
            "title": "A page",
            "contentType": "text/html; charset=utf-8",
            "proxyUsed": "basic",
            "creditsUsed": 5,
        },
        "judgment": None,
        "diff": None,
        "createdAt": "2026-01-01T12:00:00.000Z",
        "snapshot": {"json": {"price": 5}},
    }


async def test_a_check_in_which_nothing_happens_for_an_hour_has_failed() -> None:
    async def never(request: httpx.Request) -> httpx.Response:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    asked = asyncio.Event()
    async with studio(model=model_that(never)) as one:  # type: ignore[arg-type]
        one.web.show("a")
        monitor = await one.create(goal="a")
        await one.check(monitor)
        one.web.show("b")
        started = await one.monitors.run(TEAM, monitor["id"])
        await asked.wait()
        one.clock.advance(timedelta(minutes=60))
        await one.monitors.over()
        check = await one.answer(monitor, started["id"])

    assert (check["status"], check["error"]) == ("failed", "Nothing happened in the check for 60 minutes")


async def test_a_crash_fails_the_check_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    async with studio() as one:
        one.web.show("a")
        monitor = await one.create(site_target())
        one.site.failure = RuntimeError("unforeseen")  # type: ignore[assignment]
        check = await one.check(monitor)
        again = await one.check(await one.create())

    assert (check["status"], again["status"]) == ("failed", "completed")
    assert [event_of(record) for record in caplog.records] == ["job_crashed"]


async def test_pages_are_scraped_ahead_and_recorded_in_their_order() -> None:
    urls = [f"{HOME}{number}" for number in range(9)]
    async with studio() as one:
        for url in urls:
            one.web.show(url, url)
        one.web.gate = asyncio.Event()
        monitor = await one.create(pages_target(*urls))
        started = await one.monitors.run(TEAM, monitor["id"])
        await eventually(lambda: len(one.web.fetched) >= 4)
        await turns()
        ahead = len(one.web.fetched)
        one.web.gate.set()
        await one.monitors.over()
        check = await one.answer(monitor, started["id"])

    assert ahead == 4
    assert [page["url"] for page in check["pages"]] == urls


async def test_the_copies_of_the_cache_are_not_compared() -> None:
    async with studio() as one:
        one.web.show("a")
        monitor = await one.create(pages_target(HOME, maxAge=3_600_000))
        await one.check(monitor)
        one.web.show("b")
        check = await one.check(monitor)

    assert check["summary"] == summary(changed=1)


async def test_mails_are_not_sent_and_the_check_says_so() -> None:
    email = {"enabled": True, "recipients": ["ann@example.com"], "includeDiffs": False}
    async with studio() as one:
        one.web.show("a")
        monitor = await one.create(notification={"email": email}, webhook=HOOK)
        check = await one.check(monitor)

    assert check["notificationStatus"]["email"] == {"attempted": False, "success": False, "skipped": True}
    assert monitor["emailRecipientSubscriptions"][0]["email"] == "ann@example.com"
