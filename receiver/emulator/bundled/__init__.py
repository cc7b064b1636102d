"""A small site of a shop that does not exist: what there is to scrape and crawl without any other site."""

from pathlib import Path

BUNDLED_ORIGIN = "https://docs.example.com"
"""A name that is reserved for examples (RFC 2606, section 3): nothing real is hidden by it."""
BUNDLED_SITE = Path(__file__).parent / "site"
"""The folder of its files. It is a part of the package: copy it before you change a page."""
