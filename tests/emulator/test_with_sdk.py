"""The service's own SDK against the emulator over HTTP: scrapes of both versions, and monitors, end to end."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from firecrawl.v2.types import ChangeTrackingFormat
from firecrawl.v2.utils.error_handler import BadRequestError, FirecrawlError

from tests.doubles import soon
from tests.emulator.shop import SCHEMA, SHOP, Shop, shop


@pytest.fixture
async def one() -> AsyncIterator[Shop]:
    async with shop() as made:
        yield made


async def test_version_2_scrapes_in_many_formats(one: Shop) -> None:
    """The SDK refuses an answer whose fields have other types than it knows."""
    json_format = {"type": "json", "schema": SCHEMA}
    attributes = {"type": "attributes", "selectors": [{"selector": "a", "attribute": "href"}]}
    page = await one.call(
        "scrape",
        f"{SHOP}/",
        formats=["markdown", "html", "rawHtml", "links", "images", "summary", json_format, attributes],
    )

    assert page.markdown.startswith("# City bike")
    assert page.json == {"name": "City bike", "price": 5}
    assert page.links == [f"{SHOP}/about"]
    assert page.summary == "It costs 5 euros."
    assert (page.metadata.status_code, page.metadata.credits_used, page.metadata.cache_state) == (200, 5, "miss")


async def test_version_2_tracks_changes(one: Shop) -> None:
    tracking = ChangeTrackingFormat(modes=["git-diff", "json"], schema=SCHEMA, tag="shop")
    first = await one.call("scrape", f"{SHOP}/", formats=["markdown", tracking])
    one.price("6")
    second = await one.call("scrape", f"{SHOP}/", formats=["markdown", tracking])

    assert first.change_tracking["changeStatus"] == "new"
    assert second.change_tracking["changeStatus"] == "changed"
    assert second.change_tracking["json"] == {"price": {"previous": 5, "current": 6}}
    assert "+It costs 6 euros." in second.change_tracking["diff"]["text"]


async def test_version_1_scrapes_extracts_and_tracks(one: Shop) -> None:
    """This client needs `visibility` and an object as `diff`, and raises without them."""
    options = {"formats": ["markdown", "changeTracking"], "change_tracking_options": {"modes": ["git-diff"]}}
    await one.call("v1.scrape_url", f"{SHOP}/", **options)
    one.price("6")
    changed = await one.call("v1.scrape_url", f"{SHOP}/", **options)
    extracted = await one.call("v1.scrape_url", f"{SHOP}/", formats=["json"], json_options={"schema": SCHEMA})

    assert changed.changeTracking.changeStatus == "changed"
    assert "-It costs 5 euros." in changed.changeTracking.diff["text"]
    assert extracted.json_field == {"name": "City bike", "price": 6}


async def test_failures_become_the_sdks_errors() -> None:
    async with shop(browser=False) as one:
        with pytest.raises(BadRequestError):
            await one.call("scrape", f"{SHOP}/", actions=[{"type": "wait", "milliseconds": 1}])
        with pytest.raises(FirecrawlError, match="cache"):
            await one.call("scrape", f"{SHOP}/", lockdown=True)


async def test_a_monitor_lives_through_every_call(one: Shop) -> None:
    """From its creation to its end, with two checks and a change between."""
    made = await one.call(
        "create_monitor",
        name="Prices",
        schedule={"cron": "0 * * * *", "timezone": "Europe/Berlin"},
        goal="price changes",
        targets=[
            {"type": "scrape", "urls": [f"{SHOP}/"]},
            {"type": "crawl", "url": f"{SHOP}/", "crawlOptions": {"limit": 5}},
        ],
    )
    await one.call("run_monitor", made.id)
    await soon(one.emulator.settled())
    one.price("6")
    run = await one.call("run_monitor", made.id)
    await soon(one.emulator.settled())
    check = await one.call("get_monitor_check", made.id, run.id)
    checks = await one.call("list_monitor_checks", made.id, limit=1)
    read = await one.call("get_monitor", made.id)

    assert (made.status, made.judge_enabled, made.retention_days) == ("active", True, 30)
    assert (run.status, run.trigger, check.status, check.billing_status) == (
        "queued",
        "manual",
        "completed",
        "confirmed",
    )
    assert [(page.url, page.status) for page in check.pages] == [
        (f"{SHOP}/", "changed"),
        (f"{SHOP}/", "changed"),
        (f"{SHOP}/about", "same"),
    ]
    assert check.pages[0].judgment.confidence == "low"
    assert "+It costs 6 euros." in check.pages[0].diff.text
    assert [item.id for item in checks] == [run.id]
    assert read.last_check_summary.changed == 2

    paused = await one.call("update_monitor", made.id, status="paused")
    assert paused.status == "paused"
    with pytest.raises(FirecrawlError, match="paused"):
        await one.call("run_monitor", made.id)
    assert [monitor.id for monitor in await one.call("list_monitors")] == [made.id]
    assert await one.call("delete_monitor", made.id)
    with pytest.raises(FirecrawlError, match="Monitor not found"):
        await one.call("get_monitor", made.id)


async def test_the_recipients_of_a_monitor_are_of_the_sdks_kinds(one: Shop) -> None:
    """The SDK refuses a subscription whose status or source it does not know."""
    made = await one.call(
        "create_monitor",
        name="Prices",
        schedule={"text": "hourly"},
        targets=[{"type": "scrape", "urls": [f"{SHOP}/"]}],
        notification={"email": {"enabled": True, "recipients": ["ann@example.com"]}},
    )
    (recipient,) = (await one.call("get_monitor", made.id)).email_recipient_subscriptions

    assert (recipient.email, recipient.status, recipient.source) == ("ann@example.com", "pending", "opt_in")


async def test_checks_run_when_the_clock_is_set_forward(one: Shop) -> None:
    made = await one.call(
        "create_monitor",
        name="Prices",
        schedule={"text": "every 30 minutes"},
        targets=[{"type": "scrape", "urls": [f"{SHOP}/"]}],
    )
    await soon(one.emulator.advance(timedelta(hours=2)))
    checks = await one.call("list_monitor_checks", made.id)

    assert [(check.status, check.trigger) for check in checks] == [("completed", "scheduled")] * 4
    assert len({check.scheduled_for for check in checks}) == 4


async def test_a_page_that_is_gone_from_a_site_is_removed(one: Shop) -> None:
    made = await one.call(
        "create_monitor",
        name="Site",
        schedule={"text": "hourly"},
        targets=[{"type": "crawl", "url": f"{SHOP}/"}],
    )
    await one.call("run_monitor", made.id)
    await soon(one.emulator.settled())
    one.pages["/"] = "<main><h1>City bike</h1></main>"
    del one.pages["/about"]
    run = await one.call("run_monitor", made.id)
    await soon(one.emulator.settled())
    check = await one.call("get_monitor_check", made.id, run.id)

    assert {page.url: page.status for page in check.pages} == {f"{SHOP}/": "changed", f"{SHOP}/about": "removed"}
