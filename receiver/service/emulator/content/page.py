"""From what a site answered to the content of the page, in the formats that a scrape asked for."""

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from selectolax.lexbor import LexborHTMLParser

from receiver.service.emulator.content.charsets import codec_of, decode
from receiver.service.emulator.content.cleaning import CleanPage, clean, matches, without_skip_link
from receiver.service.emulator.content.documents.isolation import read_document
from receiver.service.emulator.content.images import images_of
from receiver.service.emulator.content.kinds import ContentKind, kind_of
from receiver.service.emulator.content.markdown.texts import fenced
from receiver.service.emulator.content.markdown.writer import to_markdown
from receiver.service.emulator.content.metadata import metadata_of
from receiver.service.emulator.content.parsing import parse_html
from receiver.service.emulator.content.urls import Resolver, resolver_of
from receiver.service.emulator.failures import ScrapeFailed
from receiver.service.emulator.scrapes import FetchedPage, ScrapePlan

_WITHOUT_MARKDOWN = [
    "html",
    "rawHtml",
    "rawBase64",
    "links",
    "images",
    "attributes",
    "screenshot",
    "screenshot@fullPage",
    "branding",
    "audio",
    "video",
]


_OLD_OFFICE = (
    "The emulator does not read the older formats of Office (.doc, .xls, .ppt), which the service does: nothing of "
    "this file was taken. Save it as .docx, .xlsx or .pptx."
)


@dataclass(slots=True, kw_only=True)
class PageContent:
    """What a page holds. A field that no format of the plan needs may be empty."""

    kind: ContentKind
    """How it was read."""
    markdown: str = ""
    """In the service's Markdown; of a PDF that is not to be read, the file in base64."""
    html: str = ""
    """The cleaned page; for a document, what its text looks like as a page."""
    raw_html: str = ""
    """The text of the body, untouched; for a document, as `html`."""
    raw_base64: str = ""
    """The bytes of the body, if that format was asked for."""
    links: tuple[str, ...] = ()
    """Of the cleaned page: absolute, without fragments, each once. They are there whatever was asked for."""
    images: tuple[str, ...] = ()
    """Absolute addresses in the whole page, each once, if that format was asked for."""
    metadata: dict[str, Any] = field(default_factory=dict)
    """What the page says of itself. The service's own fields are not in it and go over it."""
    attributes: list[dict[str, Any]] = field(default_factory=list)
    """For the format `attributes`: selector, attribute and values."""
    warnings: tuple[str, ...] = ()
    """For the answer's `warning`: what had no effect, or was left out."""
    num_pages: int | None = None
    """Pages of a PDF that were read."""
    total_pages: int | None = None
    """Pages that the PDF has."""
    pages: list[dict[str, Any]] | None = None
    """The Markdown of each page of a PDF, if that was asked for."""
    blocks: list[dict[str, Any]] | None = None
    """The paragraphs of each page of a PDF, if they were asked for."""


def read_page(page: FetchedPage, plan: ScrapePlan) -> PageContent:
    """Return the content of a page. Raises ScrapeFailed, and nothing else, for a page that cannot be read."""
    kind = kind_of(page.body, page.content_type, page.url)
    return _read(kind, page.body, page.content_type, page.url, plan)


def read_file(body: bytes, filename: str, content_type: str, plan: ScrapePlan) -> PageContent:
    """Return the content of an uploaded file; the end of its name says more than its type. Raises ScrapeFailed."""
    kind = kind_of(body, content_type, filename, name_first=True)
    return _read(kind, body, content_type, "", plan)


def _read(kind: ContentKind, body: bytes, content_type: str, url: str, plan: ScrapePlan) -> PageContent:
    try:
        content = _READERS[kind](kind, body, content_type, url, plan)
    except (ScrapeFailed, MemoryError):
        raise
    except Exception as error:
        # Whatever a page does to its reader is an error of that page, never of the job.
        raise ScrapeFailed(
            "SCRAPE_ALL_ENGINES_FAILED", f"The page could not be read as {kind.value}: {type(error).__name__}."
        ) from error
    if plan.format("rawBase64") is not None:
        content.raw_base64 = base64.b64encode(body).decode()
    return content


def _read_html(kind: ContentKind, body: bytes, content_type: str, url: str, plan: ScrapePlan) -> PageContent:
    return _from_html(kind, decode(body, content_type), url, plan)


def _from_html(kind: ContentKind, text: str, url: str, plan: ScrapePlan) -> PageContent:
    tree = parse_html(text)
    resolver = resolver_of(tree, url)
    content = PageContent(kind=kind, raw_html=text, metadata=metadata_of(tree, resolver))
    if plan.format("images") is not None:
        content.images = images_of(tree, resolver)
    if (wanted := plan.format("attributes")) is not None:
        content.attributes = _attributes(tree, wanted.get("selectors") or ())
    cleaned = _clean(tree, resolver, plan, only_main=plan.only_main_content)
    content.markdown = _markdown(cleaned, plan)
    if plan.only_main_content and not content.markdown and not _has_content(cleaned):
        # Many pages have all their content in something with the class of a heading or a menu.
        cleaned = _clean(parse_html(text), resolver, plan, only_main=False)
        content.markdown = _markdown(cleaned, plan)
    content.links = tuple(cleaned.links)
    content.warnings = tuple(cleaned.warnings)
    content.html = (cleaned.tree.html or "") if plan.format("html") is not None else ""
    return content


def _clean(tree: LexborHTMLParser, resolver: Resolver, plan: ScrapePlan, *, only_main: bool) -> CleanPage:
    return clean(tree, resolver, include=plan.include_tags, exclude=plan.exclude_tags, only_main=only_main)


def _markdown(page: CleanPage, plan: ScrapePlan) -> str:
    if all(one["type"] in _WITHOUT_MARKDOWN for one in plan.formats):
        return ""
    return without_skip_link(to_markdown(page.root, base64_images=not plan.remove_base64_images)).strip()


def _has_content(page: CleanPage) -> bool:
    return bool(page.root.text().strip()) or page.root.css_first("img[src]") is not None


def _attributes(tree: LexborHTMLParser, selectors: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for one in selectors:
        selector, name = str(one.get("selector", "")), str(one.get("attribute", ""))
        values = []
        for node in matches(tree, selector) or []:
            attributes = node.attributes
            key = name if name in attributes else f"data-{name}"
            if key in attributes:
                values.append(attributes[key] or "")
        found.append({"selector": selector, "attribute": name, "values": values})
    return found


def _read_pdf(kind: ContentKind, body: bytes, _type: str, url: str, plan: ScrapePlan) -> PageContent:
    options = next((one for one in plan.parsers if one.get("type") == "pdf"), None)
    if options is None:
        encoded = base64.b64encode(body).decode()
        return PageContent(kind=kind, markdown=encoded)
    pdf = read_document("pdf", body, options, seconds=plan.timeout / 1000)
    content = _from_html(kind, pdf.html, url, plan)
    content.markdown, content.metadata = (
        _pdf_markdown(pdf.pages, options),
        {"title": pdf.title} if pdf.title else {},
    )
    content.num_pages, content.total_pages = len(pdf.pages), pdf.total
    content.warnings = (*content.warnings, *pdf.warnings)
    if options.get("pages"):
        content.pages = [{"pageNumber": number, "markdown": text} for number, text in enumerate(pdf.pages, 1)]
    if options.get("blocks"):
        content.blocks = [_blocks(number, text) for number, text in enumerate(pdf.pages, 1)]
        content.warnings += ("parsers.blocks: each paragraph is a block; the emulator sees no layout.",)
    return content


def _pdf_markdown(pages: list[str], options: Mapping[str, Any]) -> str:
    """Return the text of all pages. A mark stands between two of them, with the number of the one that follows."""
    found = [(number, text) for number, text in enumerate(pages, 1) if text]
    if not options.get("pageMarkers"):
        return "\n\n".join(text for _, text in found)
    marked = [f"\n\n---\n\n<!-- page {number} -->\n\n{text}" for number, text in found[1:]]
    return "".join([*(text for _, text in found[:1]), *marked])


def _blocks(number: int, text: str) -> dict[str, Any]:
    items = [
        {"id": f"{number}-{order}", "type": "text", "content": part, "readingOrder": order, "confidence": {}}
        for order, part in enumerate((one.strip() for one in text.split("\n\n") if one.strip()), 1)
    ]
    return {"pageNumber": number, "status": "ok" if items else "empty", "items": items}


def _read_document(kind: ContentKind, body: bytes, content_type: str, url: str, plan: ScrapePlan) -> PageContent:
    options = {"codec": codec_of(body, content_type)} if kind is ContentKind.CSV else {}
    document = read_document(kind.value, body, options, seconds=plan.timeout / 1000)
    content = _from_html(kind, document.html, url, plan)
    content.warnings = (*content.warnings, *document.warnings)
    return content


def _read_text(kind: ContentKind, body: bytes, content_type: str, _url: str, _plan: ScrapePlan) -> PageContent:
    text = decode(body, content_type)
    language = {ContentKind.JSON: "json", ContentKind.XML: "xml"}.get(kind)
    markdown = text if language is None else fenced(text.rstrip("\n"), language).replace("\x01", "").strip()
    return PageContent(kind=kind, markdown=markdown, html=text, raw_html=text)


def _tell_missing(kind: ContentKind, _body: bytes, _type: str, _url: str, _plan: ScrapePlan) -> PageContent:
    """Return nothing of a file that the service reads and the emulator does not, and say so."""
    return PageContent(kind=kind, warnings=(_OLD_OFFICE,))


def _refuse(kind: ContentKind, _body: bytes, content_type: str, _url: str, _plan: ScrapePlan) -> PageContent:
    named = f" ({content_type.partition(';')[0].strip()[:80]})" if content_type else ""
    raise ScrapeFailed(
        "SCRAPE_UNSUPPORTED_FILE_ERROR",
        f"Files of this kind{named} are not supported: pages, PDF, text, JSON, XML and office documents are.",
    )


_DOCUMENTS = (
    ContentKind.DOCX,
    ContentKind.XLSX,
    ContentKind.PPTX,
    ContentKind.OPEN_DOCUMENT,
    ContentKind.EPUB,
    ContentKind.RTF,
    ContentKind.CSV,
)
_READERS = {
    ContentKind.HTML: _read_html,
    ContentKind.PDF: _read_pdf,
    ContentKind.JSON: _read_text,
    ContentKind.XML: _read_text,
    ContentKind.TEXT: _read_text,
    ContentKind.OLD_OFFICE: _tell_missing,
    ContentKind.UNSUPPORTED: _refuse,
    **dict.fromkeys(_DOCUMENTS, _read_document),
}
