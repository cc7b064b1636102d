"""Reading the few fields of an envelope, without building what else is in the body."""

import codecs
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from receiver.core.lenient_json import NotJson, load_json

_SMALL = 64 * 1024
_CHUNK = 1024 * 1024
_BOM = b"\xef\xbb\xbf"
_SURROGATES = re.compile(
    rb"\\u[dD](?:[89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|[89a-fA-F][0-9a-fA-F]{2})"
)
"""The escapes of a pair of surrogates, or of one."""
_REPLACEMENT = rb"\ufffd"
_ESCAPE = len(_REPLACEMENT)


class NotAnObject(NotJson):
    """The bytes are a JSON text, and not that of an object."""


class _Fields(msgspec.Struct):
    type: msgspec.Raw = msgspec.Raw()
    id: msgspec.Raw = msgspec.Raw()
    jobId: msgspec.Raw = msgspec.Raw()  # noqa: N815 - the service's own name
    webhookId: msgspec.Raw = msgspec.Raw()  # noqa: N815 - likewise
    success: msgspec.Raw = msgspec.Raw()


_decode_fields = msgspec.json.Decoder(_Fields).decode
_skip_value = msgspec.json.Decoder(msgspec.Raw).decode


def read_fields(body: bytes) -> Mapping[str, Any]:
    """Return the fields `type`, `id`, `jobId`, `webhookId` and `success` of a JSON object, those that are there.

    A value that is an array or an object is left out. Time and memory grow with the body's length alone, not with
    how many values are in it. What `load_json` reads is read here, but that a body of more than 64 KiB may not hold
    NaN or Infinity, and its lone surrogates read as U+FFFD. Raises NotJson, or NotAnObject for other JSON.
    """
    try:
        return _read_strictly(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        if len(body) > _SMALL:
            return _read_mended(body, exc)
    content = load_json(body)
    if not isinstance(content, dict):
        raise NotAnObject("not a JSON object")
    return {name: content[name] for name in _Fields.__struct_fields__ if name in content}


def _read_strictly(body: bytes | bytearray) -> Mapping[str, Any]:
    fields = _decode_fields(body)
    _require_utf8(body)
    values = ((name, bytes(getattr(fields, name))) for name in _Fields.__struct_fields__)
    return {name: load_json(value) for name, value in values if value and value[0] not in b"[{"}


def _read_mended(body: bytes, reason: Exception) -> Mapping[str, Any]:
    """Read a long body that is no strict JSON: `load_json` would build all that is in it."""
    if isinstance(reason, RecursionError | UnicodeDecodeError):
        raise NotJson(f"not JSON: {reason}") from reason
    mended = _without_lone_surrogates(body.removeprefix(_BOM))
    try:
        _skip_value(mended)
        return _read_strictly(mended)
    except msgspec.ValidationError:
        raise NotAnObject("not a JSON object") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise NotJson(f"not JSON: {exc}") from exc


def _without_lone_surrogates(body: bytes) -> bytearray:
    """Replace them one by one in a copy: a list of what lies between them could be far longer than the body."""
    copy = bytearray(body)
    for found in _SURROGATES.finditer(body):
        start, end = found.span()
        if _is_escaped(body, start):  # `\\ud83d` is a backslash and five letters and digits
            start += _ESCAPE
        if end - start == _ESCAPE:
            copy[start:end] = _REPLACEMENT
    return copy


def _is_escaped(body: bytes, position: int) -> bool:
    """Tell whether the backslash there is the second half of an escaped one."""
    start = position
    while start and body[start - 1] == 0x5C:
        start -= 1
    return (position - start) % 2 == 1


def _require_utf8(body: bytes | bytearray) -> None:
    """Raise UnicodeDecodeError for what is no UTF-8; piece by piece, since the text may need much memory."""
    if body.isascii():
        return
    decoder = codecs.getincrementaldecoder("utf-8")()
    for start in range(0, len(body), _CHUNK):
        decoder.decode(body[start : start + _CHUNK])
    decoder.decode(b"", final=True)
