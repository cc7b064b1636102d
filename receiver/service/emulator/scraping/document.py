"""The document of an answer: the formats that were asked for under their wire names, and the page's metadata."""

from collections.abc import Mapping
from datetime import datetime
from http import HTTPStatus
from typing import Any

from receiver.service.emulator.scrapes import FetchedPage, Json, ScrapePlan
from receiver.service.emulator.scraping.ports import ReadContent
from receiver.service.emulator.times import wire_time

_BROWSER_FORMATS = ("screenshot",)
_DONE_BY_BROWSER = ("mobile", "waitFor", "location.country", "blockAds")
_MODEL_FORMATS = ("branding", "product", "menu", "audio", "video")
OWN_METADATA = frozenset(
    {"scrapeId", "sourceURL", "url", "statusCode", "contentType", "error", "indexId", "timezone"}
)
OWN_METADATA |= {
    "proxyUsed",
    "cacheState",
    "cachedAt",
    "numPages",
    "totalPages",
    "creditsUsed",
    "postprocessorsUsed",
}
OWN_METADATA |= {"concurrencyLimited", "concurrencyQueueDurationMs"}
"""Keys that a page's own tags never set."""


def page_keys(plan: ScrapePlan, content: ReadContent) -> Json:
    """Return the formats that are a page's content, as far as they were asked for."""
    found = {
        "markdown": content.markdown,
        "html": content.html,
        "rawHtml": content.raw_html,
        "rawBase64": content.raw_base64,
        "links": list(content.links),
        "images": list(content.images),
        "attributes": None if content.attributes is None else list(content.attributes),
    }
    keys = {name: value for name, value in found.items() if plan.format(name) is not None and value is not None}
    parsed = {"pages": content.pages, "blocks": content.blocks}
    keys |= {name: list(value) for name, value in parsed.items() if value is not None}
    # An answer always has the key of a picture that was asked for, also when no browser is here to take one.
    return keys | {name: None for name in _BROWSER_FORMATS if plan.format(name) is not None}


def extracted_keys(plan: ScrapePlan, data: Any) -> Json:
    """Return extracted data under the names of the version: the first one has an older name beside the new one."""
    if plan.version == 1:
        return {"extract" if plan.format("extract") else "json": data, "llm_extraction": data}
    return {"json": data}


def metadata_of(
    plan: ScrapePlan,
    page: FetchedPage,
    content: ReadContent,
    *,
    scrape_id: str,
    credits_used: int,
    cached_at: datetime | None,
    looked_up: bool,
    waited_ms: int,
    timezone: str | None = None,
) -> Json:
    """Return the metadata: what the page's tags say first, and what the scrape knows last.

    A wait for a free place is told if there was one.
    """
    own: dict[str, Any] = {
        "url": page.url,
        "sourceURL": plan.url,
        "scrapeId": scrape_id,
        "statusCode": page.status,
        "contentType": page.content_type or None,
        "proxyUsed": "stealth" if plan.proxy in ("stealth", "enhanced") else "basic",
        "numPages": content.num_pages,
        "totalPages": content.total_pages,
        "creditsUsed": credits_used,
        "cacheState": ("miss" if cached_at is None else "hit") if looked_up else None,
        "cachedAt": None if cached_at is None else wire_time(cached_at),
        "error": _reason(page.status),
        "timezone": timezone,
    }
    if waited_ms:
        own |= {"concurrencyLimited": True, "concurrencyQueueDurationMs": waited_ms}
    tags: Mapping[str, Any] = content.metadata
    shown = {name: value for name, value in tags.items() if name not in OWN_METADATA}
    return shown | {name: value for name, value in own.items() if value is not None}


def _reason(status: int) -> str | None:
    """Return the words for a status that says that something is wrong."""
    if status < 400:
        return None
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return f"HTTP status {status}"


def option_warnings(plan: ScrapePlan, *, has_browser: bool = False, is_rendered: bool = False) -> list[str]:
    """Return what was asked for and cannot be done here. A page that `is_rendered` was loaded by the browser."""
    warnings: list[str] = []
    ignored = [name for name in plan.without_effect if not (is_rendered and name in _DONE_BY_BROWSER)]
    if ignored:
        lacks = "proxies and places" if has_browser else "browser, proxies or places"
        names = ", ".join(ignored)
        warnings.append(f"The emulator has no {lacks}: {names} had no effect.")
    if any(one.get("type") == "image" for one in plan.parsers):
        warnings.append("The parser image needs OCR, which the emulator does not have.")
    asked = [one["type"] for one in plan.formats]
    in_browser = [name for name in asked if name in _BROWSER_FORMATS and not has_browser]
    warnings += [f"The format {name} needs a browser, which the emulator does not have." for name in in_browser]
    warnings += [f"The emulator cannot make the format {name}." for name in asked if name in _MODEL_FORMATS]
    if plan.only_clean_content:
        warnings.append("onlyCleanContent was treated as onlyMainContent: it takes a language model.")
    if plan.zero_data_retention and plan.format("changeTracking") is not None:
        warnings.append("changeTracking needs earlier scrapes, and zeroDataRetention keeps none.")
    return warnings
