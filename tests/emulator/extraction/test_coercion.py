"""Values in the types of a schema."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.emulator.extraction.rules import MISSING, as_choice, as_flag, as_number, as_text


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("5", 5),
        ("£1,299.00", 1299),
        ("1.299,00 €", 1299),
        ("1 299,50 kr", 1299.5),
        ("1'299.50 CHF", 1299.5),
        ("1,299", 1299),
        ("1.299", 1.299),
        ("12,5", 12.5),
        ("1,234,567", 1234567),
        ("1.234.567", 1234567),
        ("-3.5", -3.5),
        ("\u22123", -3),
        ("4.5/5", 4.5),
        ("3k users", 3000),
        ("2.5 bn", 2.5e9),
        ("3 kg", 3),
        ("1e3", 1000),
        ("none", None),
        ("", None),
        ("1" * 400, None),
        ("1.2.3", None),
    ],
)
def test_the_number_of_a_text(text: str, number: float | None) -> None:
    found = as_number(text, whole=False)

    assert (None if found is MISSING else found) == number


@pytest.mark.parametrize(
    ("value", "number"), [(True, None), ({"price": "5"}, 5), (["6"], 6), ([], None), (None, None)]
)
def test_the_number_of_other_values(value: Any, number: float | None) -> None:
    found = as_number(value, whole=True)

    assert (None if found is MISSING else found) == number


@pytest.mark.parametrize(
    ("value", "flag"),
    [
        ("Yes", True),
        ("https://schema.org/InStock", True),
        ("http://schema.org/OutOfStock", False),
        ("Sold out", False),
        (1, True),
        (0, False),
        (2, None),
        ("maybe", None),
        ([True], True),
    ],
)
def test_yes_and_no(value: Any, flag: bool | None) -> None:
    found = as_flag(value)

    assert (None if found is MISSING else found) is flag


def test_a_choice_is_found_in_any_spelling() -> None:
    assert as_choice("https://schema.org/NewCondition", ["new-condition", "used"]) == "new-condition"
    assert as_choice(["x", "USED"], ["new", "used"]) == "used"
    assert as_choice("other", ["new", "used"]) is MISSING
    assert as_choice(None, [None]) is MISSING
    assert as_choice("5", [5]) == 5


def test_a_text_is_that_of_an_objects_name() -> None:
    assert as_text({"@type": "Brand", "name": "Acme"}, {}, "") == "Acme"
    assert as_text(["a", "b"], {}, "") == "a, b"
    assert as_text("/a", {"format": "uri"}, "https://shop.example/x") == "https://shop.example/a"
    assert as_text({}, {}, "") is MISSING


@given(st.text())
def test_any_text_is_tried(text: str) -> None:
    for found in (
        as_number(text, whole=True),
        as_number(text, whole=False),
        as_flag(text),
        as_choice(text, [text]),
    ):
        assert found is not None
