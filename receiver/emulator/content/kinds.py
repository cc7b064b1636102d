"""The kind of a body's content, by its media type, the end of its name and its first bytes."""

import zipfile
import zlib
from enum import StrEnum
from io import BytesIO
from pathlib import PurePosixPath
from urllib.parse import urlsplit


class ContentKind(StrEnum):
    """A kind of content that has a reader of its own."""

    HTML = "html"
    PDF = "pdf"
    JSON = "json"
    XML = "xml"
    TEXT = "text"
    DOCX = "docx"
    XLSX = "xlsx"
    PPTX = "pptx"
    OPEN_DOCUMENT = "odt"
    EPUB = "epub"
    RTF = "rtf"
    CSV = "csv"
    OLD_OFFICE = "doc"
    """The formats of Office before 2007."""
    UNSUPPORTED = "unsupported"


_OFFICE = "application/vnd.openxmlformats-officedocument."
_BY_TYPE = {
    "text/html": ContentKind.HTML,
    "application/xhtml+xml": ContentKind.HTML,
    "application/pdf": ContentKind.PDF,
    "application/x-pdf": ContentKind.PDF,
    "application/json": ContentKind.JSON,
    "text/json": ContentKind.JSON,
    "application/xml": ContentKind.XML,
    "text/xml": ContentKind.XML,
    "text/csv": ContentKind.CSV,
    "application/csv": ContentKind.CSV,
    "text/tab-separated-values": ContentKind.CSV,
    "application/rtf": ContentKind.RTF,
    "text/rtf": ContentKind.RTF,
    "application/epub+zip": ContentKind.EPUB,
    f"{_OFFICE}wordprocessingml.document": ContentKind.DOCX,
    f"{_OFFICE}spreadsheetml.sheet": ContentKind.XLSX,
    f"{_OFFICE}presentationml.presentation": ContentKind.PPTX,
    "application/vnd.ms-excel.sheet.macroenabled.12": ContentKind.XLSX,
    "application/vnd.oasis.opendocument.text": ContentKind.OPEN_DOCUMENT,
    "application/vnd.oasis.opendocument.spreadsheet": ContentKind.OPEN_DOCUMENT,
    "application/vnd.oasis.opendocument.presentation": ContentKind.OPEN_DOCUMENT,
    "application/javascript": ContentKind.TEXT,
    "application/x-javascript": ContentKind.TEXT,
    "application/x-ndjson": ContentKind.TEXT,
    "application/yaml": ContentKind.TEXT,
    "application/x-yaml": ContentKind.TEXT,
    "application/toml": ContentKind.TEXT,
    "application/sql": ContentKind.TEXT,
}
_BY_NAME = {
    **dict.fromkeys((".html", ".htm", ".xhtml"), ContentKind.HTML),
    **dict.fromkeys((".txt", ".text", ".md", ".markdown", ".rst", ".log"), ContentKind.TEXT),
    **dict.fromkeys((".odt", ".ods", ".odp"), ContentKind.OPEN_DOCUMENT),
    **dict.fromkeys((".xml", ".rss", ".atom"), ContentKind.XML),
    **dict.fromkeys((".xlsx", ".xlsm"), ContentKind.XLSX),
    ".pdf": ContentKind.PDF,
    ".json": ContentKind.JSON,
    ".docx": ContentKind.DOCX,
    ".pptx": ContentKind.PPTX,
    ".epub": ContentKind.EPUB,
    ".rtf": ContentKind.RTF,
    ".csv": ContentKind.CSV,
    ".tsv": ContentKind.CSV,
}
_UNKNOWN = {
    "",
    "application/octet-stream",
    "binary/octet-stream",
    "application/zip",
    "application/x-zip-compressed",
    # Under these names come RTF, HTML and CSV as often as files of the older Office.
    "application/msword",
    "application/vnd.ms-excel",
    "application/vnd.ms-powerpoint",
}
_SNIFFED = 2048
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
"""How files of the older Office begin: [MS-CFB], section 2.2."""
_IN_ZIP = {"word/": ContentKind.DOCX, "xl/": ContentKind.XLSX, "ppt/": ContentKind.PPTX}


def kind_of(body: bytes, content_type: str, name: str, *, name_first: bool = False) -> ContentKind:
    """Return the kind of a body by the Content-Type it came with, its address or file name, and its first bytes."""
    by_type = _by_type(content_type.partition(";")[0].strip().lower())
    by_name = _BY_NAME.get(_ending(name))
    chosen = (by_name or by_type) if name_first else (by_type or by_name)
    return chosen if chosen is not None else _sniffed(body)


def _by_type(content_type: str) -> ContentKind | None:
    """Return the kind of a media type; None for one that says nothing."""
    if content_type in _UNKNOWN:
        return None
    known = _BY_TYPE.get(content_type)
    if known is not None:
        return known
    if content_type.endswith("+json"):
        return ContentKind.JSON
    if content_type.startswith("image/"):
        return ContentKind.UNSUPPORTED
    if content_type.endswith("+xml"):
        return ContentKind.XML
    if content_type.startswith("text/"):
        return ContentKind.TEXT
    return ContentKind.UNSUPPORTED if "/" in content_type else None


def _ending(name: str) -> str:
    try:
        path = urlsplit(name).path if "://" in name else name
    except ValueError:
        return ""
    return PurePosixPath(path).suffix.lower()


def _sniffed(body: bytes) -> ContentKind:
    head = body[:_SNIFFED].lstrip(b"\xef\xbb\xbf \t\r\n")
    if head.startswith(b"%PDF-"):
        return ContentKind.PDF
    if head.startswith(b"{\\rtf"):
        return ContentKind.RTF
    if head.startswith(b"PK\x03\x04"):
        return _in_zip(body)
    if body.startswith(_OLE):
        return ContentKind.OLD_OFFICE
    if b"\x00" in head and not body.startswith((b"\xff\xfe", b"\xfe\xff")):
        return ContentKind.UNSUPPORTED
    if head.startswith(b"<?xml") and b"<html" not in head.lower():
        return ContentKind.XML
    if head.startswith((b"{", b"[")):
        return ContentKind.JSON
    return ContentKind.HTML if b"<" in head or not head else ContentKind.TEXT


def _in_zip(body: bytes) -> ContentKind:
    try:
        with zipfile.ZipFile(BytesIO(body)) as archive:
            names = archive.namelist()[:200]
            if "mimetype" in names:
                with archive.open("mimetype") as entry:
                    declared = entry.read(100).decode("ascii", "replace").strip()
                return _BY_TYPE.get(declared, ContentKind.UNSUPPORTED)
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, NotImplementedError, RuntimeError):
        return ContentKind.UNSUPPORTED
    found = (kind for name in names for start, kind in _IN_ZIP.items() if name.startswith(start))
    return next(found, ContentKind.UNSUPPORTED)
