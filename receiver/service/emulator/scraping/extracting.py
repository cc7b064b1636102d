"""Data out of a scraped page: what the extractor is given, and how its result stands in the answer."""

import hashlib
import json
from typing import Any
from urllib.parse import urlsplit

from receiver.service.emulator.extraction.extractor import Extractor
from receiver.service.emulator.extraction.source import Extraction, ExtractionSource, Wish
from receiver.service.emulator.scrapes import FetchedPage, Json, ScrapePlan
from receiver.service.emulator.scraping.ports import ReadContent

EXTRACTING_FORMATS = ("json", "deterministicJson", "extract")
_HTML = ("text/html", "application/xhtml+xml", "")
_DEFAULT_PROMPT = "Extract the title, the description and the main values of the page."


def extracting_format(plan: ScrapePlan) -> Json | None:
    """Return the format that asks for data; None without one."""
    return next((one for one in plan.formats if one["type"] in EXTRACTING_FORMATS), None)


def wish_of(format_: Json) -> Wish:
    """Return what a format asks for; the comparison of values has a prompt by default."""
    schema, prompt = format_.get("schema"), format_.get("prompt")
    if schema is None and prompt is None:
        prompt = _DEFAULT_PROMPT
    return Wish(schema, prompt, format_.get("systemPrompt"))


def program_of(plan: ScrapePlan, format_: Json) -> str:
    """Return the name of the program for a site and a wish: pages of one site share it."""
    parts = (urlsplit(plan.url).netloc.lower(), format_.get("schema"), format_.get("prompt"))
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def source_of(page: FetchedPage, content: ReadContent) -> ExtractionSource:
    """Return a page as the extractor reads it."""
    kind = page.content_type.partition(";")[0].strip().lower()
    return ExtractionSource(
        url=page.url,
        markdown=content.markdown or "",
        html=content.raw_html if kind in _HTML else None,
        data=_json_value(page.body) if kind == "application/json" or kind.endswith("+json") else None,
        metadata=content.metadata,
        links=content.links,
        images=content.images,
    )


def _json_value(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):  # the page is still there as a text
        return None


async def extract(
    extractor: Extractor, page: FetchedPage, content: ReadContent, format_: Json, *, seconds: float
) -> Extraction:
    """Return what a format asks of a page; a fault is a warning."""
    return await extractor.extract(source_of(page, content), wish_of(format_), seconds=seconds)
