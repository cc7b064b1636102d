"""Pictures and PDFs of a page."""

import math
from typing import Any

from playwright.async_api import Page

from receiver.service.emulator.renderings import MediaFile
from receiver.service.emulator.scrapes import Json

MAX_HEIGHT = 16_000
"""Pixels of a picture of a full page; Chromium draws no higher ones."""
_BEST = 100


async def take_screenshot(page: Page, options: Json) -> tuple[MediaFile, list[str]]:
    """Return a picture of the page, and warnings. The viewport of the options holds for this picture alone."""
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
