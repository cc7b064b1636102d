"""The languages that a page is asked for in."""

import pytest

from receiver.service.emulator.fetching.languages import accept_language


@pytest.mark.parametrize(
    ("country", "languages", "header"),
    [
        ("US", (), "en-US,en;q=0.9"),
        ("at", (), "de-AT,de;q=0.9"),
        ("AQ", (), ""),
        ("US", ("fr-CA", "fr", "*"), "fr-CA,fr;q=0.9,*;q=0.8"),
        ("US", ("no language", "de\r\nX: 1", "it"), "it"),
        (
            "US",
            tuple(f"x{number}" for number in range(30)),
            "x0," + ",".join(f"x{n};q={1 - n / 10:.1f}" for n in range(1, 10)),
        ),
    ],
)
def test_languages_come_before_the_one_of_the_country(
    country: str, languages: tuple[str, ...], header: str
) -> None:
    assert accept_language(country, languages) == header
