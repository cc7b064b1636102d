"""Personal data out of texts, for `redactPII`: by patterns, so names of people stay."""

import re

_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@(?:[\w-]{1,63}\.){1,8}[A-Za-z]{2,24}(?![\w-])")
_CARD = re.compile(r"(?<![\d-])\d(?:[ -]?\d){12,18}(?![\d-])")
_SSN = re.compile(r"(?<![\d-])\d{3}-\d{2}-\d{4}(?![\d-])")
_IBAN = re.compile(r"(?<!\w)[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?!\w)")
_PHONE = re.compile(r"(?<![\w/.-])(?:\+|00)[1-9][\d ()/.-]{6,20}\d(?!\w)|(?<![\w/.-])\(\d{3}\) ?\d{3}-\d{4}(?!\w)")


def redact(text: str) -> str:
    """Return the text with marks in place of e-mail addresses and the numbers of cards, banks, people and phones.

    Phone numbers are found if they begin with a country code or are written as in the United States.
    """
    text = _EMAIL.sub("<EMAIL>", text)
    text = _CARD.sub(lambda found: "<CARD>" if _is_card(found[0]) else found[0], text)
    text = _SSN.sub("<SSN>", text)
    text = _IBAN.sub("<IBAN>", text)
    return _PHONE.sub("<PHONE>", text)


def _is_card(text: str) -> bool:
    """Tell whether digits have the check digit of a payment card (ISO/IEC 7812-1, annex B)."""
    digits = [int(character) for character in reversed(text) if character.isdigit()]
    doubled = [digit if at % 2 == 0 else sum(divmod(2 * digit, 10)) for at, digit in enumerate(digits)]
    return sum(doubled) % 10 == 0 and len(set(digits)) > 1
