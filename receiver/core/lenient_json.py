"""Reading the sender's JSON: fast where possible, tolerant where it must be."""

import json
from typing import Any

from pydantic_core import from_json


class NotJson(ValueError):
    """The bytes are no JSON text by either parser."""


def load_json(body: bytes) -> Any:
    """Return the value of a JSON text, or raise NotJson.

    The fast parser refuses a few texts that this sender can make: a lone surrogate written as an escape
    (legal by RFC 8259, section 8.2, and what JSON.stringify gives for a string cut between two halves of a
    pair), nesting past its own limit, and integers of thousands of digits, which come as text. The standard library
    reads those, down to about a thousand levels.
    """
    try:
        return from_json(body)
    except ValueError:
        try:
            return json.loads(body, parse_int=_integer)
        except (ValueError, RecursionError) as exc:
            raise NotJson(f"not JSON: {exc}") from exc


def _integer(digits: str) -> int | str:
    """Return an integer, or its digits where Python refuses to convert that many (sys.set_int_max_str_digits)."""
    try:
        return int(digits)
    except ValueError:
        return digits
