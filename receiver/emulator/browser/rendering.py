"""Renders the page of a plan: load it, wait, act, take pictures, read the document."""

import asyncio
import json
import math
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from playwright.async_api import BrowserContext, CDPSession, Error, Locator, Page
from playwright.async_api import TimeoutError as PlaywrightTimeout

from receiver.core.clock import Clock
from receiver.emulator.browser.chromium import BrowserRoom
from receiver.emulator.browser.traffic import Device, PageTraffic, device_of
from receiver.emulator.content.kinds import ContentKind, kind_of
from receiver.emulator.failures import ScrapeFailed
from receiver.emulator.fetching.fetcher import Fetcher, SingleAnswer
from receiver.emulator.fetching.refusals import site_error, too_large
from receiver.emulator.fetching.web_urls import without_credentials
from receiver.emulator.scrapes import FetchedPage, Json, MediaFile, PageActionResults, RenderedPage, ScrapePlan

MAX_RESULT = 5 * 1024 * 1024
"""Characters of a result, as JSON."""
MAX_HEIGHT = 16_000
"""Pixels of a picture of a full page; Chromium draws no higher ones."""
_BEST = 100
_CLICK_MS = 3_000
_MAX_CLICKS = 1_000
_HAS_FOCUS = """() => {
  let one = document.activeElement;
  while (one && one.shadowRoot && one.shadowRoot.activeElement) one = one.shadowRoot.activeElement;
  return !!one && (one.isContentEditable || one.tagName === 'IFRAME' || 'value' in one);
}"""
_LOAD_SHARE = 0.4
"""The part of its time-out in which a page may still load pictures and scripts."""
_CRASHED = "The page ended its browser: it crashed, or it took too much memory."
_SHOWN = (ContentKind.HTML, ContentKind.TEXT, ContentKind.JSON, ContentKind.XML, ContentKind.CSV)


class ScriptFailed(Exception):
    """The script raised, or its result cannot leave the page."""


async def run_script(session: CDPSession, script: str) -> Json:
    """Return `type` and `value` of the result of a script: its last expression, or what it returns."""
    result = await _evaluate(session, script)
    value = result.get("value")
    if value is not None and len(json.dumps(value)) > MAX_RESULT:
        raise ScriptFailed(f"its result has more than {MAX_RESULT:,} characters")
    if "unserializableValue" in result:
        value = str(result["unserializableValue"])
    return {"type": str(result.get("type", "undefined")), "value": value}


async def _evaluate(session: CDPSession, script: str) -> Json:
    await session.send("Runtime.enable")
    compiled = await session.send(
        "Runtime.compileScript", {"expression": script, "sourceURL": "", "persistScript": False}
    )
    # A script with `return` or `await` is the body of a function.
    whole = "exceptionDetails" not in compiled
    answer: dict[str, Any] = await session.send(
        "Runtime.evaluate",
        {
            "expression": script if whole else f"(async () => {{\n{script}\n}})()",
            "awaitPromise": True,
            "returnByValue": True,
            "userGesture": True,
        },
    )
    details = answer.get("exceptionDetails")
    if details is not None:
        raised = details.get("exception", {})
        text = str(raised.get("description") or raised.get("value") or details.get("text", "an exception"))
        raise ScriptFailed(text.partition("\n")[0][:500])
    result: Json = answer["result"]
    return result


class ActionFailed(Exception):
    """An action cannot be done; the text says why."""


@dataclass(slots=True)
class PageActionRun:
    """The actions of one scrape, each on the page as the last one left it, and what they have returned so far."""

    page: Page
    session: CDPSession
    screenshots: list[MediaFile] = field(default_factory=list)
    scrapes: list[Json] = field(default_factory=list)
    javascript_returns: list[Json] = field(default_factory=list)
    pdfs: list[MediaFile] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    """Actions that had no effect."""

    async def run(self, actions: Sequence[Json]) -> PageActionResults:
        """Do all actions. ScrapeFailed names the first that fails."""
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
        """Return the elements of a CSS selector."""
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
            # Hidden or covered elements are clicked as a script would.
            if await found.count() > place:
                await one.dispatch_event("click", timeout=_CLICK_MS)
    await _settle(run.page)


async def _settle(page: Page) -> None:
    """Wait for the new document if a click or a key has begun a navigation."""
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


async def take_screenshot(page: Page, options: Json) -> tuple[MediaFile, list[str]]:
    """Return a picture of the page, and warnings. The viewport of the options is for this picture only."""
    before = page.viewport_size
    wanted = options.get("viewport")
    if wanted is not None:
        await page.set_viewport_size({"width": int(wanted["width"]), "height": int(wanted["height"])})
    try:
        return await _take(page, options)
    finally:
        if wanted is not None and before is not None:
            await page.set_viewport_size(before)


async def _take(page: Page, options: Json) -> tuple[MediaFile, list[str]]:
    quality = options.get("quality")
    as_jpeg = quality is not None and quality < _BEST
    how: dict[str, Any] = {"type": "jpeg", "quality": quality} if as_jpeg else {"type": "png"}
    warnings = []
    if options.get("fullPage"):
        how["full_page"] = True
        width, height = await page.evaluate(
            "() => [document.documentElement, document.body].filter(Boolean).reduce(([w, h], one) => "
            "[Math.max(w, one.scrollWidth), Math.max(h, one.scrollHeight)], [1, 1])"
        )
        scale = await page.evaluate("devicePixelRatio")
        most = math.floor(MAX_HEIGHT / max(1, scale))
        if height > most:
            how["clip"] = {"x": 0, "y": 0, "width": min(width, most), "height": most}
            warnings.append(f"The screenshot ends after {most:,} pixels of the page.")
    data = await page.screenshot(**how)
    return MediaFile(content_type="image/jpeg" if as_jpeg else "image/png", data=data), warnings


async def print_pdf(page: Page, options: Json) -> MediaFile:
    """Return the page as a PDF."""
    data = await page.pdf(
        format=options.get("format", "Letter"),
        landscape=bool(options.get("landscape", False)),
        scale=float(options.get("scale", 1)),
        print_background=True,
    )
    return MediaFile(content_type="application/pdf", data=data)


class ChromiumRenderer:
    """Renders pages within the caller's time-out. Whatever a page does is a ScrapeFailed of that page."""

    def __init__(self, room: BrowserRoom, fetcher: Fetcher, clock: Clock, *, max_bytes: int) -> None:
        self._room = room
        self._fetcher = fetcher
        self._clock = clock
        self._max_bytes = max_bytes

    async def render(self, plan: ScrapePlan) -> RenderedPage:
        """Return the page of a plan as Chromium shows it, after its actions."""
        device = device_of(plan)
        traffic = PageTraffic(
            self._fetcher,
            device,
            url=plan.url,
            headers=plan.headers,
            verify=not plan.skip_tls_verification,
            block_ads=plan.block_ads,
        )
        try:
            async with self._room.context(device.context) as context:
                try:
                    return await _until_crash(context, self._render(context, traffic, plan, device))
                finally:
                    await traffic.close()
        except Error as exc:
            if traffic.failure is not None:
                raise traffic.failure from exc
            raise _translated(plan, exc) from exc

    async def _render(
        self, context: BrowserContext, traffic: PageTraffic, plan: ScrapePlan, device: Device
    ) -> RenderedPage:
        page = await context.new_page()
        session = await context.new_cdp_session(page)
        await traffic.attach(session)
        await _load(page, traffic, plan)
        answer = traffic.document
        if answer is None:
            raise traffic.failure or site_error(plan.url, "ERR_EMPTY_RESPONSE")
        kind = _kind(answer, traffic.document_url)
        if kind not in _SHOWN:
            return self._as_sent(plan, traffic, answer, "A browser does not show files: {} had no effect.")
        if plan.wait_for:
            await asyncio.sleep(plan.wait_for / 1000)
        run = PageActionRun(page, session)
        results = await run.run(plan.actions) if plan.actions else None
        screenshot, warnings = None, run.warnings
        if (wanted := plan.format("screenshot")) is not None:
            screenshot, more = await take_screenshot(page, wanted)
            warnings = [*warnings, *more]
        if kind is not ContentKind.HTML and not plan.actions:
            fetched = self._fetched(plan, answer, traffic.document_url, answer.body)
        else:
            fetched = await self._shown(page, plan, traffic.document or answer)
        return RenderedPage(
            page=fetched,
            screenshot=screenshot,
            actions=results,
            timezone=device.timezone,
            warnings=tuple(warnings),
        )

    async def _shown(self, page: Page, plan: ScrapePlan, answer: SingleAnswer) -> FetchedPage:
        """Return the document as it is now."""
        body = (await page.content()).encode("utf-8", "replace")
        if len(body) > self._max_bytes:
            raise too_large(page.url, self._max_bytes)
        return self._fetched(plan, answer, page.url, body, "text/html; charset=utf-8")

    def _as_sent(self, plan: ScrapePlan, traffic: PageTraffic, answer: SingleAnswer, text: str) -> RenderedPage:
        asked = [name for name, is_asked in _asked(plan).items() if is_asked]
        return RenderedPage(
            page=self._fetched(plan, answer, traffic.document_url, answer.body),
            actions=PageActionResults() if plan.actions else None,
            warnings=(text.format(", ".join(asked)),) if asked else (),
        )

    def _fetched(
        self, plan: ScrapePlan, answer: SingleAnswer, url: str, body: bytes, content_type: str | None = None
    ) -> FetchedPage:
        return FetchedPage(
            source_url=without_credentials(plan.url),
            url=without_credentials(url),
            status=answer.status,
            content_type=answer.header("content-type") if content_type is None else content_type,
            body=body,
            fetched_at=self._clock.now(),
        )


async def _until_crash(context: BrowserContext, work: Coroutine[Any, Any, RenderedPage]) -> RenderedPage:
    """Return what the work returns; ScrapeFailed as soon as a page of the context has crashed."""
    crashed = asyncio.Event()
    context.on("page", lambda page: page.on("crash", lambda _: crashed.set()))
    working, watching = asyncio.ensure_future(work), asyncio.ensure_future(crashed.wait())
    try:
        await asyncio.wait((working, watching), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise ScrapeFailed("SCRAPE_ALL_ENGINES_FAILED", _CRASHED)
    finally:
        for task in (working, watching):
            task.cancel()
        await asyncio.gather(working, watching, return_exceptions=True)


async def _load(page: Page, traffic: PageTraffic, plan: ScrapePlan) -> None:
    """Load the page, and spend a part of the time on what belongs to it."""
    try:
        await page.goto(without_credentials(plan.url), wait_until="domcontentloaded", timeout=plan.timeout)
    except PlaywrightTimeout:
        raise
    except Error:
        # What the browser takes for a download is an answer, though no page.
        if traffic.document is None or page.is_closed() or _kind(traffic.document, traffic.document_url) in _SHOWN:
            raise
        return
    with suppress(PlaywrightTimeout):
        await page.wait_for_load_state("load", timeout=plan.timeout * _LOAD_SHARE)


def _kind(answer: SingleAnswer, url: str) -> ContentKind:
    return kind_of(answer.body, answer.header("content-type"), url)


def _asked(plan: ScrapePlan) -> dict[str, bool]:
    return {
        "waitFor": bool(plan.wait_for),
        "actions": bool(plan.actions),
        "screenshot": plan.format("screenshot") is not None,
    }


def _translated(plan: ScrapePlan, error: Error) -> ScrapeFailed:
    text = error.message
    url = without_credentials(plan.url)
    if isinstance(error, PlaywrightTimeout):
        return ScrapeFailed("SCRAPE_TIMEOUT", f"The page {url} was not rendered within {plan.timeout} ms.")
    if "crash" in text.lower() or "closed" in text.lower():
        return ScrapeFailed("SCRAPE_ALL_ENGINES_FAILED", _CRASHED)
    name = next((word.strip(".,") for word in text.split() if word.startswith("net::ERR_")), "net::ERR_FAILED")
    return site_error(url, name.removeprefix("net::"))
