"""The rules by which elements become Markdown: those of the library that the service uses."""

from collections.abc import Mapping
from typing import ClassVar
from urllib.parse import unquote_plus

from selectolax.lexbor import LexborNode

from receiver.emulator.content.markdown import texts
from receiver.emulator.content.markdown.lists import open_list
from receiver.emulator.content.markdown.tables import TableFrame, border_below, first_child_element
from receiver.emulator.content.markdown.walk import DEEPEST, Enter, TreeWalk, spaced, spaced_code
from receiver.emulator.content.parsing import content_root, parse_html
from receiver.emulator.content.tags import TEXT, number_of, numbers_of

# FOLDED: The text of code. Pages with syntax highlighting spread it over many elements, with line numbers beside.
_LINES = numbers_of("p div li tr table thead tbody tfoot section article blockquote pre h1 h2 h3 h4 h5 h6")
"""Elements that end a line."""
_NEVER = numbers_of("script style textarea")
_BR = number_of("br")
_CODE = number_of("code")


def code_text(root: LexborNode) -> str:
    """Return the text of all that is in an element, without line numbers. Newlines are where lines end."""
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
    """Return the language that the first `code` of a block names in its classes, else the block itself."""
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
_STRONG, _EM, _TABLE, _LI = numbers_of("strong b"), numbers_of("em i"), number_of("table"), number_of("li")
_BLOCKS = (
    "p div section article main header footer nav aside address dl dt dd figure figcaption details summary dialog"
    " fieldset form hgroup center search"
)


class MarkdownWriter(TreeWalk):
    """Writes the Markdown of one tree. `base64_images` keeps images that stand in the page itself."""

    rules: ClassVar[Mapping[int, Enter]] = {}  # below, since the functions have to be there

    # ---- leaves

    def _nothing(self, node: LexborNode, _: int) -> LexborNode | None:
        return node.next

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

    def _strong(self, node: LexborNode, number: int) -> LexborNode | None:
        nested = self._parent() in _STRONG
        return self._into(node, number, None) if nested else self._joining(node, number, MarkdownWriter._end_strong)

    def _end_strong(self, node: LexborNode, mark: int) -> None:
        self._delimit(node, mark, "**")

    def _em(self, node: LexborNode, number: int) -> LexborNode | None:
        nested = self._parent() in _EM
        return self._into(node, number, None) if nested else self._joining(node, number, MarkdownWriter._end_em)

    def _end_em(self, node: LexborNode, mark: int) -> None:
        self._delimit(node, mark, "_")

    def _struck(self, node: LexborNode, number: int) -> LexborNode | None:
        return self._joining(node, number, MarkdownWriter._end_struck)

    def _end_struck(self, node: LexborNode, mark: int) -> None:
        self._delimit(node, mark, "~~")

    def _delimit(self, node: LexborNode, mark: int, delimiter: str) -> None:
        text = self._take(mark).strip()
        if text:
            self._out.append(spaced(node, texts.delimited(text, delimiter)))

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
        """Take the white space off the end of what was written since a mark if there is a newline in it."""
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
        """Return the text of an item with spaces before its lines, as long as there are some left."""
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
    ("strong b", MarkdownWriter._strong),
    ("em i", MarkdownWriter._em),
    ("del s strike", MarkdownWriter._struck),
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
    ("script style textarea noscript template", MarkdownWriter._nothing),
)
MarkdownWriter.rules = {number: rule for names, rule in _RULES for number in numbers_of(names)}


def to_markdown(root: LexborNode, *, size: int | None = None, base64_images: bool = False) -> str:
    """Return the Markdown of what is in an element. `base64_images` keeps images that stand in the page itself.

    `size` is the characters of the page, which are counted without it.
    """
    return MarkdownWriter(size=len(root.html or "") if size is None else size, base64_images=base64_images).write(
        root
    )
