"""Texts for people and for stores."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.text import (
    counted,
    did_you_mean,
    escape_controls,
    escape_controls_in_json,
    first_of,
    resembling,
    short_id,
    shortened,
    storable,
)


@pytest.mark.parametrize(
    ("number", "noun", "expected"),
    [
        (0, "event", "0 events"),
        (1, "event", "1 event"),
        (12_000, "work item", "12,000 work items"),
        (2, "delivery", "2 deliveries"),
    ],
)
def test_nouns_are_counted(number: int, noun: str, expected: str) -> None:
    """With commas in large numbers."""
    assert counted(number, noun) == expected


@pytest.mark.parametrize(
    ("outside", "expected"),
    [("naïve", "naïve"), ("a\x1b[2Jb", "a\\x1b[2Jb"), ("a\nb", "a\\nb"), ("\ud800", "\\ud800"), ("", "")],
)
def test_text_from_outside_steers_no_terminal(outside: str, expected: str) -> None:
    """Printable characters stay; others become escapes."""
    assert escape_controls(outside) == expected


def test_some_controls_may_stay() -> None:
    """As the ends of lines in a traceback."""
    assert escape_controls("a\n\x07", keep="\n") == "a\n\\x07"


@given(st.recursive(st.none() | st.text(), lambda one: st.lists(one) | st.dictionaries(st.text(), one)))
def test_json_for_a_terminal_has_the_same_value(value: object) -> None:
    """And no character that could steer the terminal, whichever characters JSON itself lets through."""
    written = json.dumps(value, ensure_ascii=False)

    escaped = escape_controls_in_json(written)

    assert escaped.isprintable()
    assert json.loads(escaped) == value


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ('"é 😀"', '"é 😀"'),
        ('"\x9b2J\x7f"', '"\\u009b2J\\u007f"'),
        ('"\u202e"', '"\\u202e"'),
        ('"\U000e0001"', '"\\udb40\\udc01"'),
    ],
)
def test_json_for_a_terminal_has_escapes(written: str, expected: str) -> None:
    """In two units for a character beyond 16 bits; printable characters stay."""
    assert escape_controls_in_json(written) == expected


def test_stores_take_every_storable_text() -> None:
    """SQLite takes no lone surrogate, and PostgreSQL no NUL."""
    assert storable("é\ud800\0") == "é\\ud800\\x00"


def test_a_longer_text_is_cut() -> None:
    """With a mark."""
    assert shortened("abcdef", 3) == "abc…"
    assert shortened("abc", 3) == "abc"


def test_the_first_names_are_listed() -> None:
    """With a mark if there are more."""
    assert first_of(["a", "b"], 2) == "a, b"
    assert first_of(["a", "b", "c"], 2) == "a, b, …"


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], ""),
        (["a"], "; did you mean a?"),
        (["a", "b"], "; did you mean a or b?"),
        (["a", "b", "c"], "; did you mean a, b or c?"),
    ],
)
def test_a_hint_names_what_is_near(names: list[str], expected: str) -> None:
    """It is empty if nothing is near."""
    assert did_you_mean(names) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("crawl.pge", ["crawl.page"]),
        ("craw.completd", ["crawl.completed"]),
        ("crawl.p", ["crawl.page"]),
        ("agent.page", ["crawl.page"]),
        ("pge", []),
        ("", []),
    ],
)
def test_a_hint_leaves_out_what_is_less_near(name: str, expected: list[str]) -> None:
    """One clear answer is better than three guesses."""
    assert resembling(name, ["crawl.page", "crawl.failed", "crawl.completed"]) == expected


def test_a_hint_names_all_that_are_equally_near() -> None:
    """Nobody knows which one was meant."""
    assert sorted(resembling("page", ["pages", "paged", "agent"])) == ["paged", "pages"]


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("3c6ef362-1c2d-4e5f-8a9b-0c1d2e3f4a5b", "3c6ef362"),
        ("sha256:" + "ab" * 32, "sha256:abababab"),
        ("every:handlers.report:2026-11-22T09:00:00Z", "every:handlers.report:2026-11-22T09:00:00Z"),
        ("short", "short"),
    ],
)
def test_an_id_is_shortened(key: str, expected: str) -> None:
    """To as much as people need to tell it from others."""
    assert short_id(key) == expected
