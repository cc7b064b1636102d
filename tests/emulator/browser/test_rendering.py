"""Pages that build themselves with scripts, as Chromium shows them: waiting, actions, pictures, devices."""

import base64
import struct
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio

from receiver.core.clock import VirtualClock
from tests.doubles import LONG
from tests.emulator import schemas
from tests.emulator.answering import hold
from tests.emulator.browser.app_site import APP, OTHER, RenderedSite, rendered_site, with_browser
from tests.emulator.schemas import Schema

pytestmark = [with_browser, pytest.mark.asyncio(loop_scope="module")]
READY = {"type": "wait", "selector": ".item"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site() -> AsyncIterator[RenderedSite]:
    async with rendered_site(clock=VirtualClock()) as made:
        yield made


def action(kind: str, **options: Any) -> dict[str, Any]:
    return {"type": kind, **options}


def script(text: str) -> dict[str, Any]:
    return action("executeJavascript", script=text)


def returned(document: dict[str, Any]) -> list[Any]:
    return [one["value"] for one in document["actions"]["javascriptReturns"]]


def png_size(data: bytes) -> tuple[int, int]:
    assert data.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", data[16:24])
    return width, height


async def test_a_page_is_read_after_its_scripts_have_run(site: RenderedSite) -> None:
    """All formats are of what is there at the end; without a wait there is no browser."""
    plain = await site.document()
    shown = await site.document(waitFor=2500, formats=["markdown", "html", "rawHtml", "links"])

    assert plain["markdown"] == "loading"
    assert shown["markdown"].startswith("# Bikes")
    assert "- City bike\n- Race bike" in shown["markdown"]
    assert shown["links"] == [f"{APP}/next"]
    assert '<li class="item">City bike</li>' in shown["rawHtml"]
    assert "<script>" in shown["rawHtml"]
    assert "<script>" not in shown["html"]
    assert "warning" not in shown


async def test_a_page_that_was_waited_for_is_cached_apart(site: RenderedSite) -> None:
    """A copy from before its scripts is another page."""
    options: dict[str, Any] = {"waitFor": 2600, "maxAge": 60_000}
    first = await site.document(**options)
    again = await site.document(**options)
    plain = await site.document(maxAge=60_000)

    assert (first["metadata"]["cacheState"], again["metadata"]["cacheState"]) == ("miss", "hit")
    assert again["markdown"] == first["markdown"] != plain["markdown"]


async def test_all_actions_work_on_one_page(site: RenderedSite) -> None:
    """In their order; each result is in the list of its kind, and the document is the page after all of them."""
    document = await site.document(
        formats=["markdown", "screenshot"],
        actions=[
            READY,
            script("document.querySelectorAll('.item').length"),
            action("scrape"),
            action("click", selector="#q"),
            action("write", text="Földing bike ☂"),
            action("click", selector="#add"),
            action("screenshot"),
            action("pdf", format="A4", landscape=True),
            script("document.querySelectorAll('li').length"),
            action("wait", milliseconds=10),
            action("click", selector="#next"),
            action("scrape"),
        ],
    )

    assert document["markdown"] == "# The next page"
    assert document["metadata"]["url"] == f"{APP}/next"
    assert document["metadata"]["sourceURL"] == f"{APP}/"
    assert returned(document) == [2, 3]
    assert [one["url"] for one in document["actions"]["scrapes"]] == [f"{APP}/", f"{APP}/next"]
    assert "City bike" in document["actions"]["scrapes"][0]["html"]
    (picture,), (pdf,) = document["actions"]["screenshots"], document["actions"]["pdfs"]
    assert png_size((await site.http.get(picture)).content) == (1920, 1080)
    assert (await site.http.get(pdf)).content.startswith(b"%PDF-")
    assert (await site.http.get(document["screenshot"])).headers["content-type"] == "image/png"


async def test_keys_scrolls_and_clicks_reach_the_page(site: RenderedSite) -> None:
    document = await site.document(
        "/keys",
        actions=[
            action("press", key="Enter"),
            action("scroll"),
            script("scrollY > 0"),
            action("scroll", direction="up"),
            script("scrollY"),
            action("scroll", selector="#box"),
            script("box.scrollTop"),
            action("click", selector=".many", all=True),
            action("click", selector="#hidden"),
            script("document.querySelectorAll('[data-clicked]').length"),
            action("click", selector="#nothing"),
        ],
    )

    assert "Enter" in document["markdown"]
    assert returned(document) == [True, 0, 50, 3]
    assert "'#nothing'" in document["warning"]


async def test_scripts_return_what_they_say(site: RenderedSite) -> None:
    """Their last expression, or what `return` names; promises are waited for."""
    cases = [
        ("1 + 1", "number", 2),
        ("'a'", "string", "a"),
        ("({a: [1, null]})", "object", {"a": [1, None]}),
        ("undefined", "undefined", None),
        ("null", "object", None),
        ("0 / 0", "number", "NaN"),
        ("Promise.resolve(true)", "boolean", True),
        ("const one = await Promise.resolve(4); return one", "number", 4),
        ("let kept = 1; kept", "number", 1),
    ]
    document = await site.document("/next", actions=[script(text) for text, _, _ in cases])

    found = [(one["type"], one["value"]) for one in document["actions"]["javascriptReturns"]]
    assert found == [(kind, value) for _, kind, value in cases]


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ([script("throw new Error('on purpose')")], "Action 1 (executeJavascript) failed: Error: on purpose"),
        ([script("this is no script")], "SyntaxError"),
        ([action("scrape"), action("scroll", selector="#nothing")], "Action 2 (scroll) failed: no element matches"),
        ([action("click", selector="][")], "Action 1 (click) failed"),
        ([action("press", key="NoSuchKey")], "Action 1 (press) failed"),
        ([action("write", text="x")], "no input has the focus"),
        ([action("pdf", scale=50)], "Action 1 (pdf) failed"),
        ([script("'x'.repeat(6e6)")], "more than 5,242,880 characters"),
    ],
)
async def test_an_action_that_fails_is_named(site: RenderedSite, steps: list[Any], told: str) -> None:
    answer = await site.post("/v2/scrape", url=f"{APP}/next", actions=steps, timeout=1000 * LONG)

    assert (answer.status_code, answer.json()["code"]) == (500, "SCRAPE_ACTION_ERROR")
    assert told in answer.json()["error"]


async def test_an_element_that_never_comes_takes_the_time_of_the_scrape(site: RenderedSite) -> None:
    answer = await site.scrape("/next", timeout=3000, actions=[action("wait", selector="#never")])

    assert answer["code"] == "SCRAPE_TIMEOUT"


async def test_screenshots_have_the_size_and_kind_that_was_asked_for(site: RenderedSite) -> None:
    small = {"type": "screenshot", "viewport": {"width": 320, "height": 200}}
    full = {"type": "screenshot", "fullPage": True}
    jpeg = {"type": "screenshot", "quality": 40}
    first = await site.document("/keys", formats=["screenshot", "markdown"][:1], actions=[small, jpeg, full])
    one, two, three = [await site.http.get(url) for url in first["actions"]["screenshots"]]
    tall = await site.document("/tall", formats=[full])
    options = {"url": f"{APP}/keys", "formats": ["screenshot@fullPage"], "timeout": 1000 * LONG}
    version_1 = (await site.post("/v1/scrape", **options)).json()["data"]

    assert png_size(one.content) == (320, 200)
    assert (two.headers["content-type"], two.content[:2]) == ("image/jpeg", b"\xff\xd8")
    assert png_size(three.content)[1] > 5000
    assert png_size((await site.http.get(tall["screenshot"])).content) == (1920, 16_000)
    assert "ends after 16,000 pixels" in tall["warning"]
    assert png_size((await site.http.get(version_1["screenshot"])).content)[1] > 5000


async def test_pictures_expire_after_24_hours_on_the_emulators_clock(site: RenderedSite) -> None:
    url = (await site.document("/next", formats=["screenshot"]))["screenshot"]
    await site.emulator.advance(timedelta(hours=23, minutes=59))
    before = await site.http.head(url)
    await site.emulator.advance(timedelta(minutes=2))
    after = await site.http.get(url)

    assert url.startswith("http://emulator.test/_media/")
    assert (before.status_code, before.headers["content-security-policy"]) == (200, "sandbox; default-src 'none'")
    assert (after.status_code, after.json()["success"]) == (404, False)
    assert (await site.http.delete(url)).status_code == 405


async def test_without_retention_no_picture_is_kept(site: RenderedSite) -> None:
    """It is inside of its address."""
    document = await site.document("/next", formats=["screenshot"], zeroDataRetention=True)
    head, _, data = document["screenshot"].partition(",")

    assert head == "data:image/png;base64"
    assert png_size(base64.b64decode(data)) == (1920, 1080)


async def test_the_page_sees_the_device_and_the_place(site: RenderedSite) -> None:
    """A phone with its screen and its fingers; languages and time zone of the country."""
    desk = (await site.document("/seen", waitFor=10))["markdown"].split("\n\n")
    phone = await site.document("/seen", mobile=True, location={"country": "de"})
    seen = phone["markdown"].split("\n\n")
    spoken = await site.document("/seen", location={"country": "CH", "languages": ["fr-CH", "it"]})

    assert (desk[0], desk[1], desk[4], desk[5]) == ("1920", "en-US", "America/New\\_York", "false")
    assert "Headless" not in desk[3]
    assert (seen[0], seen[1], seen[4], seen[5]) == ("390", "de-DE", "Europe/Berlin", "true")
    assert "Mobile" in seen[3]
    assert phone["metadata"]["timezone"] == "Europe/Berlin"
    assert spoken["markdown"].split("\n\n")[1] == "fr-CH"
    assert "warning" not in phone


async def test_redirects_and_missing_pages_are_as_without_a_browser(site: RenderedSite) -> None:
    moved = await site.document("/old", waitFor=10)
    away = await site.document("/away", waitFor=10)
    gone = await site.document("/nowhere", waitFor=10)
    loop = await site.scrape("/loop", waitFor=10)

    assert (moved["metadata"]["url"], moved["metadata"]["statusCode"]) == (f"{APP}/next", 200)
    assert (away["metadata"]["url"], away["markdown"]) == (f"{OTHER}/page", "# Another site")
    assert (gone["metadata"]["statusCode"], gone["metadata"]["error"]) == (404, "Not Found")
    assert gone["markdown"] == "# Not here"
    assert loop["code"] == "SCRAPE_SITE_ERROR"
    assert "ERR_TOO_MANY_REDIRECTS" in loop["error"]


async def test_what_is_no_web_page_is_read_as_the_site_sent_it(site: RenderedSite) -> None:
    data = await site.document("/data.json", waitFor=10)
    binary = await site.scrape("/file.bin", waitFor=10)

    assert data["markdown"] == '```json\n{"a": 1}\n```'
    assert data["metadata"]["contentType"] == "application/json; charset=utf-8"
    assert binary["code"] == "SCRAPE_UNSUPPORTED_FILE_ERROR"


async def test_changes_are_tracked_on_rendered_pages(site: RenderedSite) -> None:
    formats = ["markdown", {"type": "changeTracking", "modes": ["git-diff"], "tag": "rendered"}]
    first = await site.document(formats=formats, waitFor=2500)
    adding = [READY, script("document.querySelector('ul').append('New bike')")]
    second = await site.document(formats=formats, actions=adding)

    assert first["changeTracking"]["changeStatus"] == "new"
    assert second["changeTracking"]["changeStatus"] == "changed"
    assert "New bike" in second["changeTracking"]["diff"]["text"]


async def test_a_batch_renders_its_pages(site: RenderedSite) -> None:
    """Jobs scrape as the single scrape does."""
    started = await site.post("/v2/batch/scrape", urls=[f"{APP}/", f"{APP}/nowhere"], waitFor=2500)
    await site.emulator.settled()
    job = (await site.http.get(f"/v2/batch/scrape/{started.json()['id']}")).json()

    assert job["status"] == "completed"
    assert sorted(one["markdown"].partition("\n")[0] for one in job["data"]) == ["# Bikes", "# Not here"]


@pytest.mark.parametrize(("version", "schema"), [("v1", schemas.SCRAPE_V1), ("v2", schemas.SCRAPE_V2)])
async def test_answers_have_the_form_of_the_interface(site: RenderedSite, version: str, schema: Schema) -> None:
    steps = [READY, *(action(kind) for kind in ("scrape", "screenshot", "pdf")), script("[1]")]
    options = {"url": f"{APP}/", "formats": ["markdown", "screenshot"], "mobile": True, "timeout": 1000 * LONG}
    answer = await site.post(f"/{version}/scrape", actions=steps, **options)

    hold(answer.json(), schema)
    assert all(len(found) == 1 for found in answer.json()["data"]["actions"].values())
