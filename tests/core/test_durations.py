"""Durations as people write them."""

import re
from datetime import timedelta

import pytest

from receiver.core.units import WRONG_DURATION, parse_duration


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
        ("1.5d", timedelta(hours=36)),
        ("200ms", timedelta(milliseconds=200)),
        ("36500d", timedelta(days=36_500)),
    ],
)
def test_a_duration_is_numbers_with_units(written: str, expected: timedelta) -> None:
    """Several parts are added up."""
    assert parse_duration(written) == expected


@pytest.mark.parametrize(
    "written", ["", "1", "d", "1 d", "1y", "-1d", "\u0661d", "9" * 30 + "d", "36501d", "0.5us", 10, None, []]
)
def test_anything_else_is_refused(written: object) -> None:
    """There is one text for all of them; a number without a unit has an unknown one."""
    with pytest.raises(ValueError, match=f"^{re.escape(WRONG_DURATION)}$"):
        parse_duration(written)
