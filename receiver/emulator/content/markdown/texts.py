"""Pieces of text on their way to Markdown: escapes, white space, fences and delimiters."""

import re

GUARD = "\x01"
"""Marks white space at the beginning of a line that has to stay; `finish` removes the mark."""
_ESCAPE = "\x02"
"""Stands for a backslash that is already an escape, while others are still found."""

_BLANKS = re.compile(r"[ \t]{2,}|\t")
_SPECIAL = re.compile(r"[*_`|\[\]]|\\(?=\S|\Z)")
_MAY_MATTER = re.compile(r"[*_`|\[\]\\\t#>+-]|  |[0-9]\. ")
_AT_LINE_START = re.compile(
    r"^(?:\#{1,6}[ ]|[^\w\n]*(?:[0-9]+\.[ ]|[+>-][ ])|(?:-[ ]*){3,}$)", re.MULTILINE | re.ASCII
)
_HEADING = re.compile(r"^(?=#{1,6} )", re.MULTILINE)
_DIVIDER = re.compile(r"^(?:- *){3,}$", re.MULTILINE)
_NUMBERED = re.compile(r"^([^\w\n]*[0-9]+)(?=\. )", re.MULTILINE | re.ASCII)
_BULLET = re.compile(r"^[^\\\x02\w\n]*[+-] ", re.MULTILINE | re.ASCII)
_QUOTE = re.compile(r"^[^\w\n]*> ", re.MULTILINE | re.ASCII)
_LEADING = re.compile(r"^[^\S\n]{1,3}(?=[^\s-])", re.MULTILINE)
_NEWLINES = re.compile(r"\n{2,}")
_INDENTED = re.compile(r"^(?=[^\S\n])", re.MULTILINE)
_BACKTICKS = re.compile(r"`+")
_LINK_BREAKS = re.compile(r"(?:\n\\)+")
_ITEM = re.compile(r"[\s\x01]*(?:-|[0-9]+\.)\s+[^\s-]")
_LINE_START = re.compile(r"^", re.MULTILINE)
_HASH = re.compile(r"(?<!\\)#")
_CELL_BREAKS = re.compile(r"\n+")


def plain(text: str) -> str:
    """Return text for Markdown: runs of spaces are one space, newlines stay, and what has a meaning is escaped."""
    if not _MAY_MATTER.search(text):
        return text
    if "\t" in text or "  " in text:
        text = _BLANKS.sub(" ", text)
    if _AT_LINE_START.search(text):
        return _SPECIAL.sub(r"\\\g<0>", _mark_line_starts(text)).replace(_ESCAPE, "\\")
    return _SPECIAL.sub(r"\\\g<0>", text) if _SPECIAL.search(text) else text


def _mark_line_starts(text: str) -> str:
    text = _HEADING.sub(_ESCAPE, text.replace(_ESCAPE, ""))
    text = _DIVIDER.sub(lambda found: found[0].replace("-", _ESCAPE + "-", 3), text)
    text = _NUMBERED.sub(rf"\1{_ESCAPE}", text)
    text = _BULLET.sub(lambda found: re.sub("[+-]", _ESCAPE + r"\g<0>", found[0]), text)
    return _QUOTE.sub(lambda found: found[0].replace(">", _ESCAPE + ">"), text)


def trim_lines(text: str) -> str:
    """Return the text without up to three spaces before each line; they stay before a dash, which may be a list."""
    return _LEADING.sub("", text)


def finish(text: str) -> str:
    """Return the whole Markdown as callers get it: no white space at the ends, at most one empty line in a row."""
    text = _NEWLINES.sub("\n\n", text.replace(GUARD, "").strip())
    return "\n".join([line.rstrip() for line in text.split("\n")])


def delimited(text: str, mark: str) -> str:
    """Return the text with marks around every line: marks do not reach across lines."""
    if "\n" not in text:
        return f"{mark}{text}{mark}"
    lines = [line.strip() for line in text.split("\n")]
    return "\n".join([f"{mark}{line}{mark}" if line else "" for line in lines])


def link_text(text: str) -> str:
    """Return the text of a link, which must not have an empty line."""
    text = text.strip()
    return _LINK_BREAKS.sub("\n\\\\", text.replace("\n", "\\\n")) if "\n" in text else text


def quoted(text: str) -> str:
    """Return the text as a block quote."""
    return _LINE_START.sub("> ", _NEWLINES.sub("\n\n", text))


def fenced(text: str, language: str = "") -> str:
    """Return a fenced block of code; the fence is longer than any run of backticks inside."""
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"\n\n{fence}{language}\n{_INDENTED.sub(GUARD, text)}\n{fence}\n\n"


def code_span(text: str) -> str:
    """Return text as code within a line: one, two or three backticks, no padding."""
    if "\n" in text:
        text = _NEWLINES.sub("\n", "\n".join([line.rstrip() for line in text.split("\n")]))
    mark = "`" if "`" not in text else "``" if "``" not in text else "```"
    return f"{mark}{text}{mark}"


def padded_code_span(text: str) -> str:
    """Return text as code within a line by the rules of CommonMark (section 6.1)."""
    text = _NEWLINES.sub("\n", text)
    mark = "`" * (_longest_run(text) + 1)
    before, after = " " if text.startswith("`") else "", " " if text.endswith("`") else ""
    return f"{mark}{before}{text}{after}{mark}"


def indented(text: str, width: int) -> str:
    """Return the text of a list item, its lines after the first indented, up to a line that is an item itself."""
    lines = text.split("\n")
    indent, in_code = " " * width, False
    for place in range(1, len(lines)):
        line = lines[place]
        at_fence = line.lstrip(" \x01").startswith("```")
        if not in_code and not at_fence and _ITEM.match(line):
            break
        # Empty lines are indented too: `finish` does not join such lines with others.
        lines[place] = f"{GUARD}{indent}{line}" if in_code or at_fence else indent + line
        in_code ^= at_fence
    return "\n".join(lines)


def _longest_run(text: str) -> int:
    return max(map(len, _BACKTICKS.findall(text)), default=0) if "`" in text else 0


def heading_text(text: str) -> str:
    """Return the text of a heading: one line, and no `#` that could end it."""
    return _HASH.sub(r"\\#", text.replace("\n", " ")).strip()


def one_line(text: str) -> str:
    """Return the text of a table's cell."""
    return _CELL_BREAKS.sub("<br>", text) if "\n" in text else text


def is_image_of(text: str, target: str) -> bool:
    """Return whether the text is one image, and the link around it leads to that image."""
    end = f"]({target})"
    return text.startswith("![") and text.endswith(end) and "]" not in text[2 : -len(end)]
