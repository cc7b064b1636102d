"""Books in the EPUB format: their chapters, in reading order."""

import posixpath
import re
from typing import Any
from urllib.parse import unquote

from receiver.emulator.content.documents import markup
from receiver.emulator.content.documents.markup import Archive, DocumentText, UnreadableDocument, walk_xml

_CONTAINER = "META-INF/container.xml"
_BODY = re.compile(r"<body[^>]*>(.*)</body\s*>", re.DOTALL | re.IGNORECASE)


def read_epub(body: bytes, _options: dict[str, Any]) -> DocumentText:
    """Return the chapters of an .epub file as one page."""
    archive = Archive(body)
    package = _package_name(archive.read(_CONTAINER))
    items, spine, title = _package(archive.read(package))
    folder = posixpath.dirname(package)
    chapters = []
    for name in dict.fromkeys(items[key] for key in spine if key in items):
        path = posixpath.normpath(posixpath.join(folder, unquote(name)))
        text = archive.read_if_there(path).decode("utf-8", "replace")
        found = _BODY.search(text)
        chapters.append(found[1] if found else text)
    return DocumentText(markup.page(title, *chapters), title=title)


def _package_name(container: bytes) -> str:
    found: list[str] = []

    def start(name: str, attributes: dict[str, str]) -> None:
        if name == "rootfile" and attributes.get("full-path"):
            found.append(attributes["full-path"])

    walk_xml(container, start)
    if not found:
        raise UnreadableDocument("The book names no package file.")
    return found[0]


def _package(body: bytes) -> tuple[dict[str, str], list[str], str]:
    """Return the files by their ids, the ids in reading order, and the title."""
    items: dict[str, str] = {}
    spine: list[str] = []

    def start(name: str, attributes: dict[str, str]) -> None:
        if name == "item":
            items[attributes.get("id", "")] = attributes.get("href", "")
        elif name == "itemref":
            spine.append(attributes.get("idref", ""))

    walk_xml(body, start)
    return items, spine, markup.title_in(body)
