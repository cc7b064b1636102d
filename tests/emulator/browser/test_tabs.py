"""Tabs of a session: they are taken over before they ask, keep what profiles keep, and load no advertisements."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from receiver.emulator.browser.confinement import can_shut_in
from tests.doubles import LONG
from tests.emulator.browser.app_site import APP, RenderedSite, rendered_site, with_browser

tabs = pytest.importorskip("receiver.emulator.browser.sessions", reason="the extra `browser` is not installed")
pytestmark = [
    with_browser,
    pytest.mark.skipif(not can_shut_in(), reason="this system cannot shut code in: it has no Landlock"),
]

OPENER = """<h1>Opener</h1><button onclick="window.open('/next')">Open</button>
<a href="/next?link" target="_blank">Link</a>"""
NEXT = "<title>Next</title><script src='/more.js'></script>"
POPUP = f"""
await page.goto('{APP}/opener')
async with context.expect_page() as waiting:
    await page.click('button')
popup = await waiting.value
await popup.wait_for_load_state()
[await popup.title(), popup.url]
"""
KEEPS = """<h1>Keeps</h1><script>
document.title = (localStorage.who || 'nobody') + ' ' + (document.cookie || 'no cookie');
</script>"""
SIGN_IN = "<script>localStorage.who = 'somebody'; document.cookie = 'kept=1'</script><h1>Signed in</h1>"
ADS = """<h1>Ads</h1><script src="https://securepubads.g.doubleclick.net/tag/js/gpt.js"></script>
<script src="https://cdn.cookielaw.org/otSDKStub.js"></script><script src="/own.js"></script>
<script>document.querySelector('h1').textContent = [window.ad, window.banner, window.own].join()</script>"""
SITES = {
    "https://securepubads.g.doubleclick.net": {"/tag/js/gpt.js": "window.ad = 'ad'"},
    "https://cdn.cookielaw.org": {"/otSDKStub.js": "window.banner = 'banner'"},
}
EXTRA = {"/opener": OPENER, "/keeps": KEEPS, "/sign-in": SIGN_IN, "/ads": ADS, "/own.js": "window.own = 'own'"}


async def opened(site: RenderedSite, **body: Any) -> str:
    answer = await site.post("/v2/browser", **body)
    assert answer.status_code == 200, answer.text
    session_id: str = answer.json()["id"]
    return session_id


async def ran(site: RenderedSite, session_id: str, code: str, language: str = "python") -> str:
    """Run code in a session, and return the value of its last expression."""
    answer = await site.post(f"/v2/browser/{session_id}/execute", code=code, language=language, timeout=LONG)
    body = answer.json()
    assert body["success"], body
    result: str = body["result"]
    return result


async def ended(site: RenderedSite, session_id: str) -> None:
    assert (await site.http.delete(f"/v2/browser/{session_id}")).status_code == 200


async def test_a_tab_that_a_page_opens_is_loaded_at_once() -> None:
    """It asks for its page before anybody could know of it."""
    async with rendered_site(pages=EXTRA) as site:
        session = await opened(site)
        popup = await ran(site, session, POPUP)
        link = await ran(
            site,
            session,
            f"""
const first = context.pages()[0];
await first.goto('{APP}/opener');
const [tab] = await Promise.all([context.waitForEvent('page'), first.click('a')]);
await tab.waitForLoadState();
[await tab.title(), tab.url()].join()
""",
            "node",
        )
        made = await ran(
            site,
            session,
            f"made = await context.new_page()\nawait made.goto('{APP}/next')\nawait made.title()",
        )

    assert popup == f'["Next", "{APP}/next"]'
    assert (link, made) == (f"Next,{APP}/next?link", "Next")


async def test_a_tab_that_another_debugger_lets_go_on_is_loaded_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It asks for its page before its requests are paused in it. Each connected program lets tabs go on."""
    enabled, asked = 0, asyncio.Event()
    watch = tabs.TabWatch
    hear, send = watch.hear, watch.send

    def heard(self: Any, session_id: str, event: str, listener: Callable[[Any], object]) -> None:
        def noticed(params: Any) -> None:
            asked.set()
            listener(params)

        early = (session_id, event) == ("", "Fetch.requestPaused")
        hear(self, session_id, event, noticed if early else listener)

    async def late(self: Any, method: str, params: Any, session_id: str = "") -> Any:
        nonlocal enabled
        if method == "Fetch.enable" and session_id:
            enabled += 1
            if enabled > 1:  # the first tab is there before
                await asked.wait()
        return await send(self, method, params, session_id)

    monkeypatch.setattr(watch, "hear", heard)
    monkeypatch.setattr(watch, "send", late)
    async with rendered_site(pages=EXTRA | {"/next": NEXT, "/more.js": "document.title = 'More'"}) as site:
        session = await opened(site)
        popup = await ran(site, session, POPUP)

    assert asked.is_set()
    assert popup == f'["More", "{APP}/next"]'


async def test_a_profile_has_cookies_and_storage_for_the_next_session() -> None:
    """It belongs to a team, and a session that does not save leaves it as it was."""
    async with rendered_site(pages=EXTRA) as site:
        profile = {"name": "shop"}
        first = await opened(site, profile=profile)
        await ran(site, first, f"await page.goto('{APP}/sign-in')\nawait page.goto('{APP}/next')\n1")
        await ended(site, first)
        look = f"await page.goto('{APP}/keeps')\nawait page.title()"
        second = await opened(site, profile=profile | {"saveChanges": False})
        found = await ran(site, second, look)
        await ran(site, second, "await page.evaluate(\"localStorage.who = 'another'\")\n1")
        await ended(site, second)
        third = await opened(site, profile=profile)
        again = await ran(site, third, look)
        without = await ran(site, await opened(site), look)
        site.http.headers["Authorization"] = "Bearer fc-other"
        other = await ran(site, await opened(site, profile=profile), look)

    assert (found, again) == ("somebody kept=1", "somebody kept=1")
    assert (without, other) == ("nobody no cookie", "nobody no cookie")


@pytest.mark.parametrize(("blocked", "shown"), [(None, ",,own"), (False, "ad,banner,own")])
async def test_advertisements_and_cookie_pop_ups_are_not_loaded(blocked: bool | None, shown: str) -> None:
    more = {} if blocked is None else {"blockAds": blocked}
    async with rendered_site(pages=EXTRA, more_sites=SITES) as site:
        document = await site.document("/ads", waitFor=1, **more)
        session = await opened(site, **more)
        seen = await ran(site, session, f"await page.goto('{APP}/ads')\nawait page.inner_text('h1')")

    assert document["markdown"] == f"# {shown}"
    assert "warning" not in document["metadata"]
    assert seen == shown


async def test_code_ends_with_its_session() -> None:
    """Its call is answered at once: code has no page any more."""
    async with rendered_site(pages=EXTRA) as site:
        session = await opened(site)
        body = {"code": "await page.goto('about:blank#begun'); await new Promise(() => 1)", "timeout": 300}
        running = asyncio.create_task(site.post(f"/v2/browser/{session}/execute", **body))
        begun = "page.url == 'about:blank#begun'"
        while await ran(site, session, begun) != "true":
            assert not running.done()
        await ended(site, session)
        answer = await running

    assert (answer.status_code, answer.json()["error"]) == (410, "The browser session has ended")
