"""Makes a delivery from the headers and body of an authenticated request, and reads the sender's kind of JSON."""

import codecs
import hashlib
import json
import re
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from typing import Any

import msgspec
from pydantic_core import from_json

from receiver.core.deliveries import Delivery
from receiver.core.schedules import RUN_KEY_PREFIX
from receiver.core.text import escape_controls
from receiver.core.types import DeliveryKey, Headers
from receiver.errors import Malformed


class NotJson(ValueError):
    """Neither parser can read the bytes as JSON."""


class TooDeep(NotJson):
    """Values are nested deeper than both parsers go. The rest was not read: the bytes may still be JSON."""

    def __init__(self) -> None:
        super().__init__("nested too deeply to be read")


def load_json(body: bytes) -> Any:
    """Return the value of a JSON text, or raise NotJson.

    The fast parser refuses some texts that this sender can write: a lone surrogate written as an escape (legal by
    RFC 8259, section 8.2; JSON.stringify writes it for a string that was cut inside a pair), nesting past its own
    limit, and integers of thousands of digits. The standard library reads them, down to about a thousand levels;
    such an integer is returned as text. Deeper nesting raises TooDeep.
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
    """Return an integer, or its digits if Python refuses to convert that many (sys.set_int_max_str_digits)."""
    try:
        return int(digits)
    except ValueError:
        return digits


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
    """The bytes are JSON, but not an object."""


class _Fields(msgspec.Struct):
    type: msgspec.Raw = msgspec.Raw()
    id: msgspec.Raw = msgspec.Raw()
    jobId: msgspec.Raw = msgspec.Raw()  # noqa: N815 - the service's own name
    webhookId: msgspec.Raw = msgspec.Raw()  # noqa: N815 - likewise
    success: msgspec.Raw = msgspec.Raw()


class EnvelopeFields(msgspec.Struct):
    """The fields of an envelope that matter here: None for an absent field, and for arrays and objects."""

    type: Any = None
    id: Any = None
    jobId: Any = None  # noqa: N815 - the service's own name
    webhookId: Any = None  # noqa: N815 - likewise
    success: Any = None


class _UsualFields(EnvelopeFields):
    """The fields with the types that the service sends. Reading these takes a third of the time."""

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

    Time and memory grow with the length of the body, not with the number of values in it. This reads everything
    that `load_json` reads. In a body of more than 64 KiB that is not strict JSON, lone surrogates become U+FFFD.
    Raises NotJson, TooDeep for values nested too deeply to be read, or NotAnObject for other JSON.
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
    """Read a long body that is not strict JSON: `load_json` would build everything in it."""
    if isinstance(reason, RecursionError):
        raise TooDeep from reason
    try:
        mended = strict_copy(body)
        try:
            return _read_strictly(mended)
        except msgspec.ValidationError:
            _skip_value(mended)  # raises if it is not JSON at all
            raise NotAnObject("not a JSON object") from None
    except RecursionError as exc:
        raise TooDeep from exc
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise NotJson(f"not JSON: {exc}") from exc


def strict_copy(body: bytes) -> bytearray:
    """Return a copy that a strict parser can read, of a body that `load_json` can read.

    Raises NotJson or UnicodeDecodeError for some other bodies.
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

    Each is replaced by the same number of bytes, piece by piece: the texts between millions of them would take far
    more memory than the body.
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
    """Yield starts and ends of pieces. None cuts a character, an escape, a pair of surrogates or a number."""
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
    """Raise UnicodeDecodeError if this is not UTF-8. Read in pieces, as the text may take much memory."""
    if body.isascii():
        return
    decoder = codecs.getincrementaldecoder("utf-8")()
    for start in range(0, len(body), _CHUNK):
        decoder.decode(body[start : start + _CHUNK])
    decoder.decode(b"", final=True)


MASK = "***"
_SECRET_HEADERS = frozenset(
    {
        b"authorization",
        b"proxy-authorization",
        b"cookie",
        b"x-api-key",
        b"x-auth-token",
        b"x-firecrawl-signature",
    }
)
PLAIN_ID = re.compile(r"[0-9A-Za-z._:-]{1,200}")
"""Ids that can be keys unchanged: keys appear in URLs, JSON, shells and log lines."""
OWN_PREFIXES = ("sha256:", RUN_KEY_PREFIX)
"""Beginnings of keys made here. A sender that chose such a key could suppress a delivery or a scheduled run."""
MAX_TEXT_LENGTH = 200


def read_envelope(headers: Headers, body: bytes, *, received_at: datetime) -> Delivery:
    """Return the delivery of this request, or raise Malformed if the body is not an envelope of the service.

    An envelope is a JSON object with a `type`; everything else may be missing. The key is `webhookId` if that is
    a plain id that does not begin with one of `OWN_PREFIXES`, and otherwise the SHA-256 of the body.
    """
    try:
        fields = read_fields(body)
    except NotAnObject:
        raise Malformed("the body is not a JSON object") from None
    except TooDeep:
        raise Malformed("the body is nested too deeply to be read") from None
    except NotJson:
        raise Malformed("the body is not JSON") from None
    kind = fields.type
    if not isinstance(kind, str) or not kind:
        raise Malformed("the body has no `type`")
    success = fields.success if isinstance(fields.success, bool) else None
    job_id = _text(fields.id) or _text(fields.jobId)
    webhook_id = _text(fields.webhookId)
    # By position: by name takes twice as long.
    return Delivery(
        _key(fields.webhookId, body), readable(kind), job_id, webhook_id, success, received_at, headers, body
    )


def mask_headers(
    headers: Iterable[tuple[bytes, bytes]],
    also: frozenset[bytes] = frozenset(),
    values: Collection[bytes] = (),
) -> Headers:
    """Return the headers with credentials masked, which are recognized by their names or by their values."""
    return tuple([masked_header(name, value, also, values) for name, value in headers])


def masked_header(
    name: bytes, value: bytes, also: frozenset[bytes] = frozenset(), values: Collection[bytes] = ()
) -> tuple[str, str]:
    """Return one header as text (RFC 9110, section 5.5), masked as `mask_headers` does it."""
    is_secret = name in _SECRET_HEADERS or name in also or any(secret in value for secret in values)
    return name.decode("latin-1"), MASK if is_secret else value.decode("latin-1")


def _key(webhook_id: Any, body: bytes) -> DeliveryKey:
    if isinstance(webhook_id, str) and PLAIN_ID.fullmatch(webhook_id) and not webhook_id.startswith(OWN_PREFIXES):
        return DeliveryKey(webhook_id)
    return DeliveryKey("sha256:" + hashlib.sha256(body).hexdigest())


def _text(value: Any) -> str | None:
    """Return an id as text; a number is an id too."""
    if isinstance(value, str) and value:
        return readable(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63:
        return str(value)
    return None


def readable(text: str) -> str:
    """Return text that every store and terminal accepts: short, without control characters and lone surrogates."""
    if len(text) <= MAX_TEXT_LENGTH and text.isprintable():
        return text
    return escape_controls(text[:MAX_TEXT_LENGTH])[:MAX_TEXT_LENGTH]
