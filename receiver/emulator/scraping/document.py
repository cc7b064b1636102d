"""The document of a scrape: its formats under their wire names, extracted data, metadata, warnings and price."""

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from receiver.emulator.clock import wire_time
from receiver.emulator.content.metadata import OWN_METADATA
from receiver.emulator.content.page import PageContent
from receiver.emulator.extraction.evidence import ExtractionSource
from receiver.emulator.extraction.extractor import DEFAULT_PROMPT, Extraction, Extractor, Wish
from receiver.emulator.scrapes import FetchedPage, Json, ScrapePlan
from receiver.requests import prices

_BROWSER_FORMATS = ("screenshot",)
_DONE_BY_BROWSER = ("mobile", "waitFor", "location.country", "blockAds")
_MODEL_FORMATS = ("branding", "product", "menu", "audio", "video")


def page_keys(plan: ScrapePlan, content: PageContent) -> Json:
    """Return the formats of a page's content that were asked for."""
    found = {
        "markdown": content.markdown,
        "html": content.html,
        "rawHtml": content.raw_html,
        "rawBase64": content.raw_base64,
        "links": list(content.links),
        "images": list(content.images),
        "attributes": list(content.attributes),
    }
    keys = {name: value for name, value in found.items() if plan.format(name) is not None}
    parsed = {"pages": content.pages, "blocks": content.blocks}
    keys |= {name: list(value) for name, value in parsed.items() if value is not None}
    # An answer has the key of a picture that was asked for even without a browser.
    return keys | {name: None for name in _BROWSER_FORMATS if plan.format(name) is not None}


def extracted_keys(plan: ScrapePlan, data: Any) -> Json:
    """Return extracted data under the names of the version: version 1 has an older name too."""
    if plan.version == 1:
        return {"extract" if plan.format("extract") else "json": data, "llm_extraction": data}
    return {"json": data}


def metadata_of(
    plan: ScrapePlan,
    page: FetchedPage,
    content: PageContent,
    *,
    scrape_id: str,
    credits_used: int,
    cached_at: datetime | None,
    looked_up: bool,
    waited_ms: int,
    timezone: str | None = None,
) -> Json:
    """Return the metadata: first that of the page's tags, then that of the scrape.

    A wait for a free place is a part of it if there was one.
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
    if status < 400:
        return None
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return f"HTTP status {status}"


def option_warnings(plan: ScrapePlan, *, has_browser: bool = False, is_rendered: bool = False) -> list[str]:
    """Return warnings about options without effect. A page that `is_rendered` was loaded by the browser."""
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


EXTRACTING_FORMATS = ("json", "deterministicJson", "extract")
_HTML = ("text/html", "application/xhtml+xml", "")


def extracting_format(plan: ScrapePlan) -> Json | None:
    """Return the format that asks for data; None without one."""
    return next((one for one in plan.formats if one["type"] in EXTRACTING_FORMATS), None)


def wish_of(format_: Json) -> Wish:
    """Return the wish of a format, with a default prompt."""
    schema, prompt = format_.get("schema"), format_.get("prompt")
    if schema is None and prompt is None:
        prompt = DEFAULT_PROMPT
    return Wish(schema, prompt, format_.get("systemPrompt"))


def program_of(plan: ScrapePlan, format_: Json) -> str:
    """Return the name of the program for a site and a wish, which pages of the site share."""
    parts = (urlsplit(plan.url).netloc.lower(), format_.get("schema"), format_.get("prompt"))
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def source_of(page: FetchedPage, content: PageContent) -> ExtractionSource:
    """Return a page as a source for the extractor."""
    kind = page.content_type.partition(";")[0].strip().lower()
    return ExtractionSource(
        url=page.url,
        markdown=content.markdown,
        html=content.raw_html if kind in _HTML else None,
        data=_json_value(page.body) if kind == "application/json" or kind.endswith("+json") else None,
        metadata=content.metadata,
        links=content.links,
        images=content.images,
    )


def _json_value(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):  # the page is still a text
        return None


async def extract(
    extractor: Extractor, page: FetchedPage, content: PageContent, format_: Json, *, seconds: float
) -> Extraction:
    """Return the data of a page for a format; a fault is a warning."""
    return await extractor.extract(source_of(page, content), wish_of(format_), seconds=seconds)


def credits_of(
    plan: ScrapePlan, *, num_pages: int | None = None, check_credits: int = 0, reused: bool = False
) -> int:
    """Return the credits of a successful scrape, by the rules of the service's billing in its order.

    `num_pages` are the pages of a PDF that were read, `check_credits` the cost of the checks of its addresses, and
    with `reused` a deterministicJson program existed already.
    """
    names = {one["type"] for one in plan.formats}
    extracts = bool(names & {"json", "extract"}) or "json" in (plan.format("changeTracking") or {}).get("modes", ())
    cost = prices.LOCKDOWN if plan.lockdown else prices.PAGE
    if "deterministicJson" in names:
        cost = prices.REUSED_JSON if reused else prices.DETERMINISTIC_JSON
    elif extracts:
        cost = prices.JSON
    cost += prices.EXTRA * (not names.isdisjoint({"question", "query"}))
    cost += prices.EXTRA * len(names & (prices.EXTRA_FORMATS - {"question"}))
    if plan.zero_data_retention and not plan.lockdown:
        cost += prices.UNKEPT
    further = max(0, (num_pages or 1) - 1)
    cost += prices.PAGE * further
    if plan.redact_pii:
        cost += prices.EXTRA * (1 + further)
    if plan.proxy in ("enhanced", "stealth"):
        cost += prices.ENHANCED - prices.PAGE
    return cost + check_credits


_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@(?:[\w-]{1,63}\.){1,8}[A-Za-z]{2,24}(?![\w-])")
_CARD = re.compile(r"(?<![\d-])\d(?:[ -]?\d){12,18}(?![\d-])")
_SSN = re.compile(r"(?<![\d-])\d{3}-\d{2}-\d{4}(?![\d-])")
_IBAN = re.compile(r"(?<!\w)[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?!\w)")
_PHONE = re.compile(r"(?<![\w/.-])(?:\+|00)[1-9][\d ()/.-]{6,20}\d(?!\w)|(?<![\w/.-])\(\d{3}\) ?\d{3}-\d{4}(?!\w)")


def redact(text: str) -> str:
    """Return the text with marks instead of e-mail addresses and the numbers of cards, banks, people and phones.

    Patterns find these, so names of people stay. Phone numbers need a country code or the form of the USA.
    """
    text = _EMAIL.sub("<EMAIL>", text)
    text = _CARD.sub(lambda found: "<CARD>" if _is_card(found[0]) else found[0], text)
    text = _SSN.sub("<SSN>", text)
    text = _IBAN.sub("<IBAN>", text)
    return _PHONE.sub("<PHONE>", text)


def _is_card(text: str) -> bool:
    """Return whether digits have the check digit of a payment card (ISO/IEC 7812-1, annex B)."""
    digits = [int(character) for character in reversed(text) if character.isdigit()]
    doubled = [digit if at % 2 == 0 else sum(divmod(2 * digit, 10)) for at, digit in enumerate(digits)]
    return sum(doubled) % 10 == 0 and len(set(digits)) > 1
