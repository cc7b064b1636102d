"""Change tracking over several scrapes of a page."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from receiver.emulator.scraping import history
from tests.emulator.pages import HOME, page_of, scene, tracking

SCHEMA = {"type": "object", "properties": {"price": {"type": "number"}, "name": {"type": "string"}}}


async def test_a_page_is_new_then_the_same_then_changed() -> None:
    async with scene() as one:
        found = []
        for text in ("one", "one", "two"):
            one.web.show(text)
            found.append((await one.scrape(HOME, "markdown", tracking()))["changeTracking"])
            one.clock.advance(timedelta(minutes=1))

    assert found == [
        {"changeStatus": "new", "visibility": "visible", "previousScrapeAt": None},
        {"changeStatus": "same", "visibility": "visible", "previousScrapeAt": "2026-01-01T12:00:00.000Z"},
        {"changeStatus": "changed", "visibility": "visible", "previousScrapeAt": "2026-01-01T12:01:00.000Z"},
    ]


async def test_a_page_that_answers_404_is_removed_also_at_first() -> None:
    async with scene() as one:
        first = await one.scrape(HOME, "markdown", tracking())
        one.web.show("here")
        second = await one.scrape(HOME, "markdown", tracking())

    assert first["changeTracking"]["changeStatus"] == "removed"
    assert second["changeTracking"]["changeStatus"] == "changed"


async def test_a_scrape_without_comparison_counts_for_the_next_one() -> None:
    async with scene() as one:
        one.web.show("one")
        await one.scrape(HOME, "markdown")
        one.web.show("two")
        page = await one.scrape(HOME, "markdown", tracking())

    assert page["changeTracking"]["changeStatus"] == "changed"


@pytest.mark.parametrize(
    "first",
    [
        {"formats": ("links",)},
        {"zero_data_retention": True},
        {"team": "other"},
        {"formats": ("markdown", tracking(tag="other"))},
        {"url": f"{HOME}#top"},
    ],
    ids=["no markdown", "zero data retention", "another team", "another tag", "another URL"],
)
async def test_what_does_not_count_as_an_earlier_scrape(first: dict[str, Any]) -> None:
    async with scene() as one:
        one.web.pages[f"{HOME}#top"] = "<p>one"
        one.web.show("one")
        await one.scrape(first.pop("url", HOME), *first.pop("formats", ("markdown",)), **first)
        page = await one.scrape(HOME, "markdown", tracking())

    assert page["changeTracking"]["changeStatus"] == "new"


async def test_tags_are_branches_of_their_own() -> None:
    """Without a tag is a branch, too, and so is an empty tag."""
    async with scene() as one:
        found: list[str] = []
        for tag in ("a", None, "", "b", "a", None):
            one.web.show(f"page {len(found)}")
            page = await one.scrape(HOME, "markdown", tracking(tag=tag))
            found.append(page["changeTracking"]["changeStatus"])

    assert found == ["new", "new", "new", "new", "changed", "changed"]


@pytest.mark.parametrize("as_text", [True, False])
async def test_a_diff_is_there_only_for_a_change_and_only_if_asked_for(as_text: bool) -> None:
    async with scene() as one:
        found = []
        for text, modes in (("one", ("git-diff",)), ("one", ("git-diff",)), ("two", ("git-diff",)), ("3", ())):
            one.web.show(text)
            page = await one.scrape(HOME, "markdown", tracking(*modes), diff_as_text=as_text)
            found.append(page["changeTracking"].get("diff"))

    assert found[:2] == [None, None]
    assert found[3] is None
    text = found[2] if as_text else found[2]["text"]
    assert text.endswith(
        "@@ -1,1 +1,1 @@\n-one\n\\ No newline at end of file\n+two\n\\ No newline at end of file\n"
    )
    assert as_text or list(found[2]) == ["text", "json"]


async def test_values_are_compared_by_the_schema() -> None:
    async with scene() as one:
        one.web.show("<h1>Bike</h1><p>Price: 5 €</p>")
        await one.scrape(HOME, "markdown")
        one.web.show("<h1>Bike</h1><p>Price: 6 €</p>")
        page = await one.scrape(HOME, "markdown", tracking("json", schema=SCHEMA))

    assert page["changeTracking"]["json"] == {"price": {"previous": 5, "current": 6}}
    assert "diff" not in page["changeTracking"]
    assert page["metadata"]["creditsUsed"] == 5


@pytest.mark.parametrize("padding", [0, history.MAX_BODY], ids=["kept", "too large to be kept"])
@pytest.mark.parametrize("first", [(), (tracking(),)], ids=["plain", "tracked"])
async def test_values_are_compared_like_with_like(padding: int, first: tuple[Any, ...]) -> None:
    """Of most earlier scrapes only the Markdown is kept: then both values are those of the Markdown."""
    data = '<script type="application/ld+json">{"name": "N", "price": PRICE}</script>'
    async with scene() as one:
        one.web.pages[HOME] = page_of("<h1>Bike</h1><p>Price: 5</p>", data.replace("PRICE", "50")) + " " * padding
        await one.scrape(HOME, "markdown", *first)
        one.web.pages[HOME] = page_of("<h1>Bike</h1><p>Price: 6</p>", data.replace("PRICE", "60"))
        page = await one.scrape(HOME, "markdown", tracking("json", schema=SCHEMA))

    with_data = bool(first) and not padding
    assert page["changeTracking"]["json"] == {
        "price": {"previous": 50, "current": 60} if with_data else {"previous": 5, "current": 6}
    }


async def test_zero_data_retention_compares_nothing() -> None:
    async with scene() as one:
        one.web.show("one")
        page = await one.scrape(HOME, "markdown", tracking(), zero_data_retention=True)

    assert "changeTracking" not in page
    assert "zeroDataRetention" in page["warning"]


async def test_history_survives_a_restart(tmp_path: Path) -> None:
    async with scene(tmp_path / "state.db") as one:
        one.web.show("one")
        await one.scrape(HOME, "markdown")
    async with scene(tmp_path / "state.db") as one:
        one.web.show("two")
        page = await one.scrape(HOME, "markdown", tracking("git-diff"))

    assert page["changeTracking"]["changeStatus"] == "changed"
    assert "-one" in page["changeTracking"]["diff"]["text"]


async def test_a_change_is_compared_with_the_page_now_and_not_with_a_copy() -> None:
    async with scene() as one:
        one.web.show("one")
        await one.scrape(HOME, "markdown")
        one.web.show("two")
        page = await one.scrape(HOME, "markdown", tracking(), max_age=3_600_000)

    assert page["changeTracking"]["changeStatus"] == "changed"
