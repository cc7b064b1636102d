"""Durations as people write them."""

from datetime import timedelta

import pytest

from receiver.core.durations import parse_duration


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("30s", timedelta(seconds=30)),
        ("5m", timedelta(minutes=5)),
        ("2h", timedelta(hours=2)),
        ("7d", timedelta(days=7)),
        ("8w", timedelta(weeks=8)),
        ("1h30m", timedelta(minutes=90)),
        ("0d", timedelta(0)),
    ],
)
def test_a_duration_is_numbers_with_units(written: str, expected: timedelta) -> None:
    """Several parts are added up."""
    assert parse_duration(written) == expected


@pytest.mark.parametrize("written", ["", "1", "d", "1 d", "1y", "-1d", "1.5d", "\u0661d", "9" * 30 + "d"])
def test_anything_else_is_refused(written: str) -> None:
    """The message repeats it."""
    with pytest.raises(ValueError, match=r"is not a duration|is too long"):
        parse_duration(written)
