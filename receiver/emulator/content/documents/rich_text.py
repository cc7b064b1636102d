"""RTF: text with its headings, lists, tables, links and emphasis (Rich Text Format Specification 1.9.1)."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from receiver.emulator.content.documents.markup import (
    MAX_TEXT,
    BlockWriter,
    DocumentText,
    UnreadableDocument,
    page_of,
    words_of,
)

_TOKEN = re.compile(
    rb"\\([a-zA-Z]{1,32})(-?\d{1,10})?[ ]?|\\'([0-9a-fA-F]{2})|\\([^a-zA-Z])|([{}])|[\r\n\x00]+|([^\\{}\r\n\x00]+)",
    re.DOTALL,
)
_LINK = re.compile(r'HYPERLINK\s+(?:\\l\s+)?"?([^"\s]{1,4000})')
_HEADING = re.compile(r"heading ([1-9])", re.IGNORECASE)
_NUMBER = re.compile(r"\(?(?:\d{1,6}|[a-zA-Z]{1,6})[.)]")
_SKIPPED = words_of(
    "colortbl pict object header headerl headerr headerf footer footerl footerr footerf footnote filetbl revtbl"
    " listtable listoverridetable rsidtbl generator xmlnstbl themedata colorschememapping datastore latentstyles"
    " nonshppict author operator company category keywords doccomm subject comment bkmkstart bkmkend atnid"
    " annotation atnauthor pntxta pntxtb info"
)
_READ_APART = frozenset({"listtext", "pntext", "fldinst", "stylesheet", "title", "fonttbl"})
_SYMBOLS = {
    "tab": " ",
    "line": "\n",
    "emdash": "\u2014",
    "endash": "\u2013",
    "lquote": "\u2018",
    "rquote": "\u2019",
    "ldblquote": "\u201c",
    "rdblquote": "\u201d",
    "bullet": "\u2022",
    "emspace": " ",
    "enspace": " ",
}
_CHARSETS = {
    77: "mac-roman",
    128: "cp932",
    129: "cp949",
    134: "gb18030",
    136: "big5",
    161: "cp1253",
    162: "cp1254",
    163: "cp1258",
    177: "cp1255",
    178: "cp1256",
    186: "cp1257",
    204: "cp1251",
    222: "cp874",
    238: "cp1250",
}
_DEEPEST = 500
_BY_STYLE = {"title": 1, "subtitle": 2}


@dataclass(frozen=True, slots=True)
class _Group:
    """The format between two braces."""

    into: str = "text"
    """The destination of text: `text`, `skip`, or the name of one that is read apart."""
    bold: bool = False
    italic: bool = False
    href: str = ""
    font: int = 0
    unicode_skip: int = 1
    """The bytes that follow a Unicode character for readers that do not know it."""


@dataclass(slots=True)
class _Paragraph:
    """The format of the paragraph that is being read."""

    style: int = 0
    outline: int | None = None
    """The level of a heading, from 0; None for text."""
    level: int = 0
    marker: str = ""
    is_listed: bool = False
    in_table: bool = False


@dataclass(slots=True)
class _Apart:
    texts: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, text: str) -> None:
        self.texts[name] = (self.texts.get(name, "") + text)[:10_000]

    def take(self, name: str) -> str:
        return self.texts.pop(name, "").strip()


def read_rtf(body: bytes, _options: dict[str, Any]) -> DocumentText:
    """Return the text of an .rtf file."""
    if not body.lstrip().startswith(b"{\\rtf"):
        raise UnreadableDocument("The file is not RTF.")
    reader = _RtfReader(body)
    reader.read()
    found = DocumentText(page_of(reader.title, reader.blocks.html()), title=reader.title)
    if reader.is_cut:
        found.warnings.append("The file is too long or nested too deep; not all of it was taken.")
    return found


class _RtfReader:
    def __init__(self, body: bytes) -> None:
        self.blocks = BlockWriter()
        self.title = ""
        self.is_cut = False
        self._body = body
        self._group = _Group()
        self._groups: list[_Group] = []
        self._paragraph = _Paragraph()
        self._apart = _Apart()
        self._codec = "cp1252"
        self._codecs: dict[int, str] = {}
        self._headings: dict[int, int] = {}
        self._style = 0
        self._bytes = bytearray()
        self._units = bytearray()
        self._to_skip = 0
        self._ignorable = False
        self._size = 0
        self._commands: dict[str, Callable[[int | None], None]] = {
            "par": lambda _: self._end_paragraph(),
            "sect": lambda _: self._end_paragraph(),
            "page": lambda _: self._end_paragraph(),
            "cell": lambda _: self.blocks.end_cell() if self._group.into == "text" else None,
            "row": lambda _: self.blocks.end_row(),
            "pard": lambda _: self._reset(),
            "intbl": lambda _: self._set(in_table=True),
            "outlinelevel": lambda number: self._set(outline=number),
            "ilvl": lambda number: self._set(level=number or 0),
            "ls": lambda number: self._set(is_listed=bool(number)),
            "s": self._set_style,
            "b": lambda number: self._format(bold=number != 0),
            "i": lambda number: self._format(italic=number != 0),
            "v": lambda number: self._format(into="skip" if number != 0 else "text"),
            "plain": lambda _: self._format(bold=False, italic=False),
            "f": lambda number: self._format(font=number or 0),
            "uc": lambda number: self._format(unicode_skip=min(max(number or 0, 0), 10)),
            "fcharset": self._set_charset,
            "ansicpg": self._set_codepage,
            "mac": lambda _: self._set_codepage(10000),
        }

    def read(self) -> None:
        at, end = 0, len(self._body)
        while at < end and not self.is_cut:
            found = _TOKEN.match(self._body, at)
            if found is None:
                at += 1
                continue
            at = found.end()
            word, number, byte, symbol, brace, text = found.groups()
            if byte is not None or text is not None:
                self._take(bytes([int(byte, 16)]) if byte is not None else text)
            elif word is not None:
                at += self._word(word.decode(), None if number is None else int(number))
            elif brace is not None:
                self._brace(brace)
            elif symbol is not None:
                self._symbol(symbol)
        self._end_paragraph()

    def _take(self, data: bytes) -> None:
        """Take bytes of text, without those that replace a character that was given as Unicode."""
        skipped = min(self._to_skip, len(data))
        self._to_skip -= skipped
        if data := data[skipped:]:
            self._flush_units()
            self._bytes += data

    def _word(self, word: str, number: int | None) -> int:
        """Follow a control word, and return how many of the bytes after it are not text."""
        if word == "u":
            self._flush_bytes()
            self._units += ((number or 0) & 0xFFFF).to_bytes(2, "little")
            self._to_skip = self._group.unicode_skip
            return 0
        self._flush()
        self._to_skip = 0
        was_ignorable, self._ignorable = self._ignorable, False
        if word == "bin":
            return max(0, number or 0)
        if word in _SYMBOLS:
            self._write(_SYMBOLS[word])
        elif word in self._commands:
            self._commands[word](number)
        else:
            self._destination(word, is_ignorable=was_ignorable)
        return 0

    def _destination(self, word: str, *, is_ignorable: bool) -> None:
        """Change the destination of text if the word names one."""
        if word == "fldrslt":
            link = _LINK.search(self._apart.take("fldinst"))
            self._format(into="text", href=link[1] if link else "")
        elif word in _READ_APART:
            if self._group.into != "skip" or word == "title":
                self._format(into=word)
        elif word in _SKIPPED or (is_ignorable and word != "shptxt"):
            self._format(into="skip")

    def _brace(self, brace: bytes) -> None:
        self._flush()
        self._to_skip = 0
        self._ignorable = False
        if brace == b"{":
            if len(self._groups) >= _DEEPEST:
                self.is_cut = True
            self._groups.append(self._group)
        elif self._groups:
            ended, self._group = self._group, self._groups.pop()
            self._end_group(ended)

    def _end_group(self, ended: _Group) -> None:
        if ended.into == "stylesheet" and len(self._groups) >= 1:
            name = self._apart.take("stylesheet").rstrip(";").strip()
            found = _HEADING.fullmatch(name)
            level = int(found[1]) if found else _BY_STYLE.get(name.lower())
            if level is not None:
                self._headings[self._style] = level
            self._style = 0
        elif ended.into == "title" and self._group.into != "title":
            self.title = self._apart.take("title")
        elif ended.into in ("listtext", "pntext") and self._group.into != ended.into:
            self._paragraph.marker = self._apart.take(ended.into) or "\u2022"
            self._paragraph.is_listed = True

    def _symbol(self, symbol: bytes) -> None:
        if symbol == b"*":
            self._ignorable = True
        elif symbol in b"{}\\":
            self._take(symbol)
        elif symbol in (b"~", b"_"):
            self._flush()
            self._write(" " if symbol == b"~" else "-")
        elif symbol in b"\r\n":
            self._flush()
            self._end_paragraph()

    def _flush(self) -> None:
        self._flush_bytes()
        self._flush_units()

    def _flush_bytes(self) -> None:
        if self._bytes:
            text = self._bytes.decode(self._codecs.get(self._group.font, self._codec), "replace")
            self._bytes.clear()
            self._write(text)

    def _flush_units(self) -> None:
        if self._units:
            text = self._units.decode("utf-16-le", "replace")
            self._units.clear()
            self._write(text)

    def _write(self, text: str) -> None:
        group = self._group
        if group.into == "text":
            self._size += len(text)
            self.is_cut = self.is_cut or self._size > MAX_TEXT
            self.blocks.add(text, bold=group.bold, italic=group.italic, href=group.href)
        elif group.into != "skip":
            self._apart.add(group.into, text)

    def _format(self, **changes: Any) -> None:
        self._group = replace(self._group, **changes)

    def _set(self, **changes: Any) -> None:
        for name, value in changes.items():
            setattr(self._paragraph, name, value)

    def _reset(self) -> None:
        marker, is_listed = self._paragraph.marker, self._paragraph.is_listed and bool(self._paragraph.marker)
        self._paragraph = _Paragraph(marker=marker, is_listed=is_listed)

    def _set_style(self, number: int | None) -> None:
        self._style = number or 0
        self._paragraph.style = self._style

    def _set_charset(self, number: int | None) -> None:
        if (codec := _CHARSETS.get(number or 0)) is not None:
            self._codecs[self._group.font] = codec

    def _set_codepage(self, number: int | None) -> None:
        codec = "mac-roman" if number == 10000 else f"cp{number}"
        try:
            "".encode(codec)
        except LookupError:
            return
        self._codec = codec

    def _end_paragraph(self) -> None:
        if self._group.into != "text":
            return
        paragraph = self._paragraph
        if paragraph.in_table:
            self.blocks.break_cell()
            return
        outline = paragraph.outline
        level = outline + 1 if outline is not None and 0 <= outline < 6 else self._headings.get(paragraph.style)
        if level is not None:
            self.blocks.end_heading(level)
        elif paragraph.is_listed:
            is_ordered = _NUMBER.fullmatch(paragraph.marker) is not None
            self.blocks.end_item(paragraph.level, is_ordered=is_ordered)
        else:
            self.blocks.end_paragraph()
        paragraph.marker, paragraph.is_listed = "", False
