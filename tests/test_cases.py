"""The helper that puts many cases into one test runs them all and names the one that fails."""

import inspect

import pytest

from tests.cases import for_each


def test_every_case_runs_and_the_failing_one_is_named() -> None:
    """Cases after a failing one do not run."""
    seen = []

    @for_each(("number", "word"), [(1, "one"), (2, "two"), (3, "three")])
    def check(number: int, word: str) -> None:
        seen.append(word)
        assert number != 2

    with pytest.raises(AssertionError) as caught:
        check()

    assert seen == ["one", "two"]
    assert caught.value.__notes__ == ["in the case {'number': 2, 'word': 'two'}"]


def test_fixtures_are_what_the_cases_do_not_give() -> None:
    """pytest reads them from the signature."""

    @for_each("number", [1])
    def check(number: int, fixture: str) -> None:
        assert fixture == str(number)

    check(fixture="1")
    assert list(inspect.signature(check).parameters) == ["fixture"]


def test_no_cases_are_a_mistake() -> None:
    """A test of an empty list would always pass."""
    with pytest.raises(AssertionError):
        for_each("number", [])
