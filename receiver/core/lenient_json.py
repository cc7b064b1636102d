"""Read the sender's JSON: fast if possible, and also what the fast parser refuses."""

import json
from typing import Any

from pydantic_core import from_json


class NotJson(ValueError):
    """Neither parser can read the bytes as JSON."""


class TooDeep(NotJson):
    """Values are nested deeper than both parsers go. Nobody has read the rest, so the bytes may be JSON."""

    def __init__(self) -> None:
        super().__init__("nested too deeply to be read")


def load_json(body: bytes) -> Any:
    """Return the value of a JSON text, or raise NotJson.

    The fast parser refuses some texts that this sender can make: a lone surrogate written as an escape (legal by
    RFC 8259, section 8.2; JSON.stringify writes it for a string that was cut inside a pair), nesting past its own
    limit, and integers of thousands of digits. The standard library reads them, down to about a thousand levels;
    such an integer is returned as text. For deeper nesting NotJson is a TooDeep.
    """
    try:
        return from_json(body)
    except ValueError:
        try:
            return json.loads(body, parse_int=_integer)
        except RecursionError as exc:
            raise TooDeep from exc
        except ValueError as exc:
            raise NotJson(f"not JSON: {exc}") from exc


def _integer(digits: str) -> int | str:
    """Return an integer, or its digits if Python refuses to convert so many (sys.set_int_max_str_digits)."""
    try:
        return int(digits)
    except ValueError:
        return digits
