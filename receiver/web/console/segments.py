"""Ids in the path of a page. A delivery's id is the sender's, so it may hold slashes, dots and anything else."""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode

from starlette.convertors import Convertor, register_url_convertor

from receiver.core.text import storable

_PLAIN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.:-]*")
_MARK = "~"
_MAX_NUMBER = 2**63 - 1
"""The largest id that a store can have."""


def segment(outside: str) -> str:
    """Return an id as one segment of a path: as it is if that is safe, else encoded behind a `~`.

    A quoted slash would not do: servers and proxies decode it before the path is matched. `..` cannot be quoted.
    """
    text = str(outside)
    if _PLAIN.fullmatch(text):
        return text
    return _MARK + urlsafe_b64encode(text.encode("utf-8", "surrogatepass")).decode().rstrip("=")


def from_segment(written: str) -> str:
    """Return the id in a segment. Text that `segment` does not make is taken as it is."""
    if not written.startswith(_MARK):
        return written
    encoded = written.removeprefix(_MARK)
    try:
        return urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode("utf-8", "surrogatepass")
    except ValueError:
        return written


class IdConvertor(Convertor[str]):
    """An id in the path of a route."""

    regex = "[^/]+"

    def convert(self, value: str) -> str:
        """Return the id."""
        return storable(from_segment(value))

    def to_string(self, value: str) -> str:
        """Return the segment."""
        return segment(value)


class NumberConvertor(Convertor[int]):
    """The number of a row in the path of a route; a larger one than any row has is as good as the largest."""

    regex = "[0-9]{1,100}"

    def convert(self, value: str) -> int:
        """Return the number."""
        return min(int(value), _MAX_NUMBER)

    def to_string(self, value: int) -> str:
        """Return the segment."""
        return str(value)


register_url_convertor("console_id", IdConvertor())
register_url_convertor("console_row", NumberConvertor())
