"""From a plan to a rendered page: load it, wait, act, take pictures, read the document."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from playwright.async_api import BrowserContext, Error, Page
from playwright.async_api import TimeoutError as PlaywrightTimeout

from receiver.core.clock import Clock
from receiver.service.emulator.browser.actions import PageActionRun
from receiver.service.emulator.browser.devices import Device, device_of
from receiver.service.emulator.browser.pictures import take_screenshot
from receiver.service.emulator.browser.room import BrowserRoom
from receiver.service.emulator.browser.traffic import PageTraffic
from receiver.service.emulator.content.kinds import ContentKind, kind_of
from receiver.service.emulator.failures import ScrapeFailed
from receiver.service.emulator.fetching.fetcher import Fetcher, SingleAnswer
from receiver.service.emulator.fetching.refusals import site_error, too_large
from receiver.service.emulator.fetching.web_urls import without_credentials
from receiver.service.emulator.renderings import MediaFile, PageActionResults, RenderedPage
from receiver.service.emulator.scrapes import FetchedPage, ScrapePlan

_LOAD_SHARE = 0.4
"""The part of its time-out for which a page may go on loading pictures and scripts."""
_CRASHED = "The page ended its browser: it crashed, or it took too much memory."
_SHOWN = (ContentKind.HTML, ContentKind.TEXT, ContentKind.JSON, ContentKind.XML, ContentKind.CSV)


class ChromiumRenderer:
    """Renders pages. The caller has a time-out; whatever a page does is a ScrapeFailed of that page."""

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
        screenshot, warnings = await _picture(page, plan)
        warnings = [*run.warnings, *warnings]
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
    """Load the page, and give what belongs to it a part of the time."""
    try:
        await page.goto(without_credentials(plan.url), wait_until="domcontentloaded", timeout=plan.timeout)
    except PlaywrightTimeout:
        raise
    except Error:
        # What the browser takes for a download is no page, but it is an answer.
        if traffic.document is None or page.is_closed() or _kind(traffic.document, traffic.document_url) in _SHOWN:
            raise
        return
    with suppress(PlaywrightTimeout):
        await page.wait_for_load_state("load", timeout=plan.timeout * _LOAD_SHARE)


async def _picture(page: Page, plan: ScrapePlan) -> tuple[MediaFile | None, list[str]]:
    wanted = plan.format("screenshot")
    return (None, []) if wanted is None else await take_screenshot(page, wanted)


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
