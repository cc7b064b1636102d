"""JSON as the service writes it: UTF-8, compact, keys in the given order."""

import json
from typing import Any

import msgspec


def to_json(value: Any) -> bytes:
    """Return a JSON value as bytes. A lone surrogate, which a page may hold, is escaped; NaN becomes null."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        # JSON.stringify escapes lone surrogates too: ECMA-262, section QuoteJSONString.
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "backslashreplace")
