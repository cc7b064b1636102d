"""What takes too long or too much memory is an error of that page, or a warning."""

from collections.abc import Callable
from typing import Any

from receiver.emulator.monitors.findings import compare_page
from receiver.emulator.scrapes import ScrapedPage
from receiver.emulator.working.processes import SMALL, WorkLost
from tests.emulator.monitors.studio import pages_target, studio
from tests.emulator.pages import HOME, plan_of, scene, tracking

SCHEMA = {"type": "object", "properties": {"price": {"type": "number"}}}
LONG = "<p>word</p>" * SMALL


class LostWork:
    """Work of which all that is not small is lost. It remembers what that was."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def run(self, function: Callable[..., Any], *arguments: Any, size: int) -> Any:
        if size <= SMALL:
            return function(*arguments)
        self.asked.append(function.__name__)
        raise WorkLost("it needs too much time or memory")


async def test_an_extraction_that_is_lost_is_a_warning() -> None:
    """The rest of the document is there."""
    async with scene(work=LostWork()) as one:
        one.web.show(LONG)
        document = await one.scrape(HOME, "markdown", {"type": "json", "schema": SCHEMA}, "summary")

    assert document["json"] is None
    assert document["markdown"].startswith("word")
    assert "nothing could be extracted: it needs too much time or memory" in document["warning"]


async def test_a_comparison_that_is_lost_is_a_warning() -> None:
    lost = LostWork()
    async with scene(work=lost) as one:
        one.web.show(LONG)
        await one.scrape(HOME, "markdown", tracking("git-diff"))
        same = await one.scrape(HOME, "markdown", tracking("git-diff"))
        one.web.show(f"{LONG}new")
        changed = await one.scrape(HOME, "markdown", tracking("git-diff"))

    assert same["changeTracking"]["changeStatus"] == "same"
    assert changed["changeTracking"]["changeStatus"] == "changed"
    assert "diff" not in changed["changeTracking"]
    assert "cannot be compared with the earlier one" in changed["warning"]
    assert lost.asked == ["compare_texts"]


async def test_a_page_of_a_check_whose_comparison_is_lost_is_an_error() -> None:
    """It costs what it has cost, and the next check compares with the earlier page."""
    async with studio(work=LostWork()) as one:
        one.web.show(LONG)
        monitor = await one.create(pages_target(HOME))
        await one.check(monitor)
        one.web.show(f"{LONG}new")
        check = await one.check(monitor)
        one.web.show(LONG)
        again = await one.check(monitor)

    assert (check["status"], check["summary"]["error"], check["actualCredits"]) == ("partial", 1, 1)
    assert check["pages"][0]["error"] == "The page could not be compared: it needs too much time or memory"
    assert again["summary"]["same"] == 1


async def test_equal_pages_need_no_work() -> None:
    lost = LostWork()
    async with scene() as one:
        one.web.show(LONG)
        page: ScrapedPage = await one.scraper.scrape(plan_of(HOME))
    finding = await compare_page(lost, HOME, page, None, "markdown")
    again = await compare_page(lost, HOME, page, finding.memory, "markdown")

    assert (finding.status, again.status, lost.asked) == ("new", "same", [])
