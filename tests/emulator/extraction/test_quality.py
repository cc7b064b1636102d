"""The rules find nearly all that stands on the made pages, and nearly nothing else."""

import pytest

from tests.emulator.extraction.made import PAGES
from tests.emulator.extraction.made.unseen import UNSEEN
from tests.emulator.extraction.quality import Score, leaves, measured, score, total


async def test_the_made_pages_are_read_well() -> None:
    """The guide has these figures. A change that makes them worse has to say so there."""
    scores = await measured()
    every = total(list(scores.values()))

    assert len(scores) == len(PAGES) == 40
    assert every.expected > 250
    assert (every.precision, every.recall) >= (0.99, 0.98)


async def test_pages_made_after_the_rules_are_read_nearly_as_well() -> None:
    every = total(list((await measured(UNSEEN)).values()))

    assert every.precision >= 0.98
    assert every.recall >= 0.9


@pytest.mark.parametrize("name", ["nothing of it", "text without data"])
async def test_nothing_is_invented(name: str) -> None:
    """These pages have numbers, names and years, and none of them is what was asked for."""
    pages = [page for page in (*PAGES, *UNSEEN) if page.name == name]
    (one,) = (await measured(pages)).values()

    assert one.found == one.right


def test_scores_compare_values_one_by_one() -> None:
    expected = {"a": 1, "b": [{"n": "x", "p": 2}, {"n": "y", "p": None}], "c": None}

    assert score(expected, {"a": 1, "b": [{"n": "Y", "p": 3}, {"n": "x", "p": 2}], "c": 5}) == Score(4, 6, 4)
    assert score(expected, None) == Score(4, 0, 0)
    assert list(leaves(["A  b", "c"])) == [("[]", "a b"), ("[]", "c")]
