"""Sizes as people write them: `32MB`, `1.5GiB`, or a number of bytes."""

import re
from fractions import Fraction

MAX_SIZE = 2**63 - 1
"""The longest file that a system can have, in bytes."""
WRONG_SIZE = (
    "a size is a number of bytes, or has a unit such as in 500kB, 32MB (32,000,000 bytes) or 32MiB (33,554,432)"
)

# The prefixes of the SI and of IEC 80000-13: https://physics.nist.gov/cuu/Units/binary.html. A bare `M` is refused,
# because it means 10^6 in some programs and 2^20 in others.
_UNITS = {
    "B": 1,
    **{f"{prefix}B": 1_000**power for power, prefix in enumerate("kMGT", start=1)},
    **{f"{prefix}iB": 1_024**power for power, prefix in enumerate("KMGT", start=1)},
}
_BYTES = {unit.lower(): length for unit, length in _UNITS.items()}
_SIZE = re.compile(rf"(\d{{1,19}}(?:\.\d{{1,9}})?) ?({'|'.join(_BYTES)})?", re.ASCII | re.IGNORECASE)

_SHOWN_UNITS = ("bytes", "KB", "MB", "GB", "TB")


def parse_size(written: str) -> int:
    """Return the bytes that a text means. Raises ValueError with one text for everything that is not a size.

    `kB`, `MB`, `GB` and `TB` are powers of 1,000; `KiB`, `MiB`, `GiB` and `TiB` are powers of 1,024. Upper and
    lower case are the same. A number without a unit is in bytes.
    """
    found = _SIZE.fullmatch(written.strip())
    if found is None:
        raise ValueError(WRONG_SIZE)
    size = Fraction(found[1]) * _BYTES[(found[2] or "B").lower()]
    if size.denominator != 1 or size > MAX_SIZE:
        raise ValueError(WRONG_SIZE)
    return int(size)


def written_size(size: int) -> str:
    """Return the shortest exact text of a size: `32MiB`, `500kB`, `1023`."""
    exact = [
        f"{size // length}{unit}" for unit, length in _UNITS.items() if size and size % length == 0 and length > 1
    ]
    return min(exact, key=len, default=str(size))


def shown_size(number: int) -> str:
    """Return a number of bytes in the largest unit that fits, in steps of a thousand: `12 KB`, `3.4 MB`."""
    amount, unit = float(number), 0
    while amount >= 1_000 and unit < len(_SHOWN_UNITS) - 1:
        amount, unit = amount / 1_000, unit + 1
    return f"{amount:.1f} {_SHOWN_UNITS[unit]}" if unit and amount < 10 else f"{amount:.0f} {_SHOWN_UNITS[unit]}"
