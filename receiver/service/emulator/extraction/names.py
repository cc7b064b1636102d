"""Names of properties as words, so that `datePublished`, `date_published` and `Date published` are one name."""

import re
from functools import lru_cache

from receiver.service.emulator.extraction.vocabulary import GROUPS, QUALIFIERS

_WORD = re.compile(r"[A-Z]+(?![^\W\d_A-Z])|[^\W\d_]?[^\W\d_A-Z]+|\d+")
MAX_NAME = 200
"""Characters of a name that are read."""


@lru_cache(maxsize=4096)
def words_of(name: str) -> tuple[str, ...]:
    """Return the words of a name in lower case and in the singular."""
    return words_in(name[:MAX_NAME])


def words_in(text: str) -> tuple[str, ...]:
    """Return the words of a text of any length in lower case and in the singular."""
    return tuple(_singular(word.lower()) for word in _WORD.findall(text))


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3 else word


def key_of(name: str) -> str:
    """Return the name as one word, the same for all spellings."""
    return "".join(words_of(name))


def _read_groups() -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for line in GROUPS.split("\n"):
        group = frozenset(map(key_of, line.split()))
        for name in group:
            found[name] = found.get(name, frozenset()) | group
    return found


_SYNONYMS = _read_groups()
"""For each key, the keys that mean the same, itself among them."""


def synonyms_of(name: str) -> frozenset[str]:
    """Return the keys that mean the same as a name, itself among them."""
    key = key_of(name)
    return _SYNONYMS.get(key, frozenset()) | {key}


def likeness(wanted: str, label: str) -> int:
    """Return how well a label fits a name: 3 the same, 2 a synonym, 1 the same words among others, 0 not at all."""
    key = key_of(label)
    if not key:
        return 0
    if key == key_of(wanted):
        return 3
    if key in synonyms_of(wanted):
        return 2
    wanted_words, label_words = set(words_of(wanted)), set(words_of(label))
    if not wanted_words or QUALIFIERS & (wanted_words ^ label_words):
        return 0  # an old price is no price
    near = abs(len(wanted_words) - len(label_words)) <= 2
    return int(near and (wanted_words < label_words or label_words < wanted_words))
