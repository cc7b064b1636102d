"""The kinds of files that can be uploaded, and which one a file is."""

from dataclasses import dataclass
from typing import Any, Literal

from receiver.service.emulator.content.kinds import ContentKind, kind_of

_OFFICE = "application/vnd.openxmlformats-officedocument."
_ODF = "application/vnd.oasis.opendocument."


@dataclass(frozen=True, slots=True)
class UploadFormat:
    """One kind of files, as the list of formats shows it."""

    format: str
    """Its name."""
    extensions: tuple[str, ...]
    """The ends of file names, with the dot."""
    types: tuple[str, ...]
    """Media types; the first one is the usual one."""
    kind: ContentKind | None
    """How it is read here; None if it cannot be read."""
    group: Literal["html", "document"] = "document"
    """What the service calls a kind of file."""

    def wire(self) -> dict[str, Any]:
        """Return the item of the list."""
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
"""Every kind of files that the service names, and those that are only read here."""
_TYPE_OF = {one.kind: one.types[0] for one in reversed(UPLOAD_FORMATS) if one.kind is not None}
_KNOWN_UNREADABLE = tuple(end for one in UPLOAD_FORMATS if one.kind is None for end in one.extensions)


def type_of_upload(body: bytes, name: str, content_type: str) -> str | None:
    """Return the media type that a file is to be read by; None if files of its kind cannot be read.

    The end of its name decides, then its type, then its first bytes.
    """
    if name.lower().rstrip().endswith(_KNOWN_UNREADABLE):
        return None
    kind = kind_of(body, content_type, name, name_first=True)
    if kind is ContentKind.UNSUPPORTED:
        return None
    _, semicolon, parameters = content_type.partition(";")
    return f"{_TYPE_OF[kind]}{semicolon}{parameters}"
