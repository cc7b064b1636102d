"""Deliveries that want to do harm: nothing of them acts, and every page has a bounded size."""

import asyncio
import json
import threading
from types import ModuleType
from typing import Any, Self

import pytest
from markupsafe import Markup

from receiver.core.deliveries import DeliveryDetail, DeliverySummary, Quarantined
from receiver.core.text import storable
from receiver.core.types import DeliveryKey, DeliveryState
from receiver.core.work import NewWork
from receiver.web.console import charts, rendering
from receiver.web.console.delivery_content import content_of
from receiver.web.console.pages import deliveries
from receiver.web.console.pages.deliveries import MAX_SHOWN_WORK
from receiver.web.console.rendering import MAX_MARKDOWN, MAX_TREE_DEPTH, safe_markdown, tree
from receiver.web.console.reports import MAX_CHECK_BODY
from tests.doubles import LONG, NOON, body_of, delivery, eventually, soon
from tests.stores.opened import DEAD, ONE, Opened, ended
from tests.web.console.browsing import Browser

SCRIPT = "<script>alert(1)</script>"
ATTRIBUTE = "\"'><img src=x onerror=alert(1)>"
MAX_PAGE = 1_500_000
"""Bytes of the largest page."""


def acts(page: str) -> list[str]:
    """Return what of a page could act: tags that we do not write, and attributes that run code."""
    lower = page.lower()
    words = ("<script>", "<img", "<iframe", "<svg onload", "<object", 'style="', 'href="javascript')
    return [word for word in words if word in lower]


def count_made(monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> list[int]:
    """Return a list that gets the length of each piece of HTML that a module makes."""
    lengths: list[int] = []

    class Counted(Markup):
        def __new__(cls, text: object = "", *args: Any) -> Self:
            piece = super().__new__(cls, text, *args)
            lengths.append(len(piece))
            return piece

    monkeypatch.setattr(module, "Markup", Counted)
    return lengths


@pytest.mark.parametrize(
    "harm",
    [
        SCRIPT,
        ATTRIBUTE,
        "javascript:alert(1)",
        "{{ 1337*1337 }}",
        "\u202egnp.exe",
        "\x1b[31mred",
        "\0\x9b",
        "&lt;b&gt;",
    ],
)
async def test_a_script_in_every_field_stays_text(browser: Browser, opened: Opened, harm: str) -> None:
    page = {"markdown": f"# {harm}", "screenshot": harm, "metadata": {"sourceURL": harm, "title": harm}}
    body = json.dumps(
        {"type": "crawl.page", "id": "job", "webhookId": "w", "error": harm, "data": [page], harm: harm}
    )
    await opened.add(
        delivery(
            "w",
            body=body.encode(),
            kind=storable(f"crawl.{harm}")[:60],
            headers=(("user-agent", harm), (harm, "x")),
        )
    )
    (work_id,) = await opened.route(ONE)
    await opened.settle(ended(work_id, DEAD, error=storable(f"ValueError: {harm}")))

    for path in (
        "/",
        "/deliveries",
        "/deliveries/w",
        "/work-items",
        "/work-items/1",
        "/dead",
        "/jobs/job",
        "/handlers/one",
    ):
        shown = await browser.page(path)
        assert acts(shown) == [], path
        assert "\u202e" not in shown
        assert "\x1b" not in shown
        assert "1787569" not in shown


@pytest.mark.parametrize(
    "text",
    [
        "[a](javascript:alert(1))",
        "[a](JaVaScRiPt:alert(1))",
        "[a](data:text/html,<script>alert(1)</script>)",
        "[a](vbscript:x)",
        "![a](https://tracker.test/1.png)",
        "<a href='javascript:alert(1)'>a</a>",
        "<img src=x onerror=alert(1)>",
        "<style>body{display:none}</style>",
        "<form action=https://evil.test><input></form>",
        "[a]: javascript:alert(1)\n\n[a]",
        '<https://a.test/"onmouseover=alert(1)>',
    ],
)
def test_markdown_has_no_link_that_acts_and_no_picture(text: str) -> None:
    shown = safe_markdown(text)

    assert acts(shown) == []
    for word in ('href="javascript', 'href="data', 'href="vbscript', ' onmouseover="', "<form", "<style"):
        assert word not in shown.lower()


def test_links_in_markdown_tell_no_one_where_they_are() -> None:
    shown = safe_markdown("[a](https://a.test/)")

    assert 'href="https://a.test/"' in shown
    assert 'rel="noopener noreferrer nofollow"' in shown


@pytest.mark.parametrize(
    "body",
    [
        b'{"type":"crawl.page","id":"job","data":' + b"[" * 5_000 + b"]" * 5_000 + b"}",
        b'{"type":"crawl.page","id":"job","data":[' + b"{}," * 300_000 + b"{}]}",
        b'{"type":"crawl.page","id":"job","data":[{"markdown":"' + b"x" * 1_900_000 + b'"}]}',
        b'{"type":"crawl.page","id":"job","data":[{"markdown":"' + b"[a](" * 100_000 + b'"}]}',
        b'{"type":"crawl.page","id":"job","data":[{"markdown":"' + b"> " * 50_000 + b'"}]}',
        b'{"type":"crawl.page","id":"job","n":' + b"9" * 10_000 + b"}",
        b'{"type":"crawl.page","id":"job","x":"\\ud800"}',
        b'{"type":"crawl.page","id":"job","data":[{"markdown":"' + b"y" * 20_000_000 + b'"}]}',
        b"\xff\xfe\x00",
    ],
    ids=["deep", "many", "long", "brackets", "quotes", "number", "surrogate", "20 MB", "bytes"],
)
async def test_a_page_has_a_bounded_size(browser: Browser, opened: Opened, body: bytes) -> None:
    await opened.add(delivery("w", body=body))

    for path in ("/deliveries/w", "/deliveries", "/", "/jobs/job", "/drift"):
        page = await browser.page(path)

        assert len(page) < MAX_PAGE, path
        assert "</html>" in page


async def test_a_long_request_in_quarantine_is_cut(browser: Browser, opened: Opened) -> None:
    await opened.log.quarantine(Quarantined(NOON, "malformed", "x" * 20_000, None, (), b"<b>" * 7_000_000))

    for path in ("/quarantine", "/quarantine/1", "/"):
        assert len(await browser.page(path)) < 200_000, path


async def test_huge_addresses_are_cut(browser: Browser, opened: Opened) -> None:
    url = "https://a.test/" + "x" * 500_000
    body = json.dumps({"type": "crawl.page", "id": "job", "data": [{"metadata": {"sourceURL": url}}]}).encode()
    await opened.add(*(delivery(f"w{number}", body=body) for number in range(50)))

    assert len(await browser.page("/deliveries")) < 200_000


def test_a_tree_stops_in_time() -> None:
    value: object = "x"
    for _ in range(900):
        value = {"a": value, "b": [value] if len(str(value)) < 50 else 1}

    assert len(tree(value)) < MAX_PAGE


def nested(value: object, depth: int) -> object:
    """Return a value within this many lists."""
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("depth", [1, MAX_TREE_DEPTH - 5])
def test_no_text_of_a_tree_is_copied_for_each_row_or_level(monkeypatch: pytest.MonkeyPatch, depth: int) -> None:
    """What is copied again with each row grows with the square of the rows: it took ten seconds."""
    made = count_made(monkeypatch, rendering)

    drawn = tree(nested(["&" * 240] * 1_000, depth))

    assert sum(made) < 10 * len(drawn)


def test_no_mark_of_a_timeline_is_copied_for_each_further_one(monkeypatch: pytest.MonkeyPatch) -> None:
    summary = DeliverySummary(1, DeliveryKey("w" * 200), "a", None, None, None, NOON, 2, 0, DeliveryState.DONE)
    made = count_made(monkeypatch, charts)

    drawn = charts.timeline([summary] * 1_000)

    assert sum(made) < 10 * len(drawn)


async def test_a_delivery_with_thousands_of_work_items_shows_the_newest(browser: Browser, opened: Opened) -> None:
    await opened.add(delivery("w"))
    (first,) = await opened.route(ONE)
    await opened.controls.enqueue([NewWork(1, ONE, claim=False)] * 3_000, now=NOON)

    page = await browser.page("/deliveries/w")

    assert page.count('class="card"') == MAX_SHOWN_WORK
    assert f"The newest {MAX_SHOWN_WORK} of 3,001 work items" in page
    assert f"#{first + 3_000}<" in page
    assert len(page) < MAX_PAGE


async def test_three_hostile_pages_share_the_markdown_of_one(browser: Browser, opened: Opened) -> None:
    """Brackets take quadratic time."""
    data = [{"markdown": "x" * MAX_MARKDOWN}, {"markdown": "![" * MAX_MARKDOWN}, {"markdown": "second"}]
    await opened.add(delivery("w", body=json.dumps({"type": "crawl.page", "id": "j", "data": data}).encode()))

    page = await browser.page("/deliveries/w")

    assert page.count('<div class="markdown">') == 3
    assert '<div class="markdown"><p>…</p>' in page


async def test_what_takes_long_leaves_the_event_loop_free(
    browser: Browser, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A body is prepared in another thread, one delivery after the other."""
    begun: list[str] = []
    may_end = threading.Event()

    def long(detail: DeliveryDetail) -> dict[str, Any]:
        begun.append(detail.summary.key)
        may_end.wait(LONG)
        return content_of(detail)

    monkeypatch.setattr(deliveries, "content_of", long)
    await opened.add(delivery("w"))
    hostile = [asyncio.create_task(browser.page("/deliveries/w")) for _ in range(2)]
    await eventually(lambda: begun != [])
    for _ in range(3):
        await browser.page("/actions")

    assert begun == ["w"]
    assert not any(page.done() for page in hostile)
    may_end.set()
    await soon(asyncio.gather(*hostile))
    assert begun == ["w", "w"]


async def test_the_pages_of_drift_and_monitors_keep_no_bodies(browser: Browser, opened: Opened) -> None:
    kind = "monitor.check.completed"
    long = json.dumps({"type": kind, "id": "c", "novelty": "x" * MAX_CHECK_BODY, "data": []}).encode()
    short = body_of(kind, id="c", webhookId="b", data=[{"monitorId": "m-1", "checkId": "c", "novelty": 1}])
    await opened.add(delivery("a", kind=kind, body=long), delivery("b", kind=kind, body=short))

    drift, monitors = await browser.page("/drift"), await browser.page("/monitors")

    assert "1 long one was left out" in drift
    assert "novelty" in drift
    assert monitors.count("<code>m-1</code>") == 1
    for one in await browser.app.parts.checks.get() or ():
        assert not hasattr(one, "stored")


async def test_a_search_without_an_index_says_how_to_make_one(browser: Browser, opened: Opened) -> None:
    answer = await browser.http.get("/deliveries?text=prices")

    assert answer.status_code in (200, 400)  # a store in memory needs none
    assert answer.status_code == 200 or "RECEIVER_SEARCH=true" in answer.text
