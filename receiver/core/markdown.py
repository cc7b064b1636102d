"""What we write as Markdown: tables, and the names that headings have in links."""

import re
from collections.abc import Sequence


def anchor_of(heading: str) -> str:
    """Return the name of a heading in links, by the rule of GitHub."""
    return re.sub(r"[^a-z0-9 _-]", "", heading.lower()).replace(" ", "-")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table. A bar in the text of a cell does not end the cell."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
