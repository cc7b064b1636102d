"""The actions of a scrape, one after the other, on the page as the last one left it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from playwright.async_api import CDPSession, Error, Locator, Page

from receiver.service.emulator.browser.pictures import print_pdf, take_screenshot
from receiver.service.emulator.browser.scripts import ScriptFailed, run_script
from receiver.service.emulator.failures import ScrapeFailed
from receiver.service.emulator.renderings import MediaFile, PageActionResults
from receiver.service.emulator.scrapes import Json

_CLICK_MS = 3_000
_MAX_CLICKS = 1_000
_HAS_FOCUS = """() => {
  let one = document.activeElement;
  while (one && one.shadowRoot && one.shadowRoot.activeElement) one = one.shadowRoot.activeElement;
  return !!one && (one.isContentEditable || one.tagName === 'IFRAME' || 'value' in one);
}"""


class ActionFailed(Exception):
    """An action cannot be done; the text says why."""


@dataclass(slots=True)
class PageActionRun:
    """The actions of one scrape on its page."""

    page: Page
    """The page."""
    session: CDPSession
    """Speaks to the page."""
    screenshots: list[MediaFile] = field(default_factory=list)
    """Taken so far."""
    scrapes: list[Json] = field(default_factory=list)
    """Taken so far."""
    javascript_returns: list[Json] = field(default_factory=list)
    """Returned so far."""
    pdfs: list[MediaFile] = field(default_factory=list)
    """Made so far."""
    warnings: list[str] = field(default_factory=list)
    """What had no effect."""

    async def run(self, actions: Sequence[Json]) -> PageActionResults:
        """Do all actions. ScrapeFailed names the first one that cannot be done."""
        for number, action in enumerate(actions, 1):
            kind = action["type"]
            try:
                await _ACTIONS[kind](self, action)
            except (ActionFailed, ScriptFailed) as exc:
                raise _failed(number, kind, str(exc)) from exc
            except Error as exc:
                if self.page.is_closed() or "crash" in exc.message.lower():
                    raise
                raise _failed(number, kind, exc.message.partition("\n")[0]) from exc
        return PageActionResults(
            screenshots=tuple(self.screenshots),
            scrapes=tuple(self.scrapes),
            javascript_returns=tuple(self.javascript_returns),
            pdfs=tuple(self.pdfs),
        )

    def find(self, selector: str) -> Locator:
        """Return what a CSS selector matches."""
        return self.page.locator(f"css={selector}")


def _failed(number: int, kind: str, text: str) -> ScrapeFailed:
    return ScrapeFailed("SCRAPE_ACTION_ERROR", f"Action {number} ({kind}) failed: {text}")


async def _wait(run: PageActionRun, action: Json) -> None:
    if "selector" in action:
        # The time-out is that of the scrape.
        await run.find(action["selector"]).first.wait_for(state="attached", timeout=0)
    else:
        await asyncio.sleep(action["milliseconds"] / 1000)


async def _screenshot(run: PageActionRun, action: Json) -> None:
    picture, warnings = await take_screenshot(run.page, action)
    run.screenshots.append(picture)
    run.warnings += warnings


async def _click(run: PageActionRun, action: Json) -> None:
    found = run.find(action["selector"])
    count = await found.count()
    if not count:
        run.warnings.append(f"No element matched {action['selector']!r}: nothing was clicked.")
    for place in range(min(count, _MAX_CLICKS) if action.get("all") else min(count, 1)):
        one = found.nth(place)
        try:
            await one.click(timeout=_CLICK_MS)
        except Error:
            if run.page.is_closed():
                raise
            # Hidden or covered elements are clicked as a script does it.
            if await found.count() > place:
                await one.dispatch_event("click", timeout=_CLICK_MS)
    await _settle(run.page)


async def _settle(page: Page) -> None:
    """Let a navigation that a click or a key has begun get as far as its new document."""
    await page.wait_for_load_state("domcontentloaded")


async def _write(run: PageActionRun, action: Json) -> None:
    if not await run.page.evaluate(_HAS_FOCUS):
        raise ActionFailed("no input has the focus: click it first")
    await run.page.keyboard.type(action["text"])


async def _press(run: PageActionRun, action: Json) -> None:
    await run.page.keyboard.press(action["key"])
    await _settle(run.page)


async def _scroll(run: PageActionRun, action: Json) -> None:
    sign = -1 if action.get("direction") == "up" else 1
    if "selector" not in action:
        await run.page.evaluate(f"window.scrollBy(0, {sign} * window.innerHeight)")
        return
    found = run.find(action["selector"])
    if not await found.count():
        raise ActionFailed(f"no element matches {action['selector']!r}")
    await found.first.evaluate(f"one => one.scrollBy(0, {sign} * one.clientHeight)")


async def _scrape(run: PageActionRun, action: Json) -> None:
    run.scrapes.append({"url": run.page.url, "html": await run.page.content()})


async def _execute(run: PageActionRun, action: Json) -> None:
    run.javascript_returns.append(await run_script(run.session, action["script"]))


async def _pdf(run: PageActionRun, action: Json) -> None:
    run.pdfs.append(await print_pdf(run.page, action))


_ACTIONS: dict[str, Callable[[PageActionRun, Json], Awaitable[None]]] = {
    "wait": _wait,
    "screenshot": _screenshot,
    "click": _click,
    "write": _write,
    "press": _press,
    "scroll": _scroll,
    "scrape": _scrape,
    "executeJavascript": _execute,
    "pdf": _pdf,
}
