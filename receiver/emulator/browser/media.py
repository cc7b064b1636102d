"""Pictures and PDFs for the 24 hours in which they can be fetched, at addresses of the emulator's own."""

import base64
import math
import sqlite3
from datetime import timedelta
from typing import Any

from playwright.async_api import Page

from receiver.core.clock import Clock, to_micros
from receiver.emulator.address import PublicAddress
from receiver.emulator.ids import IdSource
from receiver.emulator.scrapes import Json, MediaFile
from receiver.emulator.state.database import StateDatabase

SCHEMA = """
CREATE TABLE IF NOT EXISTS browser_media (
    name TEXT PRIMARY KEY,
    expires_at INTEGER NOT NULL,
    content_type TEXT NOT NULL,
    data BLOB NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS browser_profiles (
    team TEXT NOT NULL,
    name TEXT NOT NULL,
    saved_at INTEGER NOT NULL,
    state BLOB NOT NULL,
    PRIMARY KEY (team, name)
) STRICT;
CREATE INDEX IF NOT EXISTS browser_media_by_age ON browser_media (expires_at, name);
"""
PREFIX = "/_media"
KEPT_FOR = timedelta(hours=24)
"""How long a file can be fetched."""
MAX_BYTES = 512 * 1024 * 1024
"""Bytes of all files; the oldest go first."""
_ENDINGS = {"image/png": "png", "image/jpeg": "jpg", "application/pdf": "pdf"}
_KEEP = "INSERT INTO browser_media (name, expires_at, content_type, data) VALUES (?, ?, ?, ?)"
_FORGET = "DELETE FROM browser_media WHERE expires_at <= ?"
_SIZE = "SELECT COALESCE(sum(length(data)), 0) FROM browser_media"
_EVICT = (
    "DELETE FROM browser_media WHERE name IN (SELECT name FROM browser_media ORDER BY expires_at, name LIMIT 10)"
)
_FIND = "SELECT content_type, data FROM browser_media WHERE name = ? AND expires_at > ?"


class MediaStore:
    """Keeps files. Whoever knows the address of one may fetch it for a day."""

    def __init__(
        self,
        database: StateDatabase,
        clock: Clock,
        ids: IdSource,
        address: PublicAddress,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._database = database
        self._clock = clock
        self._ids = ids
        self._address = address
        self._max_bytes = max_bytes

    async def put(self, file: MediaFile, kept: bool) -> str:
        """Keep a file and return its URL. One that may not be kept is inside of its URL."""
        if not kept:
            return f"data:{file.content_type};base64,{base64.b64encode(file.data).decode()}"
        name = f"{self._ids.new()}.{_ENDINGS[file.content_type]}"
        now = self._clock.now()

        def write(connection: sqlite3.Connection) -> None:
            connection.execute(_FORGET, (to_micros(now),))
            connection.execute(_KEEP, (name, to_micros(now + KEPT_FOR), file.content_type, file.data))
            while connection.execute(_SIZE).fetchone()[0] > self._max_bytes:
                connection.execute(_EVICT)

        await self._database.run(write)
        return f"{self._address.url}{PREFIX}/{name}"

    async def find(self, name: str) -> MediaFile | None:
        """Return a file; None if there is none, or its time is over."""
        now = to_micros(self._clock.now())
        row = await self._database.run(lambda connection: connection.execute(_FIND, (name, now)).fetchone())
        return None if row is None else MediaFile(content_type=row["content_type"], data=row["data"])


# FOLDED: Pictures and PDFs of a page.
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
