"""The kind of a body's content, by its media type, the end of its name and its first bytes."""

import zipfile
import zlib
from dataclasses import dataclass
from enum import StrEnum
from io import BytesIO
from pathlib import PurePosixPath
from typing import Any, Literal
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
_ODF = "application/vnd.oasis.opendocument."


@dataclass(frozen=True, slots=True)
class UploadFormat:
    """A kind of files, as an item of the list of formats."""

    format: str
    extensions: tuple[str, ...]
    """With the dot."""
    types: tuple[str, ...]
    """Media types, the usual one first."""
    kind: ContentKind | None
    """How it is read; None if it cannot be read here."""
    group: Literal["html", "document"] = "document"
    """The service calls it `kind`."""

    def wire(self) -> dict[str, Any]:
        """Return the format as an item of the list."""
        return {
            "format": self.format,
            "kind": self.group,
            "extensions": list(self.extensions),
            "mimeTypes": list(self.types),
            "available": self.kind is not None,
        }


UPLOAD_FORMATS = (
    UploadFormat(
        "html", (".html", ".htm", ".xhtml"), ("text/html", "application/xhtml+xml"), ContentKind.HTML, "html"
    ),
    UploadFormat("pdf", (".pdf",), ("application/pdf",), ContentKind.PDF),
    UploadFormat("docx", (".docx",), (f"{_OFFICE}wordprocessingml.document",), ContentKind.DOCX),
    UploadFormat("doc", (".doc",), ("application/msword",), None),
    UploadFormat(
        "odt",
        (".odt", ".ods", ".odp"),
        (f"{_ODF}text", f"{_ODF}spreadsheet", f"{_ODF}presentation"),
        ContentKind.OPEN_DOCUMENT,
    ),
    UploadFormat("rtf", (".rtf",), ("application/rtf", "text/rtf"), ContentKind.RTF),
    UploadFormat("xlsx", (".xlsx", ".xlsm"), (f"{_OFFICE}spreadsheetml.sheet",), ContentKind.XLSX),
    UploadFormat("xls", (".xls",), ("application/vnd.ms-excel",), None),
    UploadFormat("csv", (".csv", ".tsv"), ("text/csv", "text/tab-separated-values"), ContentKind.CSV),
    UploadFormat("pptx", (".pptx",), (f"{_OFFICE}presentationml.presentation",), ContentKind.PPTX),
    UploadFormat("epub", (".epub",), ("application/epub+zip",), ContentKind.EPUB),
    UploadFormat("markdown", (".md", ".markdown"), ("text/markdown",), ContentKind.TEXT),
    UploadFormat("txt", (".txt", ".text", ".rst", ".log"), ("text/plain",), ContentKind.TEXT),
    UploadFormat("json", (".json",), ("application/json",), ContentKind.JSON),
    UploadFormat("xml", (".xml",), ("application/xml", "text/xml"), ContentKind.XML),
)
"""The formats that the service names, and those that only the emulator reads."""
_TEXTS = ("javascript", "x-javascript", "x-ndjson", "yaml", "x-yaml", "toml", "sql")
_KINDS = tuple(one for one in UPLOAD_FORMATS if one.kind is not None)
_BY_TYPE = {
    **{name: one.kind for one in _KINDS for name in one.types},
    "application/x-pdf": ContentKind.PDF,
    "text/json": ContentKind.JSON,
    "application/csv": ContentKind.CSV,
    "application/vnd.ms-excel.sheet.macroenabled.12": ContentKind.XLSX,
    **dict.fromkeys((f"application/{name}" for name in _TEXTS), ContentKind.TEXT),
}
_BY_NAME = {name: one.kind for one in _KINDS for name in one.extensions}
_BY_NAME |= dict.fromkeys((".rss", ".atom"), ContentKind.XML)
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
