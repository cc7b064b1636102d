"""Sizes as people write them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.units import MAX_SIZE, WRONG_SIZE, parse_size, written_size


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("0", 0),
        ("1023", 1023),
        ("1B", 1),
        ("500kB", 500_000),
        ("500KB", 500_000),
        ("32MB", 32_000_000),
        ("32mb", 32_000_000),
        ("32MiB", 33_554_432),
        ("32 MiB", 33_554_432),
        ("1.5GiB", 1_610_612_736),
        ("1.5 kB", 1_500),
        ("2TB", 2_000_000_000_000),
        (" 7 ", 7),
    ],
)
def test_a_size_is_a_number_with_a_unit_or_of_bytes(written: str, expected: int) -> None:
    """Units with an i are powers of 1,024, and the others are powers of 1,000."""
    assert parse_size(written) == expected


@pytest.mark.parametrize(
    "written",
    [
        "",
        "MB",
        "-1",
        "32M",
        "32Mi",
        "1e6",
        "1_000",
        "0.5",
        "1.0001kB",
        "12 parsecs",
        "\u0661B",
        "9" * 19 + "TB",
        "9" * 40,
    ],
)
def test_anything_else_is_refused(written: str) -> None:
    """There is one text for all of them. `32M` is refused because programs disagree about it."""
    with pytest.raises(ValueError, match=f"^{re.escape(WRONG_SIZE)}$"):
        parse_size(written)


@pytest.mark.parametrize(
    ("size", "expected"),
    [(0, "0"), (1023, "1023"), (500_000, "500kB"), (33_554_432, "32MiB"), (32_000_000, "32MB")],
)
def test_a_size_is_written_with_the_shortest_unit(size: int, expected: str) -> None:
    """No digit is lost."""
    assert written_size(size) == expected


@given(st.integers(0, MAX_SIZE))
def test_a_written_size_is_read_back_exactly(size: int) -> None:
    """Nothing is rounded."""
    assert parse_size(written_size(size)) == size
