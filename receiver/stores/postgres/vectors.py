"""Vectors of words and queries for them, written as text, so that no parser of the server changes the words."""

from collections.abc import Sequence

from receiver.core.search import Phrase, Texts

# PostgreSQL manual, Limitations of text search: a position is at most 16,383, a word has at most 256 of them, and
# is shorter than 2 KB; a vector is shorter than 1 MB.
_FIELD_STARTS = (1, 6_001, 12_001)
_FIELD_LENGTH = 4_000
"""Words of a field that have positions. Further ones are found, but not in a phrase."""
_MAX_POSITIONS = 255
_MAX_WORD = 500
"""Letters of a word, each of at most four bytes."""
_MAX_VECTOR_BYTES = 900_000
_POSITION_BYTES = 6


def vector(texts: Texts) -> str:
    """Return the words of a delivery as a tsvector."""
    places: dict[str, list[int]] = {}
    size = 0
    for start, text in zip(_FIELD_STARTS, (texts.url, texts.title, texts.error), strict=True):
        for at, word in enumerate(text.split()):
            known = places.setdefault(word[:_MAX_WORD], [])
            size += _POSITION_BYTES if known else len(word[:_MAX_WORD].encode()) + 2 * _POSITION_BYTES
            if size > _MAX_VECTOR_BYTES:
                return _written(places)
            if at < _FIELD_LENGTH and len(known) < _MAX_POSITIONS:
                known.append(start + at)
    return _written(places)


def query(phrases: Sequence[Phrase]) -> str:
    """Return a tsquery that asks for all the phrases."""
    return " & ".join(f"({_phrase(one)})" for one in phrases)


def _phrase(phrase: Phrase) -> str:
    return " <-> ".join(_quoted(word) for word in phrase.words) + (":*" if phrase.prefix else "")


def _written(places: dict[str, list[int]]) -> str:
    return " ".join(
        _quoted(word) + (f":{','.join(map(str, positions))}" if positions else "")
        for word, positions in places.items()
    )


def _quoted(word: str) -> str:
    return f"'{word[:_MAX_WORD]}'"  # words have letters and digits only
