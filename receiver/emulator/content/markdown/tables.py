"""What has to be known of a table while its rows are written."""

from dataclasses import dataclass, field

from selectolax.lexbor import LexborNode

from receiver.emulator.content.tags import number_of

_TABLE, _THEAD, _TBODY, _TH = map(number_of, ("table", "thead", "tbody", "th"))
_HEAD_CELL = 12
"""Characters of a cell in an empty heading."""
_BORDERS = {"left": ":--", "right": "--:", "center": ":-:"}


@dataclass(slots=True)
class TableFrame:
    """One open table."""

    has_heading: bool = False
    """Whether it, or a table in it, has a `thead` or a `th`."""
    widest: int = 0
    """The most cells of a row."""
    captions: list[str] = field(default_factory=list)
    """They stand behind the table."""

    def head(self, most: int) -> str:
        """Return an empty heading, without which a table of plain rows would not be seen as one.

        It has about `most` characters at most.
        """
        width = min(self.widest, most // _HEAD_CELL)
        if self.has_heading or not width:
            return ""
        return "|" + "     |" * width + "\n|" + " --- |" * width

    def take_in(self, inner: "TableFrame") -> None:
        """Count what a table inside this one has: the service does not tell them apart."""
        self.has_heading |= inner.has_heading
        self.widest = max(self.widest, inner.widest)


def border_below(row: LexborNode) -> str:
    """Return the line below a row that is a heading; empty for other rows."""
    cells = [cell for cell in row.iter() if cell.is_element_node]
    if not _is_heading(row, cells):
        return ""
    borders = [_BORDERS.get(cell.attributes.get("align") or "", "---") for cell in cells]
    return "\n| " + " | ".join(borders) + " |" if borders else ""


def first_child_element(node: LexborNode) -> bool:
    """Whether no element stands before this one in its parent."""
    before = node.prev
    while before is not None and not before.is_element_node:
        before = before.prev
    return before is None


def _is_heading(row: LexborNode, cells: list[LexborNode]) -> bool:
    parent = row.parent
    if parent is None or parent.tag_id == _THEAD:
        return parent is not None
    if any(cell.tag_id != _TH for cell in cells) or not first_child_element(row):
        return False
    return parent.tag_id == _TABLE or (parent.tag_id == _TBODY and _first_body(parent))


def _first_body(body: LexborNode) -> bool:
    """Whether a `tbody` is the first of its table, and no `thead` stands before it."""
    before = body.prev
    while before is not None and before.tag_id not in {_THEAD, _TBODY}:
        before = before.prev
    return before is None
