"""Actions in a real browser: retried, watched and undone without JavaScript, and with the keyboard on a phone."""

from pathlib import Path

import pytest

from tests.process.console_visits import CHROMIUM, Tab, chromium, serving_site, visiting

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium"),
]


async def press(tab: Tab, text: str) -> None:
    """Go to a link or button with the keyboard alone, and press it."""
    for _ in range(60):
        await tab.page.keyboard.press("Tab")
        if await tab.page.evaluate("document.activeElement.textContent.trim()") == text:
            await tab.page.keyboard.press("Enter")
            return
    raise AssertionError(f"the keyboard does not reach {text!r}")


async def test_a_retry_is_undone_without_javascript_and_shown_with_the_keyboard(tmp_path: Path) -> None:
    """The handler is paused, so that nothing runs meanwhile."""
    async with chromium() as browser, serving_site(tmp_path) as site, visiting(browser, site) as visit:
        plain = await visit.tab(java_script_enabled=False)
        await plain.go("/handlers/handlers.save")
        await plain.page.get_by_role("button", name="Pause").click()
        await plain.shows("paused")
        await plain.go("/dead")
        await plain.page.get_by_role("link", name="Retry", exact=True).click()
        await plain.page.get_by_role("button", name="Retry 3 work items").click()
        await plain.shows("3 of 3 changed; done")
        await plain.shows("3 work items have not run yet")
        await plain.page.get_by_role("link", name="Undo …").click()
        await plain.page.get_by_role("button", name="Take back 3 work items").click()
        await plain.shows("3 of 3 changed; done")

        phone = await visit.tab(viewport={"width": 360, "height": 800}, color_scheme="dark")
        await phone.go("/actions")
        assert await phone.page.locator("#rows tbody tr").count() == 3
        await press(phone, "pause")
        await phone.shows("It runs again, with 0 waiting items.")
        await press(phone, "Undo: resume")
        await phone.page.wait_for_url("**/handlers/handlers.save")
        for path in ("/actions", "/actions/1", "/actions/2", "/work-items?action=3", "/handlers/handlers.save"):
            await phone.go(path)
            assert await phone.is_no_wider_than(360), path
