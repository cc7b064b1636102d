"""Reads a bundle: its header, then each delivery, or the damage in its place."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from receiver.core.deliveries import Delivery
from receiver.errors import NoBundle
from receiver.replay.bundles.format import Header, NoDelivery, longest_line, parse_delivery, parse_header
from receiver.replay.bundles.lines import BundleLine, Damage, lines_of
from receiver.replay.bundles.packing import unpacked


@dataclass(frozen=True, slots=True)
class Entry:
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
    """Return the bundle in a file, gzip or not, or raise NoBundle.

    Memory is bounded by the longest body that is allowed, whatever the file contains.
    """
    lines = lines_of(unpacked(stream), longest=longest_line(max_body))
    match next(lines, None):
        case None:
            raise NoBundle("not a bundle: it is empty")
        case Damage(reason=reason):
            raise NoBundle(f"not a bundle: its first line is not a header ({reason})")
        case BundleLine(text=text):
            header = parse_header(text)
            return Bundle(header, _entries(header, lines))


def _entries(header: Header, lines: Iterator[BundleLine | Damage]) -> Iterator[Entry | Damage]:
    found, last = 0, 1
    for line in lines:
        if isinstance(line, Damage):
            found += not line.is_gap
            last = line.line
            yield line
            continue
        found += 1
        last = line.number
        try:
            delivery, duplicates = parse_delivery(line.text)
        except NoDelivery as exc:
            yield Damage(last, str(exc) if line.ended else f"the file ends within this line ({exc})")
        else:
            yield Entry(last, delivery, duplicates)
    if found != header.count:
        yield Damage(last, f"the header counts {header.count:,} deliveries, and {found:,} lines came")
