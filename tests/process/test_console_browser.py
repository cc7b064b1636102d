"""The console in a real browser: filters, live rows, tabs, keyboard, phone, dark mode, and no JavaScript."""

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from tests.doubles import body_of
from tests.process.harness import Deployment, Serving, post
from tests.process.test_console import address
from tests.web.console.browsing import PAGES

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
playwright = pytest.importorskip("playwright.async_api", reason="playwright is not installed")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium"),
]

HANDLERS = """
from receiver import GiveUp, Router

router = Router()

@router.on("crawl.page")
def save(event):
    if event.failed:
        raise GiveUp("the page has failed")

@router.on("*")
def tell(event):
    pass
"""


class Tab:
    """A page of a browser, and everything that went wrong on it."""

    def __init__(self, page: Any, url: str) -> None:
        self.page = page
        self.url = url
        self.faults: list[str] = []
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("request", self._look_at)
        page.on("response", self._read)

    def _hear(self, line: Any) -> None:
        if line.type in ("error", "warning"):
            self.faults.append(line.text)

    def _read(self, answer: Any) -> None:
        if answer.status >= 500:
            self.faults.append(f"{answer.status} {answer.url}")

    def _look_at(self, request: Any) -> None:
        if not request.url.startswith((self.url, "data:")):
            self.faults.append(f"asked {request.url}")

    async def go(self, path: str) -> None:
        """Open a page of the console."""
        await self.page.goto(self.url + path)

    async def shows(self, text: str) -> None:
        """Return when the page shows a text."""
        await self.page.get_by_text(text).first.wait_for(timeout=60_000)


class Visit:
    """A console beside a server, and a browser."""

    def __init__(self, browser: Any, serving: Serving, url: str) -> None:
        self._browser = browser
        self._serving = serving
        self.url = url
        self.tabs: list[Tab] = []

    async def tab(self, **options: Any) -> Tab:
        """Open a new tab in a window of its own."""
        context = await self._browser.new_context(**options)
        self.tabs.append(Tab(await context.new_page(), self.url))
        return self.tabs[-1]

    async def post(self, body: bytes) -> Any:
        """Send a delivery."""
        return await post(self._serving.port, body)

    async def deliver(self, number: int, *, fails: bool = False, kind: str = "crawl.page") -> None:
        """Send a delivery about a page."""
        data = [{"markdown": f"# Page {number}", "metadata": {"sourceURL": f"https://a.test/{number}"}}]
        body = body_of(
            kind,
            id="job-1",
            webhookId=f"w{number}",
            success=not fails,
            data=data,
            **({"error": "no"} if fails else {}),
        )
        assert (await post(self._serving.port, body)).status == 200


@asynccontextmanager
async def visiting(folder: Path, **settings: str) -> AsyncIterator[Visit]:
    """Serve a console with ten deliveries, three of which are dead, and start a browser."""
    deployment = Deployment(folder, console_port="0", **settings)
    deployment.write_handlers(HANDLERS)
    flags = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    async with deployment.serve("--console") as serving, playwright.async_playwright() as engine:
        browser = await engine.chromium.launch(executable_path=CHROMIUM, args=flags)
        visit = Visit(browser, serving, await address(serving))
        for number in range(10):
            await visit.deliver(number, fails=number < 3)
        await deployment.all_ended()
        try:
            yield visit
            assert [fault for tab in visit.tabs for fault in tab.faults] == []
        finally:
            await browser.close()


async def test_every_page_opens_without_a_fault_and_fits_a_phone(tmp_path: Path) -> None:
    """Wide and narrow, light and dark: nothing is asked of another host, and no page is wider than the screen."""
    async with visiting(tmp_path) as visit:
        for width, scheme in ((1280, "light"), (360, "dark")):
            tab = await visit.tab(viewport={"width": width, "height": 800}, color_scheme=scheme)
            for path in (
                *PAGES,
                "/deliveries/w1",
                "/work-items/1",
                "/jobs/job-1",
                "/handlers/handlers.save",
                "/guide/reference",
            ):
                await tab.go(path)
                assert await tab.page.evaluate("document.documentElement.scrollWidth") <= width, path


async def test_dead_letters_are_retried_from_the_first_page_on(tmp_path: Path) -> None:
    async with visiting(tmp_path) as visit:
        tab = await visit.tab()
        await tab.go("/")
        await tab.shows("One thing needs you.")
        await tab.page.get_by_text("3 dead in handlers.save").click()
        await tab.page.get_by_text("Retry all of these").click()
        await tab.shows("Retry 3 work items?")
        await tab.page.get_by_role("button", name="Retry 3 work items").click()
        await tab.shows("3 of 3 changed; done")


async def test_filters_stay_in_the_address_and_the_back_button_works(tmp_path: Path) -> None:
    async with visiting(tmp_path) as visit:
        tab = await visit.tab()
        await tab.go("/deliveries")
        await tab.page.get_by_label("State").select_option("dead")
        await tab.page.get_by_role("button", name="Filter").click()
        await tab.page.wait_for_url("**/deliveries?*state=dead*")
        assert await tab.page.locator("table.list tbody tr").count() == 3

        await tab.page.locator("table.list tbody tr a").first.click()
        await tab.shows("Run this handler again")
        await tab.page.go_back()
        await tab.page.wait_for_url("**/deliveries?*state=dead*")
        assert await tab.page.locator("table.list tbody tr").count() == 3


async def test_new_rows_come_by_themselves_in_two_tabs_until_one_is_paused(tmp_path: Path) -> None:
    async with visiting(tmp_path) as visit:
        first, second = await visit.tab(), await visit.tab()
        for tab in (first, second):
            await tab.go("/deliveries")
            await tab.shows("https://a.test/9")
        await second.page.get_by_role("button", name="Pause").click()

        await visit.deliver(77)

        await first.shows("https://a.test/77")
        assert await second.page.get_by_text("https://a.test/77").count() == 0
        await second.page.get_by_role("button", name="Go on").click()
        await visit.deliver(78)
        await second.shows("https://a.test/78")


async def test_the_keyboard_is_enough(tmp_path: Path) -> None:
    async with visiting(tmp_path) as visit:
        tab = await visit.tab()
        await tab.go("/dead")
        await tab.page.keyboard.press("Tab")
        assert await tab.page.evaluate("document.activeElement.textContent") == "Skip to the content"
        for _ in range(40):
            await tab.page.keyboard.press("Tab")
            if await tab.page.evaluate("document.activeElement.textContent") == "Retry":
                break
        await tab.page.keyboard.press("Enter")
        await tab.shows("Retry 3 work items?")


async def test_everything_works_without_javascript(tmp_path: Path) -> None:
    async with visiting(tmp_path) as visit:
        tab = await visit.tab(java_script_enabled=False)
        await tab.go("/handlers/handlers.save")
        await tab.page.get_by_role("button", name="Pause").click()
        await tab.shows("paused")
        await tab.go("/simulator")
        await tab.page.get_by_label("Outage lasts").fill("5m")
        await tab.page.get_by_role("button", name="Simulate").click()
        await tab.shows("Nothing is lost")


async def test_the_simulator_redraws_with_each_change(tmp_path: Path) -> None:
    async with visiting(tmp_path) as visit:
        tab = await visit.tab()
        await tab.go("/simulator")
        await tab.shows("fail for good")
        await tab.page.get_by_label("Outage lasts").press_sequentially("0s")
        await tab.page.get_by_label("Outage lasts").fill("5m")
        await tab.shows("Nothing is lost")


async def test_nobody_comes_in_without_the_password(tmp_path: Path) -> None:
    async with visiting(tmp_path, console_password="correct horse") as visit:
        tab = await visit.tab()
        await tab.go("/deliveries?state=dead")
        await tab.page.get_by_label("Password").fill("correct horse")
        await tab.page.get_by_role("button", name="Sign in").click()
        await tab.page.wait_for_url("**/deliveries?state=dead")
        await tab.page.get_by_role("button", name="Sign out").click()
        await tab.page.wait_for_url("**/sign-in")
        await asyncio.sleep(0)


async def test_a_row_that_has_the_focus_stays_until_it_is_left(tmp_path: Path) -> None:
    """Who goes through a list with the keyboard would begin anew with each delivery."""
    async with visiting(tmp_path) as visit:
        tab = await visit.tab()
        await tab.go("/deliveries")
        await tab.page.locator("table.list tbody a").nth(3).focus()
        await visit.deliver(77)
        other = await visit.tab()
        await other.go("/deliveries")
        await other.page.evaluate("document.body.addEventListener('store-changed', () => { window.heard = true; })")
        await visit.deliver(78)
        await other.shows("https://a.test/78")

        assert await tab.page.evaluate("document.activeElement.textContent") == "https://a.test/6"
        assert await tab.page.get_by_text("https://a.test/77").count() == 0
        await tab.page.evaluate("document.activeElement.blur()")
        await tab.shows("https://a.test/78")


async def test_a_tab_that_nobody_sees_holds_no_connection(tmp_path: Path) -> None:
    """A browser has six connections to one host for all its tabs; the seventh tab would wait for ever."""
    hide = """(hidden) => {
        Object.defineProperty(document, "hidden", {configurable: true, get: () => hidden});
        document.dispatchEvent(new Event("visibilitychange"));
    }"""
    async with visiting(tmp_path) as visit:
        first = await visit.tab()
        for number in range(8):
            tab = first if number == 0 else Tab(await first.page.context.new_page(), visit.url)
            await tab.go("/deliveries")
            await tab.shows("https://a.test/9")
            await tab.page.evaluate(hide, True)
        await visit.deliver(77)
        await first.page.evaluate(hide, False)
        await first.shows("https://a.test/77")
        await visit.deliver(78)
        await first.shows("https://a.test/78")


async def test_a_hostile_delivery_fits_a_phone_and_runs_nothing(tmp_path: Path) -> None:
    harm = "<img src=x onerror=alert(1)>\"'><script>alert(1)</script>"
    word = "W" * 300
    data = [{"markdown": f"# {word}\n\n{harm}\n\n| {word} | {word} |\n|--|--|\n| a | {word} |\n\n    {word}",
             "metadata": {"sourceURL": f"https://a.test/{word}/{harm}", "title": word}, word: harm,
             "diff": {"text": f"+{word}{harm}"}, "screenshot": f"https://a.test/{word}"}]  # fmt: skip
    async with visiting(tmp_path) as visit:
        body = body_of(
            "crawl.page", id=f"j/{word}", webhookId=f"k/{harm[:40]}/{word[:100]}", success=False, data=data
        )
        body = body.replace(b'"success":false', b'"success":false,"error":' + json.dumps(harm + word).encode())
        assert (await visit.post(body)).status == 200
        for width in (1280, 360):
            tab = await visit.tab(viewport={"width": width, "height": 800})
            for path in ("/", "/deliveries", "/jobs", "/work-items?state=dead", "/dead", "/handlers/handlers.save"):
                await tab.go(path)
                assert await tab.page.evaluate("document.documentElement.scrollWidth") <= width, path
            await tab.go("/deliveries")
            for name in ("table.list tbody a >> nth=0", "dd a[href*='/jobs/'] >> nth=0", "svg a >> nth=0"):
                await tab.page.locator(name).click(force=True)
                await tab.page.wait_for_load_state()
                assert await tab.page.evaluate("document.documentElement.scrollWidth") <= width, tab.page.url
                assert "Not found" not in await tab.page.content()


async def test_axe_finds_nothing_serious(tmp_path: Path) -> None:
    """axe-core looks at each page, light and dark: contrast, names of fields, headings, landmarks."""
    engine = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
    found: dict[str, list[str]] = {}
    async with visiting(tmp_path) as visit:
        first = await visit.tab()
        await first.go("/work-items/retry/plan?ids=1")
        await first.page.get_by_role("button", name="Retry 1").click()
        await first.shows("1 of 1 changed")
        for scheme in ("light", "dark"):
            tab = await visit.tab(color_scheme=scheme)
            for path in (
                *PAGES,
                "/deliveries/w1",
                "/work-items/1",
                "/jobs/job-1",
                "/work-items/retry/plan?ids=1",
                "/work-items/bury/plan?ids=1",
                "/handlers/handlers.save",
                "/actions",
                "/actions/1",
                "/guide",
                "/guide/reference",
                "/sign-in",
            ):
                await tab.go(path)
                await tab.page.evaluate(engine)
                result = await tab.page.evaluate("axe.run()")
                serious = [one for one in result["violations"] if one["impact"] in ("serious", "critical")]
                found[f"{scheme} {path}"] = [f"{one['id']}: {one['nodes'][0]['html'][:160]}" for one in serious]

    assert {path: faults for path, faults in found.items() if faults} == {}
