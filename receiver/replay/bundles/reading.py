"""Reads a bundle: its header, then each delivery, or the damage in its place."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, NamedTuple

from receiver.core.deliveries import Delivery
from receiver.errors import NoBundle
from receiver.replay.bundles.format import (
    BundleLine,
    Damage,
    Header,
    NoDelivery,
    lines_of,
    longest_line,
    parse_delivery,
    parse_header,
)
from receiver.replay.bundles.packing import Unpacked

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
