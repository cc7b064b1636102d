"""Reading the few fields of an envelope, without building what else is in the body."""

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from receiver.core.lenient_json import NotJson, TooDeep, load_json

_SMALL = 64 * 1024
_CHUNK = 1024 * 1024
_BOM = b"\xef\xbb\xbf"
_LONE_SURROGATE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
_REPLACEMENT = rb"\\ufffd"
_ENCODED_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")
"""A surrogate as three bytes, which UTF-8 forbids (RFC 3629, section 3) and Python's json module reads."""
_ENCODED_REPLACEMENT = "\ufffd".encode()
_NAN = re.compile(rb"(?<![-+.\w])NaN(?![-+.\w])")
_INFINITY = re.compile(rb"(?<![+.\w])Infinity(?![-+.\w])")
_REST_OF_WORD = re.compile(rb"[\x80-\xbf]{0,3}[-+.0-9A-Za-z]{0,9}(?:\\u[dD][c-fC-F][0-9a-fA-F]{2})?")
_BACKSLASH, _QUOTE = b"\xff\xff", b"\xff\xfe"
"""Stand for an escaped backslash and an escaped quotation mark. UTF-8 does not have these bytes."""


class NotAnObject(NotJson):
    """The bytes are a JSON text, and not that of an object."""


class _Fields(msgspec.Struct):
    type: msgspec.Raw = msgspec.Raw()
    id: msgspec.Raw = msgspec.Raw()
    jobId: msgspec.Raw = msgspec.Raw()  # noqa: N815 - the service's own name
    webhookId: msgspec.Raw = msgspec.Raw()  # noqa: N815 - likewise
    success: msgspec.Raw = msgspec.Raw()


class EnvelopeFields(msgspec.Struct):
    """The fields of an envelope that matter here: None for what is not there, and for arrays and objects."""

    type: Any = None
    id: Any = None
    jobId: Any = None  # noqa: N815 - the service's own name
    webhookId: Any = None  # noqa: N815 - likewise
    success: Any = None


class _UsualFields(EnvelopeFields):
    """The fields as the service sends them. Reading them so takes a third of the time."""

    type: str | None = None
    id: str | None = None
    jobId: str | None = None  # noqa: N815
    webhookId: str | None = None  # noqa: N815
    success: bool | None = None


_decode_usual = msgspec.json.Decoder(_UsualFields).decode
_decode_fields = msgspec.json.Decoder(_Fields).decode
_skip_value = msgspec.json.Decoder(msgspec.Raw).decode


def read_fields(body: bytes) -> EnvelopeFields:
    """Return the fields of a JSON object.

    Time and memory grow with the body's length alone, not with how many values are in it. This reads what
    `load_json` reads. In a body of more than 64 KiB that is not strict JSON, lone surrogates read as U+FFFD. Raises
    NotJson, TooDeep for what is nested too deeply to be read, or NotAnObject for other JSON.
    """
    try:
        return _read_strictly(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        if len(body) > _SMALL:
            return _read_mended(body, exc)
    content = load_json(body)
    if not isinstance(content, dict):
        raise NotAnObject("not a JSON object")
    values = {name: content.get(name) for name in _Fields.__struct_fields__}
    return EnvelopeFields(**{name: None if isinstance(one, list | dict) else one for name, one in values.items()})


def _read_strictly(body: bytes | bytearray) -> EnvelopeFields:
    try:
        fields: EnvelopeFields = _decode_usual(body)
    except msgspec.ValidationError:
        raw = _decode_fields(body)
        _require_utf8(body)
        values = [(name, bytes(getattr(raw, name))) for name in _Fields.__struct_fields__]
        return EnvelopeFields(**{name: load_json(one) for name, one in values if one and one[0] not in b"[{"})
    _require_utf8(body)
    return fields


def _read_mended(body: bytes, reason: Exception) -> EnvelopeFields:
    """Read a long body that is no strict JSON: `load_json` would build all that is in it."""
    if isinstance(reason, RecursionError):
        raise TooDeep from reason
    try:
        mended = strict_copy(body)
        try:
            return _read_strictly(mended)
        except msgspec.ValidationError:
            _skip_value(mended)  # raises if it is no JSON at all
            raise NotAnObject("not a JSON object") from None
    except RecursionError as exc:
        raise TooDeep from exc
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise NotJson(f"not JSON: {exc}") from exc


def strict_copy(body: bytes) -> bytearray:
    """Return a copy of a body that a strict parser reads, if `load_json` would read the body.

    Raises NotJson or UnicodeDecodeError for some of the others.
    """
    return _mended(_as_utf8(body))


def _as_utf8(body: bytes) -> bytes:
    """Return a body without its byte order mark, and as UTF-8 if it is UTF-16 or UTF-32, as Python's json does."""
    encoding = json.detect_encoding(body)
    if encoding.startswith("utf-8"):
        return body.removeprefix(_BOM)
    return body.decode(encoding, "surrogatepass").encode("utf-8", "surrogatepass")


def _mended(body: bytes) -> bytearray:
    """Return a copy that a strict parser reads: without lone surrogates, and with zeros for NaN and Infinity.

    Each is replaced by as many bytes. It goes piece by piece: what lies between millions of them takes far more
    memory than the body.
    """
    if b"\xff" in body:
        raise NotJson("not UTF-8")
    copy = bytearray(body)
    has_numbers = b"NaN" in body or b"Infinity" in body
    in_text = False
    for start, end in _pieces(body):
        piece = body[start:end].replace(rb"\\", _BACKSLASH)
        piece = _ENCODED_SURROGATE.sub(_ENCODED_REPLACEMENT, _LONE_SURROGATE.sub(_REPLACEMENT, piece))
        if has_numbers:
            parts = piece.replace(rb"\"", _QUOTE).split(b'"')
            if outside := b'"'.join(parts[in_text::2]):
                parts[in_text::2] = _INFINITY.sub(b"0.000000", _NAN.sub(b"0.0", outside)).split(b'"')
            in_text ^= len(parts) % 2 == 0
            piece = b'"'.join(parts).replace(_QUOTE, rb"\"")
        copy[start:end] = piece.replace(_BACKSLASH, rb"\\")
    return copy


def _pieces(body: bytes) -> Iterator[tuple[int, int]]:
    """Return starts and ends of pieces. They cut no character, no escape, no pair of surrogates and no number."""
    start = 0
    while start < len(body):
        end = start + _SMALL
        before = body[start:end]
        backslashes = len(before) - len(before.rstrip(b"\\"))
        rest = _REST_OF_WORD.match(body, end + backslashes % 2)
        end = rest.end() if rest else len(body)
        yield start, end
        start = end


def _require_utf8(body: bytes | bytearray) -> None:
    """Raise UnicodeDecodeError for what is no UTF-8; piece by piece, since the text may need much memory."""
    if body.isascii():
        return
    decoder = codecs.getincrementaldecoder("utf-8")()
    for start in range(0, len(body), _CHUNK):
        decoder.decode(body[start : start + _CHUNK])
    decoder.decode(b"", final=True)
