"""The Content-Type of a file of a given site, by its name, else by how it begins."""

import mimetypes
from pathlib import PurePosixPath

_MORE = {
    ".atom": "application/atom+xml", ".avif": "image/avif", ".csv": "text/csv",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".epub": "application/epub+zip", ".gz": "application/gzip", ".ico": "image/vnd.microsoft.icon",
    ".js": "text/javascript", ".markdown": "text/markdown", ".md": "text/markdown", ".mjs": "text/javascript",
    ".odt": "application/vnd.oasis.opendocument.text",
    ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ".rss": "application/rss+xml", ".rtf": "application/rtf", ".webmanifest": "application/manifest+json",
    ".webp": "image/webp", ".woff": "font/woff", ".woff2": "font/woff2", ".xhtml": "application/xhtml+xml",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", ".xml": "application/xml",
}  # fmt: skip

_DOCUMENTS = frozenset(
    {".csv", ".docx", ".epub", ".markdown", ".md", ".odp", ".ods", ".odt", ".pdf", ".pptx", ".rtf", ".txt", ".xlsx"}
)
HTML = "text/html"
# The tables of Python, not those of the machine: a site looks the same everywhere.
_KNOWN = mimetypes.MimeTypes().types_map[True] | _MORE


def content_type_of(name: str, content: str | bytes) -> str:
    """Return the Content-Type of a file. A text has the charset UTF-8; bytes tell their charset themselves."""
    kind = _KNOWN.get(PurePosixPath(name).suffix.lower()) or _kind_of(content)
    is_text = kind.startswith("text/") or kind.endswith(("/json", "xml"))
    return f"{kind}; charset=utf-8" if isinstance(content, str) and is_text else kind


def is_page(name: str) -> bool:
    """Tell whether a file is a page of HTML, by its name. So is one without a known suffix."""
    return _KNOWN.get(PurePosixPath(name).suffix.lower(), HTML) == HTML


def is_document(name: str) -> bool:
    """Tell whether a file is a PDF, an office file or a text for people, by its name."""
    return PurePosixPath(name).suffix.lower() in _DOCUMENTS


def _kind_of(content: str | bytes) -> str:
    if isinstance(content, str):
        return HTML
    if content.lstrip()[:1] == b"<":
        return HTML
    return "application/octet-stream" if b"\0" in content[:1024] else "text/plain"
