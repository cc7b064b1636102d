"""The categories of a search: kinds of sites, or of files."""

from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit

from receiver.service.emulator.search.queries import SearchQuery, SitePart
from receiver.service.emulator.search.words import host_names

_HOSTS = {
    "github": ("github.com",),
    "research": (
        "acm.org",
        "arxiv.org",
        "biorxiv.org",
        "ieee.org",
        "jstor.org",
        "nature.com",
        "ncbi.nlm.nih.gov",
        "plos.org",
        "pubmed.gov",
        "researchgate.net",
        "scholar.google.com",
        "science.org",
        "sciencedirect.com",
        "semanticscholar.org",
        "springer.com",
        "wiley.com",
    ),
    "developer": (
        "developer.mozilla.org",
        "docs.python.org",
        "docs.rs",
        "github.com",
        "gitlab.com",
        "npmjs.com",
        "pkg.go.dev",
        "pypi.org",
        "readthedocs.io",
        "stackoverflow.com",
    ),
    "gov": ("gov", "gov.au", "gov.uk", "europa.eu", "mil"),
}
"""Hosts, with all below them. `pdf` is a kind of files."""


def kinds_of(categories: Iterable[str]) -> list[SearchQuery]:
    """Return the sites and file types of categories."""
    return [
        SearchQuery(file_types=["pdf"])
        if name == "pdf"
        else SearchQuery(sites=[SitePart(host) for host in _HOSTS[name]])
        for name in categories
    ]


def category_of(url: str, categories: Sequence[str]) -> str | None:
    """Return the first of some categories that a page belongs to; None without any."""
    parts = urlsplit(url)
    names = set(host_names((parts.hostname or "").lower()))
    for name in categories:
        if name == "pdf" and parts.path.lower().endswith(".pdf"):
            return name
        if names.intersection(_HOSTS.get(name, ())):
            return name
    return "pdf" if "pdf" in categories else None
