"""What the pages show, over each kind of store."""

import json
import re
import shutil
from datetime import timedelta
from types import SimpleNamespace

import pytest

from receiver.core.clock import VirtualClock
from receiver.core.deliveries import Quarantined
from receiver.core.ports.store import Store
from receiver.core.schedules import PlannedRun
from receiver.core.types import HandlerSwitch
from receiver.stores.sqlite.store import SqliteStore
from receiver.web.console.app import ConsoleApp
from receiver.web.console.filters import PAGE_SIZE
from receiver.web.console.pages.overview import LITTLE_ROOM
from receiver.web.console.parts import ConsoleOptions
from tests.doubles import NOON, body_of, delivery
from tests.stores.opened import DEAD, DONE, ONE, TWO, Opened, ended
from tests.web.console.browsing import PAGES, Browser, links
from tests.web.console.conftest import MakeBrowser

EVERY_PAGE = (*PAGES, "/actions", "/guide", "/guide/reference", "/sign-in")


@pytest.mark.parametrize("path", EVERY_PAGE)
async def test_an_empty_store_has_every_page(browser: Browser, opened: Opened, path: str) -> None:
    page = await browser.page(path)

    assert "<main" in page


@pytest.mark.parametrize(
    ("path", "advice"),
    [
        ("/", "receiver send crawl"),
        ("/deliveries", "receiver send crawl"),
        ("/jobs", "receiver start crawl"),
        ("/work-items", "receiver serve"),
        ("/handlers", "receiver dev"),
    ],
)
async def test_an_empty_list_says_what_to_do_next(browser: Browser, opened: Opened, path: str, advice: str) -> None:
    assert advice in await browser.page(path)


@pytest.mark.parametrize(
    "path",
    [
        "/nothing",
        "/deliveries/none",
        "/jobs/none",
        "/work-items/9",
        "/work-items/none",
        "/quarantine/9",
        "/handlers/none",
        "/run-again",
    ],
)
async def test_what_is_not_there_is_a_404_with_the_way_back(browser: Browser, opened: Opened, path: str) -> None:
    page = await browser.page(path, 404)

    assert 'href="/"' in page


@pytest.mark.parametrize("query", ["since=yesterdayish", "state=gone", "before=x", 'text="', "type=" + "x" * 501])
async def test_a_filter_that_cannot_be_read_is_told(browser: Browser, opened: Opened, query: str) -> None:
    await browser.page(f"/deliveries?{query}", 400)


async def test_a_store_that_does_not_exist_is_told(browse: MakeBrowser) -> None:
    browser = browse()

    answer = await browser.http.get("/")

    assert answer.status_code in (200, 503)  # a store in memory exists at once
    assert "no database yet" in answer.text or "No delivery has come yet" in answer.text


async def test_a_handler_with_a_schedule_shows_its_next_run(browser: Browser, opened: Opened) -> None:
    """In the listing and on its own page, before it has had any work."""
    await opened.queue.follow_schedules([PlannedRun(ONE, "cron 0 9 * * 1 UTC", NOON)], now=NOON)

    for path in ("/handlers", f"/handlers/{ONE}"):
        page = await browser.page(path)
        assert "cron 0 9 * * 1 UTC" in page
        assert f'title="{NOON:%Y-%m-%d %H:%M:%S} UTC"' in page


async def test_all_is_well_until_something_is_dead(browser: Browser, opened: Opened) -> None:
    await opened.in_state(DONE)
    assert "All is well." in await browser.page("/")

    await opened.in_state(DEAD)
    page = await browser.page("/")

    assert "One thing needs you." in page
    assert "1 dead in one, of deliveries since" in page


async def test_a_paused_handler_and_a_refused_request_need_somebody(browser: Browser, opened: Opened) -> None:
    await opened.in_state(DONE)
    await opened.controls.switch(ONE, HandlerSwitch.PAUSED)
    await opened.log.quarantine(Quarantined(NOON, "malformed", "no JSON", None, (), b"{"))

    page = await browser.page("/")

    assert "2 things need you." in page
    assert "one is paused" in page
    assert "1 request in quarantine in the last 24 hours: malformed" in page


async def test_a_list_goes_on_behind_its_last_row(browser: Browser, opened: Opened) -> None:
    await opened.add(*(delivery(f"k{number:03}") for number in range(PAGE_SIZE + 5)))

    first = await browser.page("/deliveries?type=crawl.page")
    (older,) = [target for target in links(first) if "before=" in target]
    second = await browser.page(older)

    assert first.count("/deliveries/k") == PAGE_SIZE
    assert second.count("/deliveries/k") == 5
    assert "/deliveries/k004" in second
    assert "type=crawl.page" in older
    assert "Newest" in second


@pytest.mark.parametrize("rows", ["deliveries", "work-items", "jobs"])
async def test_a_list_says_how_far_it_has_looked_and_goes_on_from_there(
    store: Store, clock: VirtualClock, opened: Opened, rows: str
) -> None:
    """Without JavaScript: it is a link. What is found at last is shown, and then there is no further."""
    await opened.add(delivery("rare", kind="agent.action", job_id="rare"))
    await opened.add(*(delivery(f"k{number}") for number in range(9)))
    await opened.add(delivery("new", kind="agent.action", job_id="new"))
    await opened.route(ONE)
    browser = Browser(ConsoleApp(store, clock, ConsoleOptions(version="1"), examined=4))

    pages = [await browser.page(f"/{rows}?type=agent*")]
    while onward := [target for target in links(pages[-1]) if "before=" in target]:
        pages.append(await browser.page(onward[0]))

    noun = "work items" if rows == "work-items" else "deliveries"
    shown = "/jobs/rare" if rows == "jobs" else "/deliveries/rare"
    said = [re.sub(r"<[^>]*>", "", page) for page in pages]
    assert f"Looked at 4 {noun}, down to 1 h ago: nothing else found so far. Look further" in said[0]
    assert f"Looked at 4 more {noun}, down to 1 h ago: nothing found so far. Look further" in said[1]
    assert "← Newest" in said[1]
    assert [shown in page for page in pages] == [False, False, True]
    assert "Look further" not in said[2]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("type=agent.*", ["c"]),
        ("job=other", ["b"]),
        ("state=new", ["c", "b", "a"]),
        ("state=dead", []),
        ("since=30m", []),
        ("until=30m", ["c", "b", "a"]),
        ("failed=1", []),
        ("handler=*.save", []),
    ],
)
async def test_deliveries_are_filtered(browser: Browser, opened: Opened, query: str, found: list[str]) -> None:
    await opened.add(delivery("a"), delivery("b", job_id="other"), delivery("c", kind="agent.action"))

    page = await browser.page(f"/deliveries?{query}")

    shown = [target.rpartition("/")[2] for target in links(page) if target.startswith("/deliveries/")]
    assert shown == found


async def test_live_rows_are_the_rows_alone(browser: Browser, opened: Opened) -> None:
    await opened.add(delivery("a"))

    page = await browser.page("/deliveries", headers={"hx-request": "true"})

    assert "<html" not in page
    assert "/deliveries/a" in page


async def test_one_delivery_shows_everything(browse: MakeBrowser, opened: Opened) -> None:
    page = {
        "markdown": "# Prices\n\n| a | b |\n|---|---|\n| 1 | 2 |",
        "metadata": {"sourceURL": "https://a.test/prices"},
    }
    body = body_of(id="job", webhookId="a", data=[page | {"screenshot": "https://img.test/1.png"}])
    await opened.add(delivery("a", body=body), delivery("a", body=body))
    (work_id, _) = await opened.route(ONE, TWO)
    await opened.settle(ended(work_id, DEAD, error="ValueError: no price"))
    browser = browse(webhook_url="http://127.0.0.1:8000/webhooks", sign=lambda body: {"X-Signature": "sha256=1"})

    shown = await browser.page("/deliveries/a")

    assert "https://a.test/prices" in shown
    assert "<h1>Prices</h1>" in shown
    assert "<td>1</td>" in shown
    assert 'href="https://img.test/1.png" rel="noopener noreferrer nofollow"' in shown
    assert "ValueError: no price" in shown
    assert "Run all 2 handlers again" in shown
    assert "receiver replay --job job" in shown
    assert "X-Signature: sha256=1" in shown
    assert "def test_crawl_page() -&gt; None:" in shown
    downloaded = await browser.http.get("/deliveries/a/body")
    assert downloaded.content == body
    assert downloaded.headers["content-disposition"] == 'attachment; filename="a.json"'
    assert downloaded.headers["content-type"] == "application/octet-stream"


async def test_a_job_has_its_events_and_its_work(browser: Browser, opened: Opened) -> None:
    await opened.add(
        delivery("a", kind="crawl.started"),
        delivery("b"),
        delivery("c", success=False),
        delivery("d", kind="crawl.completed"),
    )
    await opened.route(ONE)

    page = await browser.page("/jobs/job")

    assert "completed" in page
    assert page.count("<circle") == 4
    assert "receiver backfill --job job" in page
    assert "/work-items?job=job&amp;handler=one" in page


async def test_equal_failures_are_one_line(browser: Browser, opened: Opened) -> None:
    for number in range(7):
        (work_id,) = await opened.items(1, ONE, claim=True)
        await opened.settle(ended(work_id, DEAD, error=f"TimeoutError: row {number * 50} was late"))
    (work_id,) = await opened.items(1, TWO, claim=True)
    await opened.settle(ended(work_id, DEAD, error="KeyError: 'x'"))

    page = await browser.page("/dead")

    assert page.count(">TimeoutError") == 1
    assert "<b>7</b>" in page
    assert "KeyError" in page


async def test_a_handler_shows_its_last_error(browser: Browser, opened: Opened) -> None:
    (work_id,) = await opened.items(1, ONE, claim=True)
    await opened.settle(ended(work_id, DEAD, error="ValueError: no price"))

    page = await browser.page("/handlers/one")

    assert "ValueError: no price" in page
    assert "Pause" in page


async def test_the_simulator_answers_what_an_outage_costs(browser: Browser, opened: Opened) -> None:
    page = await browser.page("/simulator?rate=1&duration=1h&outage_from=10m&outage_for=25m")
    assert "240 of 3,600 deliveries fail for good" in page
    assert page.count("<svg") == 4
    assert "Deliveries by fate, in steps of 16s</figcaption>" in page  # how many of them a bar is

    shorter = await browser.page("/simulator?outage_for=5m", headers={"hx-request": "true"})
    assert "Nothing is lost" in shorter
    assert "<html" not in shorter

    for wrong in (
        "rate=x",
        "outage_for=long",
        "kind=odd",
        "rate=100000",
        "capacity=-1",
        "error_rate=7",
        "rate=nan",
    ):
        await browser.page(f"/simulator?{wrong}", 400)
        # With another status the browser would leave the charts of the values before.
        part = await browser.page(f"/simulator?{wrong}", headers={"hx-request": "true"})
        assert 'class="tone-bad"' in part
        assert "<html" not in part


async def test_a_full_disk_needs_somebody(
    browser: Browser, opened: Opened, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else on the page tells that deliveries are refused."""
    for free, tells in ((LITTLE_ROOM, False), (7_000_000, True)):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: SimpleNamespace(free=free))
        page = await browser.page("/")
        assert ("The disk of the store has 7.0 MB free" in page) is (tells and isinstance(store, SqliteStore))
        assert ("All is well." in page) is not (tells and isinstance(store, SqliteStore))


async def test_a_minute_has_no_sixty_seconds(browser: Browser, opened: Opened, clock: VirtualClock) -> None:
    await opened.add(delivery("a", received_at=clock.now() - timedelta(seconds=59.9)))

    assert ">59 s ago<" in await browser.page("/deliveries")


async def test_whoever_does_nothing_is_back_at_what_was_chosen(browser: Browser, opened: Opened) -> None:
    await opened.in_state(DEAD)

    plan = await browser.page("/work-items/retry/plan?state=dead&handler=o*")

    assert "/work-items?handler=o%2A&state=dead" in links(plan)
    assert "/work-items" in links(await browser.page("/work-items/retry/plan?ids=1"))


async def test_what_a_list_cuts_is_whole_for_those_who_point_at_it(browser: Browser, opened: Opened) -> None:
    await opened.add(delivery("a", kind="crawl." + "<b>" * 30))
    (work_id,) = await opened.route(ONE)
    await opened.settle(ended(work_id, DEAD, error="x" * 300 + "end"))

    for path in ("/work-items", "/handlers"):
        assert f'title="{"x" * 300}end"' in await browser.page(path)
    page = await browser.page("/deliveries")
    assert f'title="crawl.{"&lt;b&gt;" * 30}"' in page
    assert 'title="2h or 2026-08-04 10:00"' in page  # a field is narrower than its example


async def test_whoever_may_only_read_finds_the_items_of_a_group(browse: MakeBrowser, opened: Opened) -> None:
    await opened.in_state(DEAD)

    page = await browse(read_only=True).page("/dead")

    assert any(link.startswith("/work-items?handler=one&state=dead") for link in links(page))
    assert not any("/plan?" in link for link in links(page))


async def test_a_plan_for_nothing_asks_nothing(browser: Browser, opened: Opened) -> None:
    await opened.in_state(DEAD)

    for path in ("/work-items/bury/plan?state=dead", "/run-again/plan?type=none"):
        page = await browser.page(path)
        assert "<h1>Nothing to " in page
        assert "?</h1>" not in page


async def test_a_filter_that_hides_all_checks_says_so(browser: Browser, opened: Opened) -> None:
    assert "No check of a monitor has ended" in await browser.page("/monitors")
    assert "No check matches" in await browser.page("/monitors?since=1h")


async def test_the_quarantine_shows_a_request(browser: Browser, opened: Opened) -> None:
    await opened.log.quarantine(
        Quarantined(NOON, "malformed", "the body is not JSON", None, (("a", "b"),), b"{<b>")
    )

    assert "the body is not JSON" in await browser.page("/quarantine")
    assert "{&lt;b&gt;" in await browser.page("/quarantine/1")


async def test_a_tree_shows_json_as_json(browser: Browser, opened: Opened) -> None:
    body = json.dumps(
        {"type": "crawl.page", "id": "job", "data": [{"n": 1.5, "t": True, "z": None, "l": []}]}
    ).encode()
    await opened.add(delivery("a", body=body))

    page = await browser.page("/deliveries/a")

    for written in ("1.5", "true", "null", "[]"):
        assert f'<span class="value">{written}</span>' in page


async def test_checks_of_monitors_are_listed_by_monitor(browser: Browser, opened: Opened) -> None:
    kind = "monitor.check.completed"
    for number, changed in enumerate((0, 2)):
        check = {
            "monitorId": "m-1",
            "checkId": f"c-{number}",
            "status": "completed",
            "summary": {"changed": changed},
        }
        body = body_of(kind, id=f"c-{number}", webhookId=f"w{number}", data=[check])
        await opened.add(delivery(f"w{number}", kind=kind, job_id=f"c-{number}", body=body))
    await opened.add(delivery("odd", kind=kind, body=b"{"))

    page = await browser.page("/monitors")

    assert page.count("<code>m-1</code>") == 1
    assert "<b>2</b>" in page
    assert page.index("/jobs/c-1") < page.index("/jobs/c-0")


async def test_changes_of_a_page_are_coloured(browser: Browser, opened: Opened) -> None:
    page = {
        "url": "https://a.test",
        "status": "changed",
        "diff": {"text": "--- a\n+++ b\n@@ -1 +1 @@\n-old <b>\n+new\n"},
    }
    await opened.add(delivery("a", kind="monitor.page", body=body_of("monitor.page", id="c", data=[page])))

    shown = await browser.page("/deliveries/a")

    assert '<span class="removed">-old &lt;b&gt;</span>' in shown
    assert '<span class="added">+new</span>' in shown
    assert '<span class="place">@@ -1 +1 @@</span>' in shown


async def test_unknown_fields_are_listed(browser: Browser, opened: Opened) -> None:
    await opened.add(delivery("a", body=body_of(id="job", webhookId="a", data=[{"markdown": "x", "novelty": 1}])))
    await opened.add(delivery("b", kind="crawl.odd", body=body_of("crawl.odd", id="job", webhookId="b")))

    page = await browser.page("/drift")

    assert "novelty" in page
    assert "crawl.odd" in page
