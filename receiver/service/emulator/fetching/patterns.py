"""Regular expressions that users give for URLs. RE2 matches them in linear time, whatever they are."""

from collections.abc import Sequence
from typing import Any

import re2

from receiver.errors import ReceiverError

MAX_PATTERN_LENGTH = 2_000
MAX_PATTERNS = 1_000


class WrongPattern(ReceiverError):
    """A regular expression that cannot be used. The text, for the caller of the API, names it and says why."""

    def __init__(self, field: str, pattern: str, reason: str) -> None:
        shown = pattern if len(pattern) <= 100 else f"{pattern[:100]}…"
        super().__init__(f"Invalid regular expression {shown!r} in {field}: {reason}")
        self.field, self.pattern = field, pattern


class UrlPatterns:
    """Some regular expressions, which match anywhere in a text. WrongPattern names one that is wrong."""

    def __init__(self, patterns: Sequence[str], field: str = "includePaths") -> None:
        if len(patterns) > MAX_PATTERNS:
            raise WrongPattern(field, patterns[MAX_PATTERNS], f"there may be at most {MAX_PATTERNS:,}")
        self._patterns = [_compiled(pattern, field) for pattern in dict.fromkeys(patterns)]

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def match(self, text: str) -> bool:
        """Tell whether any of them matches somewhere in the text."""
        data = text.encode("utf-8", "replace")
        return any(pattern.search(data) is not None for pattern in self._patterns)


def _compiled(pattern: str, field: str) -> Any:
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise WrongPattern(field, pattern, f"it may have at most {MAX_PATTERN_LENGTH:,} characters")
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    try:
        return re2.compile(pattern.encode(), options)
    except (re2.error, UnicodeEncodeError) as exc:
        reason = exc.args[0] if exc.args and isinstance(exc, re2.error) else "it is no text"
        raise WrongPattern(field, pattern, reason.decode() if isinstance(reason, bytes) else str(reason)) from None
