"""From a site's answer to the content of the page, in the formats that a scrape asked for."""

import asyncio
import base64
import codecs
import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from types import TracebackType
from typing import Any, Self

from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

from receiver.emulator.content.documents.child import read_document
from receiver.emulator.content.documents.markup import DocumentText
from receiver.emulator.content.kinds import ContentKind, kind_of
from receiver.emulator.content.markdown.texts import fenced
from receiver.emulator.content.markdown.writer import to_markdown
from receiver.emulator.content.metadata import metadata_of, outline_of
from receiver.emulator.content.parsing import content_root, parse_html
from receiver.emulator.content.urls import Resolver, images_of, largest_source, resolver_of, without_fragment
from receiver.emulator.failures import ScrapeFailed
from receiver.emulator.scrapes import FetchedPage, ScrapePlan
from receiver.emulator.working.processes import SMALL, HeavyWork, WorkLost

_NEVER = "head, meta, noscript, style, script"
_TAGS = "header footer nav aside"
_CLASSES = (
    "header top navbar footer bottom sidebar side aside modal popup overlay ad ads advert lang-selector language"
    " social social-media social-links menu navigation breadcrumbs share widget cookie fc-decoration"
)
_IDS = "header footer sidebar modal ad language-selector social nav breadcrumbs share widget cookie"
_AROUND = ", ".join(
    [*_TAGS.split(), *(f".{name}" for name in _CLASSES.split()), *(f"#{name}" for name in _IDS.split())]
)
_MAIN = "#main, .swoogo-cols, .swoogo-text, .swoogo-table-div, .swoogo-space, .swoogo-alert, .swoogo-sponsors"
"""An element around one of these always counts as main content."""
_SKIP = re.compile(r"\[skip to content\]\([^()\s]*#[^()]*\)", re.IGNORECASE)
_MOST_COPIED = 20_000_000
_MOST_SELECTORS = 200


@dataclass(slots=True)
class CleanPage:
    """A cleaned tree."""

    tree: LexborHTMLParser
    root: LexborNode
    links: list[str] = field(default_factory=list)
    """Absolute, without fragments, each once, in the order of the page."""
    warnings: list[str] = field(default_factory=list)
    """For the caller: which options had no effect, or only a part of it."""


def clean(
    tree: LexborHTMLParser,
    resolver: Resolver,
    *,
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    only_main: bool = True,
) -> CleanPage:
    """Clean a tree in place, by the service's rules (emulator facts, section 7), and return what is left."""
    page = CleanPage(tree, content_root(tree))
    if included := list(include):
        _keep_only(page, included)
    _remove(page.root, page.tree.css(_NEVER))
    for selector in list(exclude)[:_MOST_SELECTORS]:
        _remove(page.root, _matches(page, selector, "excludeTags"))
    if only_main:
        _remove_around(page)
    for image in page.root.css("img"):
        _choose_source(image, resolver)
    page.links = _absolute_links(page.root, resolver)
    return page


def matches(tree: LexborHTMLParser, selector: str) -> list[LexborNode] | None:
    """Return the elements that a CSS selector matches; None if it is not a selector."""
    try:
        return list(tree.css(selector)) if selector.strip() else None
    except SelectolaxError:
        return None


def _matches(page: CleanPage, selector: str, option: str) -> list[LexborNode]:
    if len(selector) > 2 and selector.startswith("*") and selector.endswith("*"):
        return _matches_of_pattern(page.root, selector[1:-1].lower())
    found = matches(page.tree, selector)
    if found is None:
        page.warnings.append(f"{option}: {selector[:100]!r} is not a CSS selector, so it has no effect.")
    return found or []


def _matches_of_pattern(root: LexborNode, part: str) -> list[LexborNode]:
    """Return the elements whose name or attributes contain a text, whatever its case."""
    found = []
    for node in root.traverse():
        if node.is_element_node:
            words = (node.tag or "", *(f'{name}="{value or ""}"' for name, value in node.attributes.items()))
            if any(part in word.lower() for word in words):
                found.append(node)
    return found


def _remove(root: LexborNode, nodes: list[LexborNode]) -> None:
    # From the end: an inner element comes after its outer one, and must not be touched once that is gone.
    kept = root.mem_id
    above = set()
    parent = root.parent
    while parent is not None:
        above.add(parent.mem_id)
        parent = parent.parent
    for node in reversed(nodes):
        if node.mem_id != kept and node.mem_id not in above:
            node.decompose()


def _keep_only(page: CleanPage, selectors: list[str]) -> None:
    """Replace the content by a copy of each match, in the order of the selectors."""
    chosen = page.tree.create_node("div")
    size = 0
    for selector in selectors[:_MOST_SELECTORS]:
        for node in _matches(page, selector, "includeTags"):
            size += len(node.html or "")
            if size > _MOST_COPIED:
                page.warnings.append(
                    "includeTags: too many of the elements are inside one another, so not all were kept."
                )
                break
            chosen.insert_child(node)
    for child in list(page.root.iter(include_text=True)):
        child.decompose()
    page.root.insert_child(chosen, move=True)


def _remove_around(page: CleanPage) -> None:
    kept: set[int] = set()
    for main in page.root.css(_MAIN):
        outer: LexborNode | None = main
        while outer is not None and outer.mem_id not in kept:
            kept.add(outer.mem_id)
            outer = outer.parent
    _remove(page.root, [node for node in page.root.css(_AROUND) if node.mem_id not in kept])


def _choose_source(image: LexborNode, resolver: Resolver) -> None:
    attributes = image.attributes
    source = largest_source(attributes)
    if source and (absolute := resolver.resolve(source)) != attributes.get("src"):
        image.attrs["src"] = absolute


def _absolute_links(root: LexborNode, resolver: Resolver) -> list[str]:
    links: dict[str, None] = {}
    for node in root.css("a[href]"):
        href = (node.attributes.get("href") or "").strip()
        if not href or href == "#":
            continue
        absolute = resolver.resolve(href)
        if absolute != node.attributes.get("href"):
            node.attrs["href"] = absolute
        if not href.startswith("#") and not absolute.lower().startswith(("javascript:", "data:", "blob:")):
            links.setdefault(without_fragment(absolute))
    links.pop("", None)
    return list(links)


def without_skip_link(markdown: str) -> str:
    """Return Markdown without the link that jumps over a page's navigation."""
    return _SKIP.sub("", markdown) if "kip to" in markdown or "KIP TO" in markdown else markdown


_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_PRESCAN = 4096
_IN_HEADER = re.compile(r"charset\s*=\s*[\"']?([^\s\"';,]+)", re.IGNORECASE)
_IN_META = re.compile(rb"<meta[^>]{0,1000}?charset\s*=\s*[\"']?\s*([a-zA-Z0-9_:.-]+)", re.IGNORECASE)
_IN_XML = re.compile(rb"^\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([a-zA-Z0-9_:.-]+)", re.IGNORECASE)

# https://encoding.spec.whatwg.org/#names-and-labels: a page that says latin-1 means windows-1252, and so on.
# Only these are looked up: Python's own table also has codecs that are no character sets.
_CODECS = {
    "utf-8": "utf8 unicode-1-1-utf-8 utf8",
    "cp1252": "ascii us-ascii latin1 latin-1 l1 iso-8859-1 iso8859-1 iso_8859-1 windows-1252 x-cp1252 cp819",
    "iso8859-2": "iso-8859-2 iso8859-2 iso_8859-2 latin2 l2",
    "iso8859-3": "iso-8859-3 iso8859-3 latin3",
    "iso8859-4": "iso-8859-4 iso8859-4 latin4",
    "iso8859-5": "iso-8859-5 iso8859-5 cyrillic",
    "iso8859-6": "iso-8859-6 iso8859-6 arabic",
    "iso8859-7": "iso-8859-7 iso8859-7 greek",
    "iso8859-8": "iso-8859-8 iso8859-8 iso-8859-8-i hebrew logical",
    "cp1254": "iso-8859-9 iso8859-9 latin5 l5 windows-1254 cp1254",
    "iso8859-10": "iso-8859-10 iso8859-10 latin6",
    "iso8859-13": "iso-8859-13 iso8859-13",
    "iso8859-14": "iso-8859-14 iso8859-14",
    "iso8859-15": "iso-8859-15 iso8859-15 latin9 latin-9 l9",
    "iso8859-16": "iso-8859-16 iso8859-16",
    "koi8-r": "koi8-r koi8 koi koi8_r",
    "koi8-u": "koi8-u koi8-ru",
    "mac-roman": "macintosh mac x-mac-roman",
    "mac-cyrillic": "x-mac-cyrillic x-mac-ukrainian",
    "cp866": "ibm866 cp866 866",
    "cp874": "windows-874 tis-620 iso-8859-11 dos-874",
    "cp1250": "windows-1250 cp1250 x-cp1250",
    "cp1251": "windows-1251 cp1251 x-cp1251",
    "cp1253": "windows-1253 cp1253",
    "cp1255": "windows-1255 cp1255",
    "cp1256": "windows-1256 cp1256",
    "cp1257": "windows-1257 cp1257",
    "cp1258": "windows-1258 cp1258",
    "gb18030": "gb2312 gbk gb18030 x-gbk chinese gb_2312-80 csgb2312",
    "big5hkscs": "big5 big5-hkscs cn-big5 x-x-big5",
    "euc_jp": "euc-jp x-euc-jp",
    "iso2022_jp": "iso-2022-jp csiso2022jp",
    "cp932": "shift_jis shift-jis sjis x-sjis windows-31j ms_kanji",
    "cp949": "euc-kr ks_c_5601-1987 ksc5601 korean windows-949 cseuckr",
    "utf-16-le": "utf-16 utf-16le unicode ucs-2",
    "utf-16-be": "utf-16be unicodefffe",
}
_CODEC_OF = {label: codec for codec, labels in _CODECS.items() for label in (codec, *labels.split())}


def decode(body: bytes, content_type: str = "") -> str:
    """Return the text of a body, as browsers read it: by its byte order mark, the header, `meta`, or else UTF-8.

    It never fails: bytes that do not fit become U+FFFD.
    """
    for mark, codec in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(codec, "replace")
    return body.decode(codec_of(body, content_type), "replace")


def codec_of(body: bytes, content_type: str = "") -> str:
    """Return the name of Python's codec for a body without byte order mark."""
    if (found := _IN_HEADER.search(content_type)) and (codec := _CODEC_OF.get(found[1].lower())):
        return codec
    head = body[:_PRESCAN]
    for pattern in (_IN_META, _IN_XML):
        if (declared := pattern.search(head)) and (codec := _CODEC_OF.get(declared[1].decode().lower())):
            # In UTF-16 the declaration itself could not have been read.
            return "utf-8" if codec.startswith("utf-16") else codec
    return "utf-8"


MAX_INDEXED = 200_000
"""Characters of a page that a search index takes."""
_OTHER_FORMATS = (
    "html rawHtml rawBase64 links images attributes screenshot screenshot@fullPage branding audio video"
)
_WITHOUT_MARKDOWN = frozenset(_OTHER_FORMATS.split())
_OFFICE = (ContentKind.DOCX, ContentKind.XLSX, ContentKind.PPTX, ContentKind.CSV)
_DOCUMENTS = (*_OFFICE, ContentKind.OPEN_DOCUMENT, ContentKind.EPUB, ContentKind.RTF)
_OLD_OFFICE = (
    "The emulator does not read the older formats of Office (.doc, .xls, .ppt), which the service does: nothing of "
    "this file was taken. Save it as .docx, .xlsx or .pptx."
)


@dataclass(slots=True, kw_only=True)
class PageContent:
    """The content of a page. A field that no format of the plan needs may be empty."""

    kind: ContentKind
    markdown: str = ""
    """Of a PDF that is not to be read: the file in base64."""
    html: str = ""
    """The cleaned page; for a document, its text as a page."""
    raw_html: str = ""
    """The text of the body, untouched; for a document, as `html`."""
    raw_base64: str = ""
    """The bytes of the body, if that format was asked for."""
    links: tuple[str, ...] = ()
    """Of the cleaned page: absolute, without fragments, each once, whatever was asked for."""
    images: tuple[str, ...] = ()
    """Absolute addresses in the whole page, each once, if that format was asked for."""
    metadata: dict[str, Any] = field(default_factory=dict)
    """What the page says of itself, without the service's own fields, which override it."""
    attributes: list[dict[str, Any]] = field(default_factory=list)
    """For the format `attributes`: selector, attribute and values."""
    warnings: tuple[str, ...] = ()
    """For the answer's `warning`: what had no effect, or was left out."""
    num_pages: int | None = None
    """Pages of a PDF that were read."""
    total_pages: int | None = None
    outline: dict[str, Any] | None = None
    """What a search index needs, if the plan asks for it: see `outline_of`; and `text`, the Markdown of the page
    whatever its plan left out or added."""
    pages: list[dict[str, Any]] | None = None
    """The Markdown of each page of a PDF, if that was asked for."""
    blocks: list[dict[str, Any]] | None = None
    """The paragraphs of each page of a PDF, if they were asked for."""


def read_content(kind: ContentKind, body: bytes, content_type: str, url: str, plan: ScrapePlan) -> PageContent:
    """Return the content of a body. Raises ScrapeFailed, and nothing else."""
    if is_document(kind, plan):
        content = read_document_content(kind, url, plan, read_document_text(kind, body, content_type, plan))
    else:
        with _failing(kind):
            content = _content_of(kind, body, content_type, url, plan)
            if kind is not ContentKind.HTML:
                _index_markdown(content, plan)
    if plan.format("rawBase64") is not None:
        content.raw_base64 = base64.b64encode(body).decode()
    return content


def is_document(kind: ContentKind, plan: ScrapePlan) -> bool:
    """Return whether a kind is read in two steps: its text in a process of its own, then the page made of it."""
    return kind in _DOCUMENTS or (kind is ContentKind.PDF and _pdf_options(plan) is not None)


def read_document_text(kind: ContentKind, body: bytes, content_type: str, plan: ScrapePlan) -> DocumentText:
    """Return the text of a document, which is read in a process of its own. Raises ScrapeFailed."""
    options: Mapping[str, Any] = _pdf_options(plan) or {} if kind is ContentKind.PDF else {}
    if kind is ContentKind.CSV:
        options = {"codec": codec_of(body, content_type)}
    return read_document(kind.value, body, options, seconds=plan.timeout / 1000)


def read_document_content(kind: ContentKind, url: str, plan: ScrapePlan, document: DocumentText) -> PageContent:
    """Return the content of a document whose text was read. Raises ScrapeFailed, and nothing else."""
    with _failing(kind):
        content = _from_html(kind, document.html, url, plan)
        if kind is ContentKind.PDF:
            content.markdown = _pdf_markdown(document.pages, _pdf_options(plan) or {})
            content.metadata = {"title": document.title} if document.title else {}
            content.num_pages, content.total_pages = len(document.pages), document.total
            _add_pdf_parts(content, document.pages, _pdf_options(plan) or {})
        content.warnings = (*content.warnings, *document.warnings)
        _index_markdown(content, plan)
        return content


@contextmanager
def _failing(kind: ContentKind) -> Iterator[None]:
    try:
        yield
    except (ScrapeFailed, MemoryError):
        raise
    except Exception as error:
        # Whatever a page does to its reader is an error of that page, never of the job.
        raise ScrapeFailed(
            "SCRAPE_ALL_ENGINES_FAILED", f"The page could not be read as {kind.value}: {type(error).__name__}."
        ) from error


def _content_of(kind: ContentKind, body: bytes, content_type: str, url: str, plan: ScrapePlan) -> PageContent:
    match kind:
        case ContentKind.HTML:
            return _from_html(kind, decode(body, content_type), url, plan)
        case ContentKind.PDF:
            return PageContent(kind=kind, markdown=base64.b64encode(body).decode())
        case ContentKind.OLD_OFFICE:
            return PageContent(kind=kind, warnings=(_OLD_OFFICE,))
        case ContentKind.UNSUPPORTED:
            named = f" ({content_type.partition(';')[0].strip()[:80]})" if content_type else ""
            rule = "are not supported: pages, PDF, text, JSON, XML and office documents are."
            raise ScrapeFailed("SCRAPE_UNSUPPORTED_FILE_ERROR", f"Files of this kind{named} {rule}")
    text = decode(body, content_type)
    language = {ContentKind.JSON: "json", ContentKind.XML: "xml"}.get(kind)
    markdown = text if language is None else fenced(text.rstrip("\n"), language).replace("\x01", "").strip()
    return PageContent(kind=kind, markdown=markdown, html=text, raw_html=text)


def _from_html(kind: ContentKind, text: str, url: str, plan: ScrapePlan) -> PageContent:
    tree = parse_html(text)
    resolver = resolver_of(tree, url)
    content = PageContent(kind=kind, raw_html=text, metadata=metadata_of(tree, resolver))
    if plan.is_indexed:
        content.outline = outline_of(tree, resolver, content.metadata)
    if plan.format("images") is not None:
        content.images = images_of(tree, resolver)
    if (wanted := plan.format("attributes")) is not None:
        content.attributes = _attributes(tree, wanted.get("selectors") or ())
    cleaned = _clean(tree, resolver, plan, only_main=plan.only_main_content)
    content.markdown = _markdown(cleaned, plan, len(text))
    root = cleaned.root
    has_content = content.markdown or root.text().strip() or root.css_first("img[src]") is not None
    if plan.only_main_content and not has_content:
        # Many pages have all their content in something with the class of a heading or a menu.
        cleaned = _clean(parse_html(text), resolver, plan, only_main=False)
        content.markdown = _markdown(cleaned, plan, len(text))
    if content.outline is not None:
        content.outline["text"] = _indexed_text(content.markdown, text, resolver, plan)
    content.links = tuple(cleaned.links)
    content.warnings = tuple(cleaned.warnings)
    content.html = (cleaned.tree.html or "") if plan.format("html") is not None else ""
    return content


def _index_markdown(content: PageContent, plan: ScrapePlan) -> None:
    """Give the search index the Markdown of a page that is not HTML."""
    if plan.is_indexed:
        content.outline = {**(content.outline or {}), "text": content.markdown[:MAX_INDEXED]}


def _indexed_text(markdown: str, text: str, resolver: Resolver, plan: ScrapePlan) -> str:
    """Return the Markdown of a page's main content, whatever the plan leaves out."""
    if not plan.include_tags and not plan.exclude_tags:
        return markdown[:MAX_INDEXED]
    page = clean(parse_html(text), resolver)
    return to_markdown(page.root, size=len(text), base64_images=False)[:MAX_INDEXED]


def _clean(tree: LexborHTMLParser, resolver: Resolver, plan: ScrapePlan, *, only_main: bool) -> CleanPage:
    return clean(tree, resolver, include=plan.include_tags, exclude=plan.exclude_tags, only_main=only_main)


def _markdown(page: CleanPage, plan: ScrapePlan, size: int) -> str:
    if all(one["type"] in _WITHOUT_MARKDOWN for one in plan.formats):
        return ""
    keeps_images = not plan.remove_base64_images
    return without_skip_link(to_markdown(page.root, size=size, base64_images=keeps_images)).strip()


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


def _pdf_options(plan: ScrapePlan) -> Mapping[str, Any] | None:
    return next((one for one in plan.parsers if one.get("type") == "pdf"), None)


def _add_pdf_parts(content: PageContent, pages: list[str], options: Mapping[str, Any]) -> None:
    if options.get("pages"):
        content.pages = [{"pageNumber": number, "markdown": text} for number, text in enumerate(pages, 1)]
    if options.get("blocks"):
        content.blocks = [_blocks(number, text) for number, text in enumerate(pages, 1)]
        content.warnings += ("parsers.blocks: each paragraph is a block; the emulator sees no layout.",)


def _pdf_markdown(pages: list[str], options: Mapping[str, Any]) -> str:
    """Return the text of all pages, with the number of each after the first before it if that was asked for."""
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


_DOCUMENTS_AT_ONCE = 4
_ZIP = b"PK\x03\x04"
_TOO_MUCH = "The page could not be read: it needs too much time or memory."


class PageReaders:
    """Reads pages beside the event loop: by `work`, or a document in a process of its own, some at a time."""

    def __init__(self, work: HeavyWork) -> None:
        self._work = work
        # Threads of its own: they wait for slow documents, and must not keep others from a thread.
        self._threads = ThreadPoolExecutor(_DOCUMENTS_AT_ONCE, thread_name_prefix="emulator-document")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def read(self, page: FetchedPage, plan: ScrapePlan) -> PageContent:
        """Return the content of a page. Raises ScrapeFailed, and nothing else, for a page that cannot be read."""
        has_list = page.body.startswith(_ZIP)  # of its files, which may be long
        arguments = (page.body, page.content_type, page.url)
        kind = await asyncio.to_thread(kind_of, *arguments) if has_list else kind_of(*arguments)
        try:
            if is_document(kind, plan):
                loop = asyncio.get_running_loop()
                document = await loop.run_in_executor(
                    self._threads, read_document_text, kind, page.body, page.content_type, plan
                )
                size = _size(len(document.html), plan)
                found = await self._work.run(_document, kind, page.url, plan, document, size=size)
                if plan.format("rawBase64") is not None:
                    found["raw_base64"] = (await asyncio.to_thread(base64.b64encode, page.body)).decode()
            else:
                size = _size(len(page.body), plan) if kind is ContentKind.HTML else len(page.body)
                found = await self._work.run(_page, kind, page, plan, size=size)
        except WorkLost:
            raise ScrapeFailed("SCRAPE_ALL_ENGINES_FAILED", _TOO_MUCH) from None
        tuples = {name: tuple(found[name]) for name in ("links", "images", "warnings")}
        return PageContent(**found | tuples | {"kind": kind})


def _size(size: int, plan: ScrapePlan) -> int:
    """Return the size of the work: a selector can search the smallest page for hours."""
    has_selectors = bool(plan.include_tags or plan.exclude_tags or plan.format("attributes"))
    return max(size, SMALL + 1) if has_selectors else size


def _page(kind: ContentKind, page: FetchedPage, plan: ScrapePlan) -> dict[str, Any]:
    return _fields(read_content(kind, page.body, page.content_type, page.url, plan))


def _document(kind: ContentKind, url: str, plan: ScrapePlan, document: Any) -> dict[str, Any]:
    return _fields(read_document_content(kind, url, plan, document))


def _fields(content: PageContent) -> dict[str, Any]:
    return {one.name: getattr(content, one.name) for one in fields(content)}
