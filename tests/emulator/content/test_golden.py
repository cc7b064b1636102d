"""Our Markdown beside that of the library that the service uses. `golden/README.md` says which pairs there are."""

import re
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest

from receiver.emulator.content.markdown.writer import to_markdown
from receiver.emulator.content.parsing import parse_html

GOLDEN = Path(__file__).parent / "golden"
NAMES = sorted(folder.name for folder in GOLDEN.iterdir() if folder.is_dir())
DOMAINS = {"blog": "blog.golang.org", "golang": "golang.org"}
OTHERWISE = {
    # The service takes its plugin for code, which cuts newlines at the end and puts no space before code.
    "list_nested": [
        ("   `variable`", "  `variable`"),
        ("used to embed an image.\n\n  ```", "used to embed an image.\n  ```"),
    ],
    "golang": [("世界\n\n```", "世界\n```")],
}
"""Lines that differ: theirs, ours."""


def absolute(address: str, domain: str) -> str:
    """Resolve as the library does: against a domain alone."""
    if re.search("%(?![0-9a-fA-F]{2})", address) or address.startswith("data:"):
        return address
    parts = urlsplit(address.strip())
    path = parts.path if not parts.path or parts.path.startswith("/") else f"/{parts.path}"
    whole = urlunsplit((parts.scheme or "http", parts.netloc or domain, path, parts.query, parts.fragment))
    return whole.replace(" ", "%20").replace("\\", "%5C")


@pytest.mark.parametrize("name", NAMES)
def test_our_markdown_is_that_of_the_library(name: str) -> None:
    """All pairs, but for the lines that `OTHERWISE` lists."""
    tree = parse_html((GOLDEN / name / "input.html").read_text(encoding="utf-8"))
    for selector, attribute in (("a[href]", "href"), ("img[src]", "src"), ("iframe[src]", "src")):
        for node in tree.css(selector):
            address = node.attributes[attribute] or ""
            if address.strip() not in {"", "#"}:
                node.attrs[attribute] = absolute(address, DOMAINS.get(name, "example.com"))
    expected = (GOLDEN / name / "output.md").read_text(encoding="utf-8")
    for theirs, ours in OTHERWISE.get(name, []):
        assert theirs in expected
        expected = expected.replace(theirs, ours)
    assert tree.root is not None

    assert to_markdown(tree.root, base64_images=True) == expected
