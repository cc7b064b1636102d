"""The languages that a page is asked for in."""

import pytest

from receiver.emulator.fetching.fetcher import accept_language


@pytest.mark.parametrize(
    ("country", "languages", "header"),
    [
        ("US", (), "en-US,en;q=0.9"),
        ("at", (), "de-AT,de;q=0.9"),
        ("AQ", (), ""),
        ("US", ("fr-CA", "fr", "*"), "fr-CA,fr;q=0.9,*;q=0.8"),
        ("US", ("no language", "de\r\nX: 1", "it"), "it"),
        ("US", tuple("abcdefghijkl"), "a,b;q=0.9,c;q=0.8,d;q=0.7,e;q=0.6,f;q=0.5,g;q=0.4,h;q=0.3,i;q=0.2,j;q=0.1"),
    ],
)
def test_languages_come_before_that_of_the_country(country: str, languages: tuple[str, ...], header: str) -> None:
    assert accept_language(country, languages) == header
