"""A made site of forty pages, and a hundred queries of which the right page is known."""

from pathlib import Path

_FOLDER = Path(__file__).parent


def _rows(name: str) -> list[list[str]]:
    return [line.split("\t") for line in (_FOLDER / name).read_text(encoding="utf-8").splitlines()]


PAGES = {path: (title, text) for path, title, text in _rows("library_pages.tsv")}
"""Title and text by path."""
QUERIES = [(query, path) for path, query in _rows("library_queries.tsv")]
"""Queries as people write them, and the path of the page that they look for."""


def library() -> dict[str, str | bytes]:
    """Return the site: each page has the same menu and footer, as sites have."""
    menu = "".join(f'<a href="{path}">{title}</a>' for path, (title, _) in PAGES.items())
    footer = "<footer>Larkfield, software for libraries. Pricing, privacy, contact.</footer>"
    return {
        path: f"<html lang='en'><head><title>{title} | Larkfield</title></head><body><nav>{menu}</nav>"
        f"<main><h1>{title}</h1><p>{text}</p></main>{footer}</body></html>"
        for path, (title, text) in PAGES.items()
    }
