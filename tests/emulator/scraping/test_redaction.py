"""Personal data are taken out by their form, and nothing else is."""

import pytest

from receiver.emulator.scraping.document import redact


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("Mail ann.b+c@mail.example.com.", "Mail <EMAIL>."),
        ("Pay with 4111 1111 1111 1111 now", "Pay with <CARD> now"),
        ("Order 4111 1111 1111 1112", "Order 4111 1111 1111 1112"),
        ("SSN 078-05-1120", "SSN <SSN>"),
        ("IBAN DE89 3704 0044 0532 0130 00", "IBAN <IBAN>"),
        ("ApiCall +44 20 7946 0958 or (212) 555-0123", "ApiCall <PHONE> or <PHONE>"),
        ("In 2026-08-04 we sold 12,345 bikes for 1.299,00 €", "In 2026-08-04 we sold 12,345 bikes for 1.299,00 €"),
        ("Version 1.2.3 at https://a.example/b?c=1", "Version 1.2.3 at https://a.example/b?c=1"),
        ("not@an-address, @handle, 0000000000000000", "not@an-address, @handle, 0000000000000000"),
    ],
)
def test_personal_data_become_marks(text: str, redacted: str) -> None:
    assert redact(text) == redacted


@pytest.mark.parametrize("text", ["a" * 200_000, "a." * 100_000, "1 " * 100_000, "+1" * 100_000, "x@" * 100_000])
def test_hostile_texts_are_redacted_too(text: str) -> None:
    """The patterns have bounds, so that no text makes them try again and again."""
    assert isinstance(redact(text), str)
