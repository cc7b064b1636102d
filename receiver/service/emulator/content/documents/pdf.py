"""The text of a PDF, page by page, with pypdf. A PDF that is pictures only has none; there is no OCR here."""

from collections.abc import Iterator
from html import escape
from io import BytesIO
from typing import Any

from pypdf import PageObject, PdfReader
from pypdf.errors import PyPdfError

from receiver.service.emulator.content.documents import markup
from receiver.service.emulator.content.documents.pdf_lines import (
    SizedLine,
    html_of,
    lines_of,
    markdown_of,
    with_kinds,
)
from receiver.service.emulator.content.documents.words import MAX_TEXT, DocumentText, UnreadableDocument

_MOST_PAGES = 10_000
_MOST_LINKS = 5_000


def read_pdf(body: bytes, options: dict[str, Any]) -> DocumentText:
    """Return the text of a PDF. In the mode `fast` it raises UnreadableDocument for one that has none."""
    try:
        reader = PdfReader(BytesIO(body))
        if reader.is_encrypted and not reader.decrypt(""):
            raise UnreadableDocument("The PDF is encrypted.")
        total = len(reader.pages)
    except (PyPdfError, OSError, NotImplementedError) as error:
        raise UnreadableDocument(f"The PDF cannot be read: {type(error).__name__}.") from error
    most = min(int(options.get("maxPages") or _MOST_PAGES), _MOST_PAGES)
    found = DocumentText(total=total, title=_title(reader))
    links: dict[str, None] = {}
    size = 0
    pages: list[list[SizedLine]] = []
    for page in reader.pages[:most]:
        lines = [] if size > MAX_TEXT else lines_of(page)
        size += sum(len(line.text) for line in lines)
        pages.append(lines)
        for link in _links(page):
            if len(links) < _MOST_LINKS:
                links.setdefault(link)
    told = with_kinds(pages)
    found.pages = [markdown_of(lines) for lines in told]
    _judge(found, options, size)
    anchors = [f'<p><a href="{escape(link)}">{escape(link)}</a></p>\n' for link in links]
    found.html = markup.page(found.title, *map(html_of, told), *anchors)
    return found


def _judge(found: DocumentText, options: dict[str, Any], size: int) -> None:
    if not any(found.pages):
        # The service reads the pictures, but not in this mode.
        if options.get("mode") == "fast":
            raise UnreadableDocument("The PDF has no text. It would need OCR.", "SCRAPE_PDF_OCR_REQUIRED")
        found.warnings.append("The PDF has no text, only pictures: the emulator has no OCR to read them.")
        return
    if not all(found.pages):
        found.warnings.append("Some pages of the PDF have no text; they would need OCR, which is not here.")
    if size > MAX_TEXT:
        found.warnings.append("The text of the PDF is too long; not all of it was taken.")
    if options.get("mode") == "ocr":
        found.warnings.append("parsers: the mode ocr has no effect here; the text of the PDF was taken.")


def _title(reader: PdfReader) -> str:
    try:
        return str((reader.metadata.title if reader.metadata else None) or "").strip()
    except (PyPdfError, ValueError, TypeError, AttributeError):
        return ""


def _links(page: PageObject) -> Iterator[str]:
    try:
        annotations: list[Any] = list(page.annotations or [])
        for one in annotations:
            action = one.get_object().get("/A")
            address = action.get_object().get("/URI") if action is not None else None
            if isinstance(address, str) and address.startswith(("http://", "https://")):
                yield str(address)
    except (PyPdfError, ValueError, TypeError, AttributeError):
        return
