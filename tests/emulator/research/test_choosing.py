"""Links that are worth a look."""

import pytest

from receiver.emulator.research.choosing import (
    candidates,
    links_in,
    names_in_schema,
    score_of,
    wanted_words,
    words_of_properties,
)

HOME = "https://acme.test/"


def test_the_words_of_a_wish_are_those_of_its_prompt_and_schema_and_what_leads_there() -> None:
    words = wanted_words("Find the phone number of the company", ["foundedYear"])

    assert {"phone", "number", "company", "founded", "year", "contact", "about"} <= words
    assert not {"find", "the", "of"} & words


def test_names_stand_at_every_level_of_a_schema() -> None:
    inner = {"type": "array", "items": {"properties": {"price": {}}}}
    assert names_in_schema({"properties": {"plans": inner, "name": {}}}) == ["plans", "price", "name"]
    assert names_in_schema({"properties": 5, "items": []}) == []


@pytest.mark.parametrize(
    ("url", "text", "score"),
    [
        ("https://acme.test/contact", "", 1),
        ("https://acme.test/x", "Contact us", 2),
        ("https://acme.test/contact", "Contact", 2),
        ("https://acme.test/contact/phone", "Contact", 3),
        ("https://acme.test/x?page=phone", "", 1),
        ("https://acme.test/%63ontact", "", 1),
        ("https://acme.test/legal", "Legal", 0),
        ("https://contact.test/", "", 0),
    ],
)
def test_a_link_counts_by_the_words_in_it(url: str, text: str, score: int) -> None:
    assert score_of(url, text, frozenset({"contact", "phone"})) == score


def test_only_links_of_the_same_site_are_chosen_and_the_best_come_first() -> None:
    links = {
        "https://acme.test/phone": "",
        "https://shop.acme.test/contact": "Contact and phone",
        "https://other.test/contact": "Contact",
        "https://acme.test/legal": "Legal",
        "mailto:contact@acme.test": "Contact",
        "https://[broken/contact": "Contact",
    }
    words = frozenset({"contact", "phone"})

    assert [one.url for one in candidates(HOME, links, words)] == [
        "https://shop.acme.test/contact",
        "https://acme.test/phone",
    ]
    assert [one.url for one in candidates(HOME, links, words, external=True)] == ["https://other.test/contact"]


def test_texts_of_links_come_from_the_markdown() -> None:
    markdown = "[Contact](https://acme.test/c) ![Logo](https://acme.test/logo.png) [a](https://acme.test/c)"

    assert links_in(markdown, ["https://acme.test/c", "https://acme.test/d"]) == {
        "https://acme.test/c": "Contact a",
        "https://acme.test/d": "",
    }


def test_properties_have_the_words_of_their_names_and_descriptions() -> None:
    inner = {"type": "array", "items": {"properties": {"price": {"description": "What it costs a month"}}}}
    found = words_of_properties({"properties": {"plans": inner, "name": True, "odd": {"description": 5}}})

    assert list(found) == ["plans", "price", "name", "odd"]
    assert {"price", "cost", "month", "pricing"} <= found["price"]
    assert words_of_properties({"properties": 5, "items": []}) == {}


def test_a_link_to_something_missing_comes_first() -> None:
    links = {"https://acme.test/phone/contact": "Contact and phone", "https://acme.test/founders": "Founders"}
    missing = {"founder": frozenset({"founder"})}

    first, second = candidates(HOME, links, frozenset({"contact", "phone"}), missing=missing)
    assert (first.url, first.leads_to) == ("https://acme.test/founders", ("founder",))
    assert second.leads_to == ()
