"""The rules by which elements become Markdown: those of the library that the service uses.

A walk over the tree, with a stack of its own, writes a list of pieces. Elements that change what is in them join
their pieces when they end. That copies the text inside, so only `DEEPEST` of them count inside one another; the
others let their text through, and the work stays linear in the size of the page.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar
from urllib.parse import unquote_plus

from selectolax.lexbor import LexborNode

from receiver.emulator.content.markdown import texts
from receiver.emulator.content.markdown.layout import (
    ListLevel,
    TableFrame,
    border_below,
    first_child_element,
    open_list,
    spaced,
    spaced_code,
)
from receiver.emulator.content.parsing import TEXT, content_root, number_of, numbers_of, parse_html

DEEPEST = 40
"""How many elements inside one another may change the text inside them."""
FEWEST_ADDED = 4_000
"""Characters for indents of lists and empty headings of tables that every page may have."""
ADDED_PER_CHARACTER = 4
"""More of them for each character of the page. Only lists and tables that are made for it need more."""
_STEPS = 200
"""How many texts and comments after a text are searched for a list."""

_LISTS, _LISTISH = numbers_of("ul ol"), numbers_of("ul ol li")

Leave = Callable[[Any, LexborNode, int], None]
"""Ends an element; it gets the element, and where its pieces begin."""
Enter = Callable[[Any, LexborNode, int], LexborNode | None]
"""Begins an element; it gets the element and its number, and returns the next node to visit."""

_LINES = numbers_of("p div li tr table thead tbody tfoot section article blockquote pre h1 h2 h3 h4 h5 h6")
"""Elements that end a line."""
_NEVER = numbers_of("script style textarea")
_BR = number_of("br")
_CODE = number_of("code")


def code_text(root: LexborNode) -> str:
    """Return the text of code, without line numbers. Newlines are where lines end.

    Pages with syntax highlighting spread it over many elements.
    """
    parts: list[str] = []
    opened: list[LexborNode] = []
    node = root.first_child
    while True:
        if node is None:
            if not opened:
                return "".join(parts)
            done = opened.pop()
            if done.tag_id in _LINES:
                parts.append("\n")
            node = done.next
        elif (number := node.tag_id) == TEXT:
            parts.append(node.text_content or "")
            node = node.next
        elif number in _NEVER or not node.is_element_node or _numbers_lines(node):
            node = node.next
        else:
            if number == _BR:
                parts.append("\n")
            opened.append(node)
            node = node.first_child


def language_of(pre: LexborNode) -> str:
    """Return the language in the classes of the first `code` of a block, or else of the block."""
    first = next((inner for inner in pre.traverse() if inner.tag_id == _CODE), None)
    return (_language(first) if first is not None else "") or _language(pre)


def _language(node: LexborNode) -> str:
    for name in (node.attributes.get("class") or "").lower().split():
        for prefix in ("language-", "lang-"):
            if name.startswith(prefix):
                return name.removeprefix(prefix)
    return ""


def _numbers_lines(node: LexborNode) -> bool:
    classes = (node.attributes.get("class") or "").lower()
    return "gutter" in classes or "line-numbers" in classes


_DEEPEST_FRAMES = 3
"""How many pages within pages (`iframe` with `data:text/html`) are converted."""
_WIDEST_INDENT = 400

_INLINE_PARENTS = numbers_of(
    "b big i small tt abbr acronym cite code dfn em kbd strong samp var a bdo br img map object q script span sub"
    " sup button input label select textarea iframe li"
)
_LISTS, _LISTISH = numbers_of("ul ol"), numbers_of("ul ol li")
_TABLE, _LI = number_of("table"), number_of("li")
_DELIMITERS = {
    number: delimiter
    for names, delimiter in (("strong b", "**"), ("em i", "_"), ("del s strike", "~~"))
    for number in numbers_of(names)
}
_BLOCKS = (
    "p div section article main header footer nav aside address dl dt dd figure figcaption details summary dialog"
    " fieldset form hgroup center search"
)


class MarkdownWriter:
    """Writes the Markdown of one tree."""

    rules: ClassVar[Mapping[int, Enter]] = {}
    """By the number of an element. Elements without a rule let their content through."""

    def __init__(self, *, size: int, base64_images: bool = False, frames: int = 0) -> None:
        """`size` is the number of the page's characters, which limits what lists and tables add to them."""
        self._added_left = FEWEST_ADDED + ADDED_PER_CHARACTER * size
        self._base64_images = base64_images
        self._frames = frames
        self._out: list[str] = []
        self._open: list[tuple[LexborNode, int, Leave | None, int, bool]] = []
        self._trimming = False
        """Whether an element further out takes the spaces off the beginnings of lines."""
        self._joins = self._links = self._headings = 0
        self._lists: list[ListLevel] = []
        self._tables: list[TableFrame] = []
        self._cells: list[int] = []
        """For each open cell, how many tables had been written when it began."""
        self._tables_written = 0

    def write(self, root: LexborNode) -> str:
        """Return the Markdown of what is in an element."""
        self._walk(root.first_child)
        return texts.finish("".join(self._out))

    def _walk(self, node: LexborNode | None) -> None:
        out, opened, rules = self._out, self._open, self.rules
        while True:
            if node is None:
                if not opened:
                    return
                node, _, leave, mark, self._trimming = opened.pop()
                if leave is not None:
                    leave(self, node, mark)
                node = node.next
            elif (number := node.tag_id) == TEXT:
                text = node.text_content
                if text and not text.isspace():
                    out.append(self._beside_list(node, texts.plain(text)) if self._lists else texts.plain(text))
                node = node.next
            elif (enter := rules.get(number)) is not None:
                node = enter(self, node, number)
            elif (child := node.first_child) is not None:
                opened.append((node, number, None, 0, self._trimming))
                node = child
            else:
                node = node.next

    def _parent(self) -> int:
        """Return the number of the element around the one that is entered or left; 0 at the top."""
        return self._open[-1][1] if self._open else 0

    def _into(
        self, node: LexborNode, number: int, leave: Leave | None, mark: int | None = None
    ) -> LexborNode | None:
        """Open an element, and return the next node to visit."""
        place = len(self._out) if mark is None else mark
        self._open.append((node, number, leave, place, self._trimming))
        return node.first_child

    def _joining(self, node: LexborNode, number: int, leave: Leave) -> LexborNode | None:
        """Open an element that joins its pieces; deep inside others it lets them through."""
        if self._joins >= DEEPEST:
            return self._into(node, number, None)
        self._joins += 1
        return self._into(node, number, leave)

    def _take(self, mark: int) -> str:
        """Remove and return what was written since a mark. Each element that joins calls this once."""
        self._joins -= 1
        text = "".join(self._out[mark:])
        del self._out[mark:]
        return text

    def _beside_list(self, node: LexborNode, text: str) -> str:
        """Return the text without spaces at its ends if a list follows it."""
        if self._parent() not in _LISTISH:
            return text
        after = node.next
        for _ in range(_STEPS):
            if after is None or after.is_element_node:
                break
            after = after.next
        if after is None or after.tag_id not in _LISTS:
            return text
        # Spaces after an element are kept: they separate the two.
        return text.rstrip(" ") if node.prev is not None else text.strip(" ")

    # ---- leaves

    def _break(self, node: LexborNode, _: int) -> LexborNode | None:
        self._out.append("\n\n")
        return node.next

    def _rule(self, node: LexborNode, _: int) -> LexborNode | None:
        if not self._headings:
            self._out.append("\n\n* * *\n\n")
        return node.next

    def _image(self, node: LexborNode, _: int) -> LexborNode | None:
        attributes = node.attributes
        source = (attributes.get("src") or "").strip()
        if source:
            if not self._base64_images and source.startswith("data:image/") and ";base64," in source[:200]:
                source = "<Base64-Image-Removed>"
            alt = (attributes.get("alt") or "").replace("\n", " ")
            self._out.append(f"![{alt}]({source})")
        return node.next

    def _checkbox(self, node: LexborNode, _: int) -> LexborNode | None:
        attributes = node.attributes
        if self._parent() == _LI and attributes.get("type") == "checkbox":
            self._out.append("[x] " if "checked" in attributes else "[ ] ")
        return node.next

    def _frame(self, node: LexborNode, _: int) -> LexborNode | None:
        source = node.attributes.get("src")
        if source and not source.startswith("data:text/html"):
            self._out.append(f"[iframe]({source})")
        elif source and "," in source and self._frames < _DEEPEST_FRAMES:
            text = unquote_plus(source.partition(",")[2])
            page = parse_html(text)
            inner = MarkdownWriter(size=len(text), base64_images=self._base64_images, frames=self._frames + 1)
            self._out.append(inner.write(content_root(page)))
        return node.next

    def _code_block(self, node: LexborNode, _: int) -> LexborNode | None:
        self._out.append(texts.fenced(code_text(node).rstrip("\n"), language_of(node)))
        return node.next

    def _code(self, node: LexborNode, _: int) -> LexborNode | None:
        text = code_text(node)
        if text:
            self._out.append(spaced_code(node, texts.code_span(self._in_cell(text))))
        return node.next

    def _typed(self, node: LexborNode, _: int) -> LexborNode | None:
        text = code_text(node)
        if text:
            self._out.append(spaced(node, texts.padded_code_span(self._in_cell(text))))
        return node.next

    def _in_cell(self, code: str) -> str:
        # https://github.github.com/gfm/#example-200: a bar ends a cell, even within code.
        return code.replace("|", "\\|") if self._cells else code

    # ---- blocks

    def _block(self, node: LexborNode, number: int) -> LexborNode | None:
        if self._parent() in _INLINE_PARENTS:
            self._out.append("\n")
            return self._into(node, number, MarkdownWriter._end_inner_block)
        if self._trimming or self._joins >= DEEPEST:
            self._out.append("\n\n")
            return self._into(node, number, MarkdownWriter._end_block)
        self._joins += 1
        first = self._into(node, number, MarkdownWriter._end_outer_block)
        self._trimming = True
        return first

    def _end_inner_block(self, _node: LexborNode, _mark: int) -> None:
        self._out.append("\n")

    def _end_block(self, _node: LexborNode, _mark: int) -> None:
        self._out.append("\n\n")

    def _end_outer_block(self, _node: LexborNode, mark: int) -> None:
        self._out.append(f"\n\n{texts.trim_lines(self._take(mark))}\n\n")

    def _heading(self, node: LexborNode, number: int) -> LexborNode | None:
        if self._joins >= DEEPEST:
            return self._block(node, number)
        self._headings += 1
        return self._joining(node, number, MarkdownWriter._end_heading)

    def _end_heading(self, node: LexborNode, mark: int) -> None:
        self._headings -= 1
        text = self._take(mark)
        title = texts.heading_text(text)
        if not title:
            self._out.append(text)
        elif self._links:
            self._out.append(spaced(node, f"**{title}**"))
        else:
            self._out.append(f"\n\n{'#' * int((node.tag or 'h1')[1])} {title}\n\n")

    def _quote(self, node: LexborNode, number: int) -> LexborNode | None:
        if self._joins >= DEEPEST:
            return self._block(node, number)
        first = self._joining(node, number, MarkdownWriter._end_quote)
        self._trimming = False
        return first

    def _end_quote(self, _node: LexborNode, mark: int) -> None:
        text = self._take(mark)
        inner = text.strip()
        self._out.append(f"\n\n{texts.quoted(inner)}\n\n" if inner else text)

    # ---- inline

    def _emphasis(self, node: LexborNode, number: int) -> LexborNode | None:
        delimiter = _DELIMITERS[number]
        if delimiter != "~~" and delimiter == _DELIMITERS.get(self._parent()):
            return self._into(node, number, None)
        return self._joining(node, number, MarkdownWriter._end_emphasis)

    def _end_emphasis(self, node: LexborNode, mark: int) -> None:
        if text := self._take(mark).strip():
            self._out.append(spaced(node, texts.delimited(text, _DELIMITERS[node.tag_id])))

    def _link(self, node: LexborNode, number: int) -> LexborNode | None:
        if self._joins >= DEEPEST:
            return self._into(node, number, None)
        self._links += 1
        return self._joining(node, number, MarkdownWriter._end_link)

    def _end_link(self, node: LexborNode, mark: int) -> None:
        self._links -= 1
        content = self._take(mark)
        attributes = node.attributes
        target = attributes.get("href") or ""
        if target.strip() in {"", "#"}:
            self._out.append(content)
            return
        title = attributes.get("title") if "title" in attributes else None
        text = texts.link_text(content) or (attributes.get("aria-label") or "" if title is None else title)
        if not text:
            self._out.append(content)
        elif title is None and texts.is_image_of(text, target):
            self._out.append(spaced(node, text))
        else:
            named = "" if title is None else ' "' + title.replace("\n", " ").replace('"', '\\"') + '"'
            self._out.append(spaced(node, f"[{text}]({target}{named})"))

    # ---- lists

    def _list(self, node: LexborNode, number: int) -> LexborNode | None:
        if self._joins >= DEEPEST:
            return self._block(node, number)
        self._lists.append(open_list(node, self._lists[-1] if self._lists else None))
        self._out.append("")
        return self._into(node, number, MarkdownWriter._end_list, len(self._out) - 1)

    def _end_list(self, node: LexborNode, mark: int) -> None:
        self._lists.pop()
        after = node.next
        while after is not None and not after.is_element_node:
            after = after.next
        if after is not None or self._parent() not in _LISTISH:
            self._out[mark] = "\n\n"
            self._out.append("\n\n")
            return
        parent = node.parent
        first = parent.first_child if parent is not None else None
        text = (first.text_content or "") if first is not None and first.tag_id == TEXT else "x"
        if not text.rstrip(" \t").endswith("\n"):
            self._out[mark] = "\n"
        self._cut_end(mark)

    def _cut_end(self, mark: int) -> None:
        """Remove the white space at the end of what was written since a mark if it has a newline."""
        out, place = self._out, len(self._out) - 1
        while place > mark and not out[place].rstrip(" \t"):
            place -= 1
        if out[place].rstrip(" \t").endswith("\n"):
            while len(out) > mark + 1 and not out[-1].rstrip():
                out.pop()
            out[-1] = out[-1].rstrip() if len(out) > mark + 1 else out[-1]

    def _item(self, node: LexborNode, number: int) -> LexborNode | None:
        if self._joins >= DEEPEST:
            self._out.append("\n")
            return self._into(node, number, MarkdownWriter._end_inner_block)
        first = self._joining(node, number, MarkdownWriter._end_item)
        self._trimming = False
        return first

    def _end_item(self, node: LexborNode, mark: int) -> None:
        content = self._take(mark)
        text = content.strip()
        if not text:
            self._out.append(content)
            return
        end = "\n" if content.endswith("\n") else ""
        text = content.strip("\n").lstrip(f" {texts.GUARD}") + end
        level = self._lists[-1] if self._lists and self._parent() in _LISTS else None
        if level is None:
            self._out.append(text.rstrip("\n") + "\n")
            return
        before = min(level.before, _WIDEST_INDENT, self._added_left)
        prefix = level.prefix(node) or " " * level.width
        head = f"{texts.GUARD}{' ' * before}{prefix}" if before or prefix.isspace() else prefix
        self._added_left -= before
        self._out.append(head + self._indented(text, before + level.width) + "\n")

    def _indented(self, text: str, width: int) -> str:
        """Return the text of an item with its lines indented, within the limit of what may be added."""
        lines = text.count("\n")
        if not lines:
            return text
        indented = texts.indented(text, min(width, self._added_left // lines))
        self._added_left = max(0, self._added_left - (len(indented) - len(text)))
        return indented

    # ---- tables

    def _table(self, node: LexborNode, number: int) -> LexborNode | None:
        self._tables.append(TableFrame())
        self._out.append("")
        return self._into(node, number, MarkdownWriter._end_table, len(self._out) - 1)

    def _end_table(self, _node: LexborNode, mark: int) -> None:
        table = self._tables.pop()
        self._tables_written += 1
        if self._tables:
            self._tables[-1].take_in(table)
        head = table.head(self._added_left)
        self._added_left -= len(head)
        self._out[mark] = f"\n\n{head}"
        self._out.extend(("\n\n", *table.captions))

    def _caption(self, node: LexborNode, number: int) -> LexborNode | None:
        if self._parent() != _TABLE or not self._tables:
            return self._into(node, number, None)
        return self._joining(node, number, MarkdownWriter._end_caption)

    def _end_caption(self, _node: LexborNode, mark: int) -> None:
        self._tables[-1].captions.append(self._take(mark))

    def _table_heading(self, node: LexborNode, number: int) -> LexborNode | None:
        if self._tables:
            self._tables[-1].has_heading = True
        return self._into(node, number, None)

    def _row(self, node: LexborNode, number: int) -> LexborNode | None:
        if self._tables:
            cells = sum(1 for child in node.iter() if child.is_element_node)
            self._tables[-1].widest = max(self._tables[-1].widest, cells)
        self._out.append("\n")
        return self._into(node, number, MarkdownWriter._end_row)

    def _end_row(self, node: LexborNode, _mark: int) -> None:
        self._out.append(border_below(node))

    def _heading_cell(self, node: LexborNode, number: int) -> LexborNode | None:
        if self._tables:
            self._tables[-1].has_heading = True
        return self._cell(node, number)

    def _cell(self, node: LexborNode, number: int) -> LexborNode | None:
        if self._joins >= DEEPEST:
            return self._into(node, number, None)
        self._cells.append(self._tables_written)
        first = self._joining(node, number, MarkdownWriter._end_cell)
        self._trimming = False
        return first

    def _end_cell(self, node: LexborNode, mark: int) -> None:
        text = self._take(mark).strip()
        if self._cells.pop() == self._tables_written:
            text = texts.one_line(text)
        self._out.append(f"{'| ' if first_child_element(node) else ' '}{text} |")


_RULES: tuple[tuple[str, Enter], ...] = (
    (_BLOCKS, MarkdownWriter._block),
    ("h1 h2 h3 h4 h5 h6", MarkdownWriter._heading),
    ("blockquote", MarkdownWriter._quote),
    ("strong b em i del s strike", MarkdownWriter._emphasis),
    ("a", MarkdownWriter._link),
    ("ul ol", MarkdownWriter._list),
    ("li", MarkdownWriter._item),
    ("table", MarkdownWriter._table),
    ("caption", MarkdownWriter._caption),
    ("thead", MarkdownWriter._table_heading),
    ("tr", MarkdownWriter._row),
    ("td", MarkdownWriter._cell),
    ("th", MarkdownWriter._heading_cell),
    ("pre", MarkdownWriter._code_block),
    ("code", MarkdownWriter._code),
    ("kbd samp tt", MarkdownWriter._typed),
    ("br", MarkdownWriter._break),
    ("hr", MarkdownWriter._rule),
    ("img", MarkdownWriter._image),
    ("input", MarkdownWriter._checkbox),
    ("iframe", MarkdownWriter._frame),
    ("script style textarea noscript template", lambda _, node, _number: node.next),
)
MarkdownWriter.rules = {number: rule for names, rule in _RULES for number in numbers_of(names)}


def to_markdown(root: LexborNode, *, size: int | None = None, base64_images: bool = False) -> str:
    """Return the Markdown of what is in an element. `base64_images` keeps images that are in the page itself.

    `size` is the number of the page's characters; without it they are counted.
    """
    size = len(root.html or "") if size is None else size
    return MarkdownWriter(size=size, base64_images=base64_images).write(root)
