"""The console in a real browser: filters, live rows, tabs, keyboard, phone, dark mode, and no JavaScript.

All tests of a process share a browser and a site, which they leave as it was but for more deliveries.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.doubles import body_of
from tests.process.console_visits import CHROMIUM, Site, Visit, chromium, serving_site, visiting
from tests.web.console.browsing import PAGES

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium"),
    pytest.mark.asyncio(loop_scope="module"),
]
ROWS = (
    "/deliveries/w1",
    "/work-items/1",
    "/jobs/job-1",
    "/handlers/handlers.save",
    "/work-items/retry/plan?ids=1",
    "/work-items/bury/plan?ids=1",
    "/actions",
    "/actions/1",
    "/guide",
    "/guide/reference",
    "/sign-in",
)
"""Pages about one thing each."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Any]:
    """A browser."""
    async with chromium() as engine:
        yield engine


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """A site on SQLite."""
    async with serving_site(tmp_path_factory.mktemp("site")) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def visit(browser: Any, site: Site) -> AsyncIterator[Visit]:
    """New tabs on the site."""
    async with visiting(browser, site) as made:
        yield made


async def retry_all_dead(visit: Visit, site: Site) -> None:
    """Go from the first page to the end of a retry of all that is dead. It is dead again afterwards."""
    tab = await visit.tab()
    await tab.go("/")
    await tab.shows("One thing needs you.")
    await tab.page.get_by_text("3 dead in handlers.save").click()
    await tab.page.get_by_text("Retry all of these").click()
    await tab.shows("Retry 3 work items?")
    await tab.page.get_by_role("button", name="Retry 3 work items").click()
    await tab.shows("3 of 3 changed; done")
    await site.deployment.all_ended()


async def new_rows_come(visit: Visit, site: Site) -> None:
    """Watch two tabs of which one is paused for a while."""
    first, second = await visit.tab(), await visit.tab()
    for tab in (first, second):
        await tab.go("/deliveries")
        await tab.shows("https://a.test/9")
    await second.page.get_by_role("button", name="Pause").click()

    await site.deliver(177)

    await first.shows("https://a.test/177")
    assert await second.page.get_by_text("https://a.test/177").count() == 0
    await second.page.get_by_role("button", name="Go on").click()
    await site.deliver(178)
    await second.shows("https://a.test/178")


async def switch_without_javascript(visit: Visit) -> None:
    """Pause a handler and resume it."""
    tab = await visit.tab(java_script_enabled=False)
    await tab.go("/handlers/handlers.save")
    await tab.page.get_by_role("button", name="Pause").click()
    await tab.page.locator("h1 .tag", has_text="paused").wait_for()
    await tab.page.get_by_role("button", name="Resume").click()
    await tab.page.locator("h1 .tag", has_text="on").wait_for()


@pytest.mark.parametrize("pages", [PAGES, ROWS], ids=["of the head", "of rows"])
async def test_every_page_fits_a_phone_and_axe_finds_nothing_serious(
    visit: Visit, site: Site, pages: tuple[str, ...]
) -> None:
    """Wide and narrow, light and dark. axe-core looks at contrast, names of fields, headings and landmarks.

    The colours are all that differs in the dark, so only the rule for contrast looks again.
    """
    engine = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
    tab = await visit.tab(viewport={"width": 1280, "height": 800})
    await tab.go("/work-items/retry/plan?ids=1")
    await tab.page.get_by_role("button", name="Retry 1").click()
    await tab.shows("1 of 1 changed")
    await site.deployment.all_ended()
    faults: list[str] = []
    for path in pages:
        await tab.page.set_viewport_size({"width": 1280, "height": 800})
        await tab.page.emulate_media(color_scheme="light")
        await tab.go(path)
        await tab.page.evaluate(engine)
        faults += [f"{path}: {one}" for one in await serious(tab.page, "{resultTypes: ['violations']}")]
        faults += [] if await tab.is_no_wider_than(1280) else [f"{path} is too wide"]
        await tab.page.emulate_media(color_scheme="dark")
        await tab.page.set_viewport_size({"width": 360, "height": 800})
        faults += [f"dark {path}: {one}" for one in await serious(tab.page, "{runOnly: ['color-contrast']}")]
        faults += [] if await tab.is_no_wider_than(360) else [f"{path} does not fit a phone"]

    assert faults == []


async def serious(page: Any, options: str) -> list[str]:
    """Return what axe-core finds that is serious or worse."""
    violations = (await page.evaluate(f"axe.run({options})"))["violations"]
    found = [one for one in violations if one["impact"] in ("serious", "critical")]
    return [f"{one['id']}: {one['nodes'][0]['html'][:160]}" for one in found]


async def test_dead_letters_are_retried_from_the_first_page_on(visit: Visit, site: Site) -> None:
    await retry_all_dead(visit, site)


async def test_filters_stay_in_the_address_and_the_back_button_works(visit: Visit) -> None:
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


async def test_new_rows_come_by_themselves_in_two_tabs_until_one_is_paused(visit: Visit, site: Site) -> None:
    await new_rows_come(visit, site)


async def test_the_keyboard_is_enough(visit: Visit) -> None:
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


async def test_everything_works_without_javascript(visit: Visit) -> None:
    await switch_without_javascript(visit)
    tab = await visit.tab(java_script_enabled=False)
    await tab.go("/simulator")
    await tab.page.get_by_label("Outage lasts").fill("5m")
    await tab.page.get_by_role("button", name="Simulate").click()
    await tab.shows("Nothing is lost")


async def test_the_simulator_redraws_with_each_change(visit: Visit) -> None:
    tab = await visit.tab()
    await tab.go("/simulator")
    await tab.shows("fail for good")
    await tab.page.get_by_label("Outage lasts").press_sequentially("0s")
    await tab.page.get_by_label("Outage lasts").fill("5m")
    await tab.shows("Nothing is lost")


async def test_nobody_comes_in_without_the_password(browser: Any, tmp_path: Path) -> None:
    async with serving_site(tmp_path, console_password="correct horse") as site, visiting(browser, site) as visit:
        tab = await visit.tab()
        await tab.go("/deliveries?state=dead")
        await tab.page.get_by_label("Password").fill("correct horse")
        await tab.page.get_by_role("button", name="Sign in").click()
        await tab.page.wait_for_url("**/deliveries?state=dead")
        await tab.page.get_by_role("button", name="Sign out").click()
        await tab.page.wait_for_url("**/sign-in")


async def test_a_row_that_has_the_focus_stays_until_it_is_left(visit: Visit, site: Site) -> None:
    """Who goes through a list with the keyboard would begin anew with each delivery."""
    tab = await visit.tab()
    await tab.go("/deliveries")
    row = tab.page.locator("table.list tbody a").nth(3)
    chosen = await row.text_content()
    await row.focus()
    await site.deliver(277)
    other = await visit.tab()
    await other.go("/deliveries")
    await site.deliver(278)
    await other.shows("https://a.test/278")

    assert await tab.page.evaluate("document.activeElement.textContent") == chosen
    assert await tab.page.get_by_text("https://a.test/277").count() == 0
    await tab.page.evaluate("document.activeElement.blur()")
    await tab.shows("https://a.test/278")


async def test_a_tab_that_nobody_sees_holds_no_connection(visit: Visit, site: Site) -> None:
    """A browser has six connections to one host for all its tabs; the seventh tab would wait for ever."""
    hide = """(hidden) => {
        Object.defineProperty(document, "hidden", {configurable: true, get: () => hidden});
        document.dispatchEvent(new Event("visibilitychange"));
    }"""
    first = await visit.tab()
    for number in range(8):
        tab = first if number == 0 else await visit.tab_beside()
        await tab.go("/deliveries")
        await tab.shows("https://a.test/9")
        await tab.page.evaluate(hide, True)
    await site.deliver(377)
    await first.page.evaluate(hide, False)
    await first.shows("https://a.test/377")
    await site.deliver(378)
    await first.shows("https://a.test/378")


CLICK = "document.querySelector('[data-pause]').click()"


@pytest.mark.parametrize(
    ("newest", "hold", "let_go"),
    [(477, CLICK, CLICK), (478, "document.querySelector('#rows a').focus()", "document.activeElement.blur()")],
)
async def test_rows_that_were_on_their_way_wait_for_the_reader(
    visit: Visit, site: Site, newest: int, hold: str, let_go: str
) -> None:
    """The reader pauses, or goes to a row, while the newer ones are on their way."""
    tab, asked, goes_on = await visit.tab(), asyncio.Event(), asyncio.Event()

    async def wait(route: Any) -> None:
        asked.set()
        await goes_on.wait()
        await route.continue_()

    await tab.go("/deliveries")
    await tab.shows("https://a.test/9")
    await tab.page.route(re.compile(r"/deliveries\?"), wait)
    await tab.page.evaluate(
        "() => { window.ended = new Promise((end) => document.addEventListener('htmx:afterRequest', () => end())) }"
    )
    await site.deliver(newest)
    await asked.wait()
    await tab.page.evaluate("unfollow()")  # nothing else renews the rows
    await tab.page.evaluate(hold)
    goes_on.set()
    await tab.page.evaluate("window.ended")
    assert await tab.page.get_by_text(f"https://a.test/{newest}").count() == 0
    await tab.page.evaluate(let_go)
    await tab.shows(f"https://a.test/{newest}")


async def test_a_hostile_delivery_fits_a_phone_and_runs_nothing(browser: Any, tmp_path: Path) -> None:
    harm = "<img src=x onerror=alert(1)>\"'><script>alert(1)</script>"
    word = "W" * 300
    data = [{"markdown": f"# {word}\n\n{harm}\n\n| {word} | {word} |\n|--|--|\n| a | {word} |\n\n    {word}",
             "metadata": {"sourceURL": f"https://a.test/{word}/{harm}", "title": word}, word: harm,
             "diff": {"text": f"+{word}{harm}"}, "screenshot": f"https://a.test/{word}"}]  # fmt: skip
    body = body_of("crawl.page", id=f"j/{word}", webhookId=f"k/{harm[:40]}/{word[:100]}", success=False, data=data)
    body = body.replace(b'"success":false', b'"success":false,"error":' + json.dumps(harm + word).encode())
    deep = b'{"type":"crawl.page","id":"job-2","webhookId":"deep","data":' + b"[" * 5_000 + b"]" * 5_000 + b"}"
    url = f"https://a.test/\u202e{'x' * 500_000}/\x1b[31m\x00"
    long = body_of(
        "crawl.page", id="job-2", webhookId="long", data=[{"metadata": {"sourceURL": url, "title": url}}]
    )
    async with serving_site(tmp_path) as site, visiting(browser, site) as visit:
        assert [(await site.post(one)).status for one in (deep, long, body)] == [400, 200, 200]
        await site.deployment.all_ended()
        for width in (1280, 360):
            tab = await visit.tab(viewport={"width": width, "height": 800})
            for path in ("/", "/deliveries", "/jobs", "/work-items?state=dead", "/dead", "/handlers/handlers.save"):
                await tab.go(path)
                assert await tab.is_no_wider_than(width), path
            await tab.go("/deliveries")
            for name in ("table.list tbody a >> nth=0", "dd a[href*='/jobs/'] >> nth=0", "svg a >> nth=0"):
                await tab.page.locator(name).click(force=True)
                await tab.page.wait_for_load_state()
                assert await tab.is_no_wider_than(width), tab.page.url
                assert "Not found" not in await tab.page.content()
            for path in ("/quarantine", "/quarantine/1", "/deliveries/long", "/jobs/job-2"):
                await tab.go(path)
                assert await tab.is_no_wider_than(width), path


async def test_the_essential_way_through_on_postgresql(browser: Any, tmp_path: Path, postgres_url: str) -> None:
    """What is dead is found and retried, new rows come by themselves, a handler is switched, every page opens."""
    async with serving_site(tmp_path, STORE=postgres_url) as site, visiting(browser, site) as visit:
        await retry_all_dead(visit, site)
        await new_rows_come(visit, site)
        await switch_without_javascript(visit)
        tab = await visit.tab(viewport={"width": 360, "height": 800})
        for path in (*PAGES, *ROWS):
            await tab.go(path)
            assert await tab.is_no_wider_than(360), path


RENEW = "renew()"


async def test_a_link_from_elsewhere_leads_to_its_page_and_signs_nobody_out(browser: Any, tmp_path: Path) -> None:
    """An alert in a chat has such links."""
    async with serving_site(tmp_path, console_password="correct horse") as site, visiting(browser, site) as visit:
        tab = await visit.tab()
        await tab.go("/")
        await tab.page.get_by_label("Password").fill("correct horse")
        await tab.page.get_by_role("button", name="Sign in").click()
        await tab.shows("One thing needs you.")
        chat = await tab.page.context.new_page()
        link = f'<a href="{site.url}/dead">alert</a>'
        await chat.route("http://chat.test/", lambda route: route.fulfill(body=link, content_type="text/html"))
        await chat.goto("http://chat.test/")
        await chat.get_by_text("alert").click()
        await chat.get_by_text("Dead letters").first.wait_for()

        await tab.go("/deliveries")
        await tab.shows("Sign out")


async def test_a_page_whose_session_is_over_leads_to_the_sign_in(browser: Any, tmp_path: Path) -> None:
    async with serving_site(tmp_path, console_password="correct horse") as site:
        visit = Visit(browser, site.url)
        tab = await visit.tab()
        await tab.go("/")
        await tab.page.get_by_label("Password").fill("correct horse")
        await tab.page.get_by_role("button", name="Sign in").click()
        await tab.shows("One thing needs you.")

        await tab.page.wait_for_load_state()
        await tab.page.context.clear_cookies()
        await tab.page.evaluate(RENEW)

        await tab.page.wait_for_url("**/sign-in?next=/")
        assert await tab.page.locator("h1").all_text_contents() == ["Sign in"]
        await visit.aclose()


async def refused(answer: dict[str, Any] | None, route: Any) -> None:
    """Give an answer that is none of ours, or none."""
    await (route.abort() if answer is None else route.fulfill(**answer))


async def test_a_page_that_cannot_renew_itself_says_how_old_it_is(browser: Any, site: Site) -> None:
    visit = Visit(browser, site.url)
    tab = await visit.tab()
    await tab.go("/")
    await tab.shows("One thing needs you.")
    said = tab.page.get_by_role("status")
    assert await said.text_content() == ""

    for answer, text in (
        ({"status": 503, "body": "no"}, "The console answers with the error 503. What is shown here is of "),
        (None, "The console does not answer. What is shown here is of "),
    ):
        await tab.page.route(f"{site.url}/", partial(refused, answer))
        await tab.page.evaluate(RENEW)
        await tab.shows(text)
        await tab.page.unroute(f"{site.url}/")
    await tab.page.evaluate(RENEW)
    await tab.page.wait_for_function("document.getElementById('age').textContent === ''")
    await visit.aclose()


async def test_silence_renews_a_page_too(visit: Visit) -> None:
    """A worker that has died changes nothing in the store, nor does a delivery that does not come."""
    tab = await visit.tab()
    await tab.page.clock.install()
    await tab.go("/")
    await tab.shows("One thing needs you.")
    await tab.page.evaluate("unfollow()")
    async with tab.page.expect_request(lambda request: "hx-request" in request.headers):
        await tab.page.clock.run_for(60_000)


async def test_moments_are_in_the_zone_of_the_reader_at_once(visit: Visit) -> None:
    """A renewed part that shows UTC for an instant moves everything below."""
    tab = await visit.tab(timezone_id="Asia/Kolkata", locale="en-GB")
    await tab.go("/")
    await tab.shows("One thing needs you.")
    watch = """() => {
        window.seen = [];
        const look = () => window.seen.push(document.querySelector(".verdict time").textContent);
        new MutationObserver(look).observe(document.getElementById("live"), {childList: true});
        return new Promise((end) => { document.addEventListener("htmx:afterSettle", () => end()); renew(); });
    }"""
    await tab.page.evaluate(watch)
    seen = await tab.page.evaluate("window.seen")

    assert seen
    assert [text for text in seen if not text.endswith("GMT+5:30")] == []


async def test_without_javascript_nothing_offers_what_needs_it(visit: Visit) -> None:
    with_script, without = await visit.tab(), await visit.tab(java_script_enabled=False)
    for tab, pauses, zone in ((with_script, 1, "times are shown in your zone"), (without, 0, "times are in UTC")):
        await tab.go("/deliveries")
        assert await tab.page.get_by_role("button", name="Pause").count() == pauses
        assert zone in await tab.page.locator("footer").inner_text()


async def test_a_wrong_value_in_the_simulator_is_named_at_once(visit: Visit) -> None:
    tab = await visit.tab()
    await tab.go("/simulator")
    await tab.page.get_by_label("Outage lasts").fill("long")
    await tab.shows("outage for: ")


async def test_a_long_body_is_reached_with_the_keyboard_and_printed_whole(visit: Visit, site: Site) -> None:
    data = [{"markdown": "\n\n".join(f"# Line {number}" for number in range(80)), "html": "<p>" * 2_000}]
    assert (await site.post(body_of("crawl.page", id="job-3", webhookId="long", data=data))).status == 200
    await site.deployment.all_ended()
    tab = await visit.tab()
    await tab.go("/deliveries/long")
    await tab.page.get_by_text("Raw body").click()
    boxes = ".markdown, .part[open] > pre"
    assert await tab.page.eval_on_selector_all(boxes, "found => found.map((one) => one.tabIndex)") == [0, 0]
    whole = "found => found.every((one) => one.scrollHeight <= one.clientHeight)"
    assert not await tab.page.eval_on_selector_all(boxes, whole)

    await tab.page.emulate_media(media="print")

    assert await tab.page.eval_on_selector_all(boxes, whole)
    assert not await tab.page.locator("header").is_visible()


async def test_long_words_push_nothing_off_the_page(browser: Any, tmp_path: Path) -> None:
    """Such as the name of a header, which a page shows whole, or an error beside the buttons of its row."""
    word = "W" * 300
    body = body_of("crawl.page", id="job-4", webhookId="long", success=False, data=[], error="no")
    async with serving_site(tmp_path) as site, visiting(browser, site) as visit:
        assert (await site.post(body, headers=[(word, "x")])).status == 200
        await site.deployment.all_ended()
        for width in (1280, 360):
            tab = await visit.tab(viewport={"width": width, "height": 800})
            await tab.go("/deliveries/long")
            await tab.page.get_by_text("Headers", exact=True).click()
            assert await tab.is_no_wider_than(width)
            await tab.go("/dead")
            await tab.page.locator("td.why a").first.evaluate("(link, word) => { link.textContent = word }", word)
            button = await tab.page.get_by_role("link", name="Retry").first.bounding_box()
            assert button is not None
            assert button["height"] < 40


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_fields_stand_out_from_what_is_around_them(visit: Visit, scheme: str) -> None:
    """Their edges have three times the contrast that nothing has (WCAG 2.2, 1.4.11). axe-core sees only texts."""
    tab = await visit.tab(color_scheme=scheme)
    await tab.go("/deliveries")
    colours = "one => ['borderTopColor', 'backgroundColor'].map((name) => getComputedStyle(one)[name])"
    edge, inside = await tab.page.eval_on_selector("input[name=type]", colours)
    _, around = await tab.page.eval_on_selector("form.filters", colours)

    assert min(contrast(edge, inside), contrast(edge, around)) >= 3


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours as WCAG has it."""
    lower, higher = sorted(luminance(colour) for colour in (one, other))
    return (higher + 0.05) / (lower + 0.05)


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour such as `rgb(1, 2, 3)`."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


async def test_two_columns_of_tables_are_one_where_they_would_not_fit(visit: Visit) -> None:
    tab = await visit.tab(viewport={"width": 1024, "height": 800})
    await tab.go("/")
    found = await tab.page.eval_on_selector_all(
        ".columns > section > .list",
        "found => found.map((one) => [one.scrollWidth, one.parentElement.clientWidth])",
    )

    assert found
    assert all(inner <= outer for inner, outer in found)
    assert min(outer for _, outer in found) > 900
