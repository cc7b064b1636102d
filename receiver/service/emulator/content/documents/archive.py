"""Files that are zip archives of XML: opened with limits of entries, bytes and depth, and without entities."""

import zipfile
import zlib
from collections.abc import Callable
from io import BytesIO
from typing import Any
from xml.parsers import expat

from receiver.service.emulator.content.documents.words import UnreadableDocument

MOST_ENTRIES = 5_000
MOST_BYTES = 200_000_000
DEEPEST = 300

Start = Callable[[str, dict[str, str]], Any]
End = Callable[[str], Any]
Text = Callable[[str], Any]


class Archive:
    """A zip archive within the limits. Raises UnreadableDocument otherwise."""

    def __init__(self, body: bytes) -> None:
        try:
            self._zip = zipfile.ZipFile(BytesIO(body))
        except (zipfile.BadZipFile, ValueError, OSError) as error:
            raise UnreadableDocument("The file is not a whole zip archive.") from error
        entries = self._zip.infolist()
        # A reader gets no more bytes of an entry than it declares (zipfile keeps to it), so their sum is the limit.
        if len(entries) > MOST_ENTRIES or sum(entry.file_size for entry in entries) > MOST_BYTES:
            raise UnreadableDocument("The file holds too much once it is unpacked.")
        if any(entry.flag_bits & 1 for entry in entries):
            raise UnreadableDocument("The file is encrypted.")
        self.names = tuple(entry.filename for entry in entries)

    def read(self, name: str) -> bytes:
        """Return an entry. Raises UnreadableDocument without it."""
        try:
            return self._zip.read(name)
        except (KeyError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError) as error:
            raise UnreadableDocument(f"The file has no readable {name[:80]!r}.") from error

    def read_if_there(self, name: str) -> bytes:
        """Return an entry; nothing without it."""
        return self.read(name) if name in self.names else b""

    def check_xml(self) -> None:
        """Raise UnreadableDocument if some XML declares entities or is nested too deep."""
        for name in self.names:
            if name.endswith((".xml", ".rels")):
                walk_xml(self.read(name))


def walk_xml(
    body: bytes,
    start: Start | None = None,
    end: End | None = None,
    text: Text | None = None,
    *,
    attributes_with_namespaces: bool = False,
) -> None:
    """Parse XML; names come without their namespace. Raises UnreadableDocument for what is not safe XML.

    Attributes may keep their namespace, before a blank: some differ in nothing else.
    """
    depth = 0

    def on_start(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > DEEPEST:
            raise UnreadableDocument("The XML in the file is nested too deep.")
        if start is not None:
            kept = attributes_with_namespaces
            start(_local(name), attributes if kept else {_local(key): value for key, value in attributes.items()})

    def on_end(name: str) -> None:
        nonlocal depth
        depth -= 1
        if end is not None:
            end(_local(name))

    def on_doctype(*_: object) -> None:
        raise UnreadableDocument("The XML in the file declares a document type.")

    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = on_start, on_end
    parser.StartDoctypeDeclHandler = on_doctype
    if text is not None:
        parser.CharacterDataHandler = text
    try:
        parser.Parse(body, True)
    except expat.ExpatError as error:
        raise UnreadableDocument("The XML in the file is not well-formed.") from error


def _local(name: str) -> str:
    return name.rpartition(" ")[2]
