"""The format of bundles: a header and one line per delivery; how a bundle is packed, written and read.

Reading and writing need bounded memory. A reader yields damage in its place, and continues with the next delivery:
in gzip with many members (RFC 1952, section 2.2) damage to one leaves the others readable.
"""

import base64
import hashlib
import re
import zlib
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import IO, Annotated, Literal, NamedTuple

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, FailFast, Field, ValidationError
from pydantic_core import PydanticCustomError, to_json

from receiver.core.deliveries import Delivery
from receiver.core.envelope import PLAIN_ID, readable
from receiver.core.schedules import RUN_KEY_PREFIX
from receiver.core.text import plain_reason
from receiver.core.types import DeliveryKey
from receiver.errors import NoBundle, ReceiverError

CHUNK = 2**16
_SLICE = 2**13
"""Bytes that zlib gets at once. It copies the bytes after the end of a member, so they must be few."""
_GZIP = 31
"""Makes zlib read and write the gzip format (zlib manual, deflateInit2 and inflateInit2)."""
_LEVEL = 3
"""Half again as fast as level 4 and 6 % larger, and three times as fast as level 6; measured on pages of 2 KB."""
_BEGINNING = bytes([0x1F, 0x8B, 8, 0, 0, 0, 0, 0])
"""The first bytes of each member: no name and no time: the same content gives the same file."""
_MAGIC = _BEGINNING[:2]


class Gap(Enum):
    """A place where unpacked data may be missing."""

    DAMAGED = "the compressed data is damaged here, so lines may be missing"
    CUT = "the compressed data ends too early"


def packed(data: bytes) -> bytes:
    """Return the data as one member."""
    packing = zlib.compressobj(_LEVEL, wbits=_GZIP)
    return packing.compress(data) + packing.flush()


class Unpacked:
    """The content of a file, piece by piece, and gaps where data may be missing. It need not be packed.

    It can be iterated once. `bytes_read` counts the bytes of the file. Raises ReceiverError if the file cannot be
    read.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self.bytes_read = 0
        self._stream = stream

    def __iter__(self) -> Iterator[bytes | Gap]:
        """Yield the pieces and the gaps."""
        unpacking: _Unpacking | None = None
        for chunk in iter(self._chunk, b""):
            if self.bytes_read == 0 and chunk.startswith(_MAGIC):
                unpacking = _Unpacking()
            self.bytes_read += len(chunk)
            if unpacking is None:
                yield chunk
            else:
                yield from unpacking.feed(chunk)
        if unpacking is not None and unpacking.is_cut():
            yield Gap.CUT

    def _chunk(self) -> bytes:
        try:
            return self._stream.read(CHUNK)
        except OSError as exc:
            what = "the rest of the bundle" if self.bytes_read else "the bundle"
            raise ReceiverError(f"cannot read {what}: {exc.strerror or exc}") from exc


class _Unpacking:
    """Unpacks one member after the other. After damage it continues with the next member that this program wrote.

    zlib often notices damage late, so the search for the next member goes back a little. After damage to a member
    that was found in this way, the search does not go back. So each byte is unpacked at most twice, however many
    members begin within one another.
    """

    def __init__(self) -> None:
        self._member: zlib._Decompress | None = None
        """The member that has begun and has not ended."""
        self._went_back = False
        """Whether that member begins within another one that was damaged."""
        self._lost = False
        """Whether damage has been reported and the next member is not found yet."""
        self._unread = b""

    def is_cut(self) -> bool:
        """Return whether the data ends too early."""
        return self._member is not None or (bool(self._unread) and not self._lost)

    def feed(self, chunk: bytes) -> Iterator[bytes | Gap]:
        """Yield the data that can be unpacked now."""
        data, self._unread = self._unread + chunk, b""
        at = seen = 0
        is_full = False
        while at < len(data) or is_full:
            if self._member is None:
                at = yield from self._begin(data, at)
                self._went_back = at < seen
                continue
            part = data[at : at + _SLICE]
            before = self._member.copy()
            try:
                plain = self._member.decompress(part, CHUNK)
            except zlib.error:
                plain, whole = _salvaged(before, part)
                yield plain
                yield Gap.DAMAGED
                seen = max(seen, at + whole)
                at += 1 + (whole if self._went_back else 0)
                self._member, self._lost, is_full = None, True, False
                continue
            yield plain
            if self._member.eof:
                at += len(part) - len(self._member.unused_data)
                self._member, is_full = None, False
            else:
                at += len(part) - len(self._member.unconsumed_tail)
                is_full = len(plain) == CHUNK

    def _begin(self, data: bytes, at: int) -> Generator[Gap, None, int]:
        """Begin the next member; return its place, or the end of the data if it does not begin there."""
        if not self._lost and len(data) - at < len(_MAGIC):
            self._unread = data[at:]
            return len(data)
        if not self._lost and not data.startswith(_MAGIC, at):
            self._lost = True
            yield Gap.DAMAGED
        start = data.find(_BEGINNING, at) if self._lost else at
        if start < 0:
            self._unread = data[max(at, len(data) - len(_BEGINNING) + 1) :]
            return len(data)
        self._member, self._lost = zlib.decompressobj(wbits=_GZIP), False
        return start


def _salvaged(member: "zlib._Decompress", data: bytes) -> tuple[bytes, int]:
    """Return the unpacked data before the damage, and the number of bytes that it was packed in.

    A binary search finds the damage, so that all attempts together read the data once.
    """
    plain: list[bytes] = []
    whole, end = 0, len(data)
    while end - whole > 1:
        middle = (whole + end) // 2
        trial = member.copy()
        try:
            plain.append(trial.decompress(data[whole:middle]))
        except zlib.error:
            end = middle
        else:
            member, whole = trial, middle
    return b"".join(plain), whole


VERSION = 2
MORE_THAN_BODY = 2**20
"""The most bytes of a line beside its body: headers, which the server limits, and the other fields."""
MAX_HEADERS = 2**16
MAX_DUPLICATES = 2**31 - 1
"""A store adds the duplicates of many deliveries, and the sum has to fit in 64 bits."""

_SHA256 = "sha256:"
_FIRST, _BEHIND_LAST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)


class NoDelivery(Exception):
    """A line is not a delivery. The text says why, and may be shown."""


def _in_utc(moment: datetime) -> datetime:
    """Return a moment in UTC. Near the ends of the calendar, a change of its zone would overflow."""
    if not _FIRST <= moment < _BEHIND_LAST:
        raise PydanticCustomError("moment", "Input should be between the years 1970 and 8999")
    return moment.astimezone(UTC)


_Moment = Annotated[AwareDatetime, AfterValidator(_in_utc)]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, hide_input_in_errors=True)


class _Kind(_Strict):
    format: Literal["crawl-receiver bundle"]
    version: int = Field(ge=1)


class Header(_Kind):
    """The first line: when the bundle was made, how many deliveries it has, and whether it is redacted."""

    format: Literal["crawl-receiver bundle"] = "crawl-receiver bundle"
    version: int = VERSION
    made_at: _Moment
    count: int = Field(ge=0, lt=2**63)
    redacted: bool = False


class _Line(_Strict):
    id: Annotated[str, Field(max_length=200)]
    type: str
    job_id: str | None
    webhook_id: str | None
    success: bool | None
    received_at: _Moment
    duplicates: int = Field(ge=0, le=MAX_DUPLICATES)
    headers: Annotated[list[tuple[str, str]], Field(max_length=MAX_HEADERS), FailFast()]
    sha256: str
    redacted: bool = False
    body: str | None = None
    body_base64: str | None = None


def longest_line(max_body: int) -> int:
    """Return the most bytes of a line whose body has at most `max_body` bytes."""
    return 2 * max_body + MORE_THAN_BODY


def header_line(header: Header) -> bytes:
    """Return the first line, with its line feed."""
    return to_json(header.model_dump() | {"made_at": _written(header.made_at)}) + b"\n"


def delivery_line(delivery: Delivery, duplicates: int) -> bytes:
    """Return the line of a delivery, with its line feed; the same delivery gives the same bytes.

    A body in UTF-8 is written as text, unless escapes make it more than twice as long. Others are base64.
    """
    digest = hashlib.sha256(delivery.body).hexdigest()
    fields = {
        "id": delivery.key,
        "type": delivery.type,
        "job_id": delivery.job_id,
        "webhook_id": delivery.webhook_id,
        "success": delivery.success,
        "received_at": _written(delivery.received_at),
        "duplicates": duplicates,
        "headers": tuple(delivery.headers),
        "sha256": digest,
    }
    if delivery.key.startswith(_SHA256) and delivery.key != _SHA256 + digest:
        fields["redacted"] = True
    start = to_json(fields)[:-1]
    return start + _body_fields(delivery.body) + b"}\n"


def parse_header(line: bytes) -> Header:
    """Return the header of a bundle, or raise NoBundle."""
    try:
        version = _Kind.model_validate_json(line).version
        if version != VERSION:
            raise NoBundle(f"a bundle of version {version}, and this program reads version {VERSION}")
        return Header.model_validate_json(line)
    except ValidationError as exc:
        raise NoBundle(f"not a bundle: its first line is not a header ({_complaint(exc)})") from None


def parse_delivery(line: bytes) -> tuple[Delivery, int]:
    """Return the delivery of a line and its duplicates, or raise NoDelivery.

    The delivery is as it was stored: its body has the SHA-256 of the line, and its id matches. It is no scheduled
    run.
    """
    try:
        fields = _Line.model_validate_json(line)
    except ValidationError as exc:
        raise NoDelivery(_complaint(exc)) from None
    body = _body(fields)
    digest = hashlib.sha256(body).hexdigest()
    if digest != fields.sha256:
        raise NoDelivery("its body does not have the SHA-256 of the line")
    _check(fields, digest)
    delivery = Delivery(
        key=DeliveryKey(fields.id),
        type=fields.type,
        job_id=fields.job_id,
        webhook_id=fields.webhook_id,
        success=fields.success,
        received_at=fields.received_at,
        headers=tuple(fields.headers),
        body=body,
    )
    return delivery, fields.duplicates


def _written(when: datetime) -> str:
    return when.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _body_fields(body: bytes) -> bytes:
    try:
        text = to_json(body.decode())
    except UnicodeDecodeError:
        text = b""
    if text and len(text) <= 2 * len(body) + 2:
        return b',"body":' + text
    return b',"body_base64":"' + base64.b64encode(body) + b'"'


def _body(fields: _Line) -> bytes:
    if (fields.body is None) == (fields.body_base64 is None):
        raise NoDelivery("it needs either body or body_base64")
    if fields.body_base64 is None:
        return (fields.body or "").encode()
    try:
        return base64.b64decode(fields.body_base64, validate=True)
    except ValueError:
        raise NoDelivery("body_base64: not base64") from None


def _check(fields: _Line, digest: str) -> None:
    """Raise NoDelivery for values that no store has: other programs write bundles too, and people edit them.

    No scheduled run is read either: a store that had its id would never make that run itself.
    """
    if fields.id.startswith(RUN_KEY_PREFIX):
        raise NoDelivery("its id is that of a scheduled run: each store makes its own, and takes none from a file")
    if fields.id.startswith(_SHA256):
        fits = fields.redacted or fields.id == _SHA256 + digest
    else:
        fits = fields.id == fields.webhook_id and PLAIN_ID.fullmatch(fields.id) is not None
    if not fits:
        raise NoDelivery("its id matches neither its body nor its webhook_id")
    for text in (fields.type, fields.job_id, fields.webhook_id):
        if text is not None and (not text or readable(text) != text):
            raise NoDelivery("type, job_id or webhook_id has control characters, is empty, or is too long")
    headers = "".join(map("".join, fields.headers))
    if not headers.isascii() and max(headers) > "\xff":
        raise NoDelivery("headers: not Latin-1")


def _complaint(exc: ValidationError) -> str:
    """Return the first complaint, without the value."""
    error = exc.errors(include_url=False, include_input=False)[0]
    if error["type"] == "json_invalid":
        return "not JSON"
    return f"{'.'.join(str(step) for step in error['loc']) or 'the line'}: {plain_reason(error)}"


MAX_SKIPPED = 64 * 1024 * 1024
"""Bytes of empty and of too long lines that every file may have."""
MAX_RATIO = 100
"""More such bytes for each byte of the file. Events have no limit: redacted ones pack much better."""
_BLANK = re.compile(rb"\s*\n")


@dataclass(frozen=True, slots=True)
class Damage:
    """Damage in a file: the number of the line, counted from 1, and the reason why the line is not read.

    In a gap any number of lines may be missing.
    """

    line: int
    reason: str
    is_gap: bool = False


class BundleLine(NamedTuple):
    """A line with its number, without its line feed. `ended` is False for a last line that has no line feed."""

    number: int
    text: bytes
    ended: bool


def lines_of(pieces: Unpacked, *, longest: int) -> Iterator[BundleLine | Damage]:
    """Yield every line that is not empty, or the damage in its place.

    The lines missing in a gap are not counted. If very many bytes hold no event, the rest of the file is not read.
    """
    cutting = _Cutting(longest)
    for piece in pieces:
        if isinstance(piece, Gap):
            yield Damage(cutting.number, piece.value, is_gap=True)
            cutting.drop_rest()
            continue
        yield from cutting.feed(piece)
        if cutting.skipped > MAX_SKIPPED + MAX_RATIO * pieces.bytes_read:
            reason = f"{cutting.skipped:,} bytes hold no event, so the rest of the file is not read"
            yield Damage(cutting.number, reason, is_gap=True)
            return
    if last := cutting.line(ended=False):
        yield last


class _Cutting:
    def __init__(self, longest: int) -> None:
        self.number = 1
        self.skipped = 0
        """Bytes of empty and of too long lines."""
        self._longest = longest
        self._parts: list[bytes] = []
        self._length = 0

    def feed(self, piece: bytes) -> Iterator[BundleLine | Damage]:
        """Yield the lines that end in this piece. Damage is yielded as soon as a line is too long."""
        start = 0
        while True:
            if self._length == 0 and (blank := _BLANK.match(piece, start)):  # not one by one: there can be millions
                self.number += piece.count(b"\n", start, blank.end())
                self.skipped += blank.end() - start
                start = blank.end()
            end = piece.find(b"\n", start)
            if damage := self._add(piece[start:] if end < 0 else piece[start:end]):
                yield damage
            if end < 0:
                return
            if line := self.line(ended=True):
                yield line
            self.number += 1
            start = end + 1

    def line(self, *, ended: bool) -> BundleLine | None:
        """Return the collected parts as a line, unless it is empty or too long."""
        text, is_too_long = b"".join(self._parts), self._length > self._longest
        self.drop_rest()
        if text and not text.isspace():
            return BundleLine(self.number, text, ended)
        if not is_too_long:
            self.skipped += len(text)
        return None

    def drop_rest(self) -> None:
        """Drop the collected parts."""
        self._parts.clear()
        self._length = 0

    def _add(self, part: bytes) -> Damage | None:
        was_too_long = self._length > self._longest
        self._length += len(part)
        if self._length <= self._longest:
            if part:
                self._parts.append(part)
            return None
        self._parts.clear()
        self.skipped += len(part) if was_too_long else self._length
        if was_too_long:
            return None
        return Damage(
            self.number,
            f"longer than {self._longest:,} bytes, so its body is longer than RECEIVER_MAX_BODY allows",
        )


_PIECE = 2**20


class BundleWriter:
    """Writes a header at once, then one delivery after the other. `finish` writes the rest."""

    def __init__(self, stream: IO[bytes], header: Header, *, pack: bool) -> None:
        self.count = 0
        self._stream = stream
        self._pack = pack
        self._lines = [header_line(header)]
        self._length = 0

    def add(self, delivery: Delivery, duplicates: int) -> None:
        """Write one more delivery. The stream may see it later."""
        line = delivery_line(delivery, duplicates)
        self._lines.append(line)
        self._length += len(line)
        self.count += 1
        if self._length >= _PIECE:
            self.finish()

    def finish(self) -> None:
        """Write everything that was added to the stream."""
        piece = b"".join(self._lines)
        if piece:
            self._stream.write(packed(piece) if self._pack else piece)
        self._lines.clear()
        self._length = 0


MAX_DAMAGED = 10_000
"""The most damaged places, and the most lines beyond the count in the header. Then reading ends."""


class Entry(NamedTuple):
    """A delivery of a bundle, with the count of its duplicates."""

    line: int
    delivery: Delivery
    duplicates: int


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle that is being read. `entries` can be iterated once."""

    header: Header
    entries: Iterator[Entry | Damage]


def read_bundle(stream: IO[bytes], *, max_body: int) -> Bundle:
    """Return the bundle in a file, gzip or not, or raise NoBundle; ReceiverError if the file cannot be read.

    Memory is bounded by the longest body that is allowed, whatever the file contains.
    """
    lines = lines_of(Unpacked(stream), longest=longest_line(max_body))
    match next(lines, None):
        case None:
            raise NoBundle("not a bundle: it is empty")
        case Damage(reason=reason):
            raise NoBundle(f"not a bundle: its first line is not a header ({reason})")
        case BundleLine(text=text):
            header = parse_header(text)
            return Bundle(header, _entries(header, lines))


def _entries(header: Header, lines: Iterator[BundleLine | Damage]) -> Iterator[Entry | Damage]:
    found = damaged = 0
    last = 1
    for line in lines:
        entry = line if isinstance(line, Damage) else _entry(line)
        found += not (isinstance(entry, Damage) and entry.is_gap)
        damaged += isinstance(entry, Damage)
        last = entry.line
        yield entry
        if max(damaged, found - header.count) > MAX_DAMAGED:
            what = "places are damaged" if damaged > MAX_DAMAGED else "lines are not in the header's count"
            yield Damage(last, f"more than {MAX_DAMAGED:,} {what}, so the rest of the file is not read")
            return
    if found != header.count:
        yield Damage(last, f"the header counts {header.count:,} deliveries, and {found:,} lines came")


def _entry(line: BundleLine) -> Entry | Damage:
    try:
        delivery, duplicates = parse_delivery(line.text)
    except NoDelivery as exc:
        return Damage(line.number, str(exc) if line.ended else f"the file ends within this line ({exc})")
    return Entry(line.number, delivery, duplicates)
