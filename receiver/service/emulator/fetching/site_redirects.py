"""The `_redirects` file of a given site: its redirects, and pages that it answers with another status."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from urllib.parse import quote

_MAX_RULES = 10_000


@dataclass(frozen=True, slots=True)
class SiteRule:
    """One line: `FROM TO [STATUS]`, such as `/old/* /new/:splat 302` or `/shop /closed.html 503!`.

    A status of 3xx redirects (301 by default), any other answers with that status and the page TO. A file of the
    site goes first, unless the status ends with `!`. FROM may end with `/*`; TO has the rest as `:splat`.
    """

    path: str
    """FROM."""
    to: str
    """TO."""
    status: int
    """The HTTP status of the answer."""
    is_forced: bool
    """Whether it goes before a file of the site."""

    @property
    def redirects(self) -> bool:
        """Whether the answer is a redirect."""
        return 300 <= self.status < 400

    def location(self, path: str) -> str | None:
        """Return where the rule leads from a path; None if it is not about this path."""
        if self.path.endswith("/*"):
            start = self.path[:-1]
            splat = path[len(start) :] if path.startswith(start) else None
            return self.to.replace(":splat", splat) if splat is not None else None
        return self.to if path.rstrip("/") == self.path.rstrip("/") else None


def read_rules(text: str | bytes) -> Iterator[SiteRule]:
    """Yield the rules of a file in order. A line that is no rule is left out."""
    lines = (text if isinstance(text, str) else text.decode("utf-8", "replace")).splitlines()
    for line in lines[:_MAX_RULES]:
        rule = _rule(list(takewhile(lambda word: not word.startswith("#"), line.split())))
        if rule is not None:
            yield rule


def _rule(words: list[str]) -> SiteRule | None:
    match words:
        case [path, to]:
            status = "301"
        case [path, to, status]:
            pass
        case _:
            return None
    digits = status.removesuffix("!")
    if not path.startswith("/") or not (digits.isascii() and digits.isdigit() and 200 <= int(digits[:4]) < 600):
        return None
    return SiteRule(quote(path, safe="/*%:+,;=@&$!'()~"), to, int(digits), is_forced=status.endswith("!"))
