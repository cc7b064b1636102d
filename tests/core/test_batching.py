"""So many items or so many bytes."""

import pytest

from receiver.core.batches import BatchSize, batches, first_batch


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], []),
        ([1, 1, 1, 1], [[1, 1, 1], [1]]),
        ([4, 4, 4], [[4, 4], [4]]),
        ([5, 5, 1], [[5, 5], [1]]),
        ([99], [[99]]),
        ([1, 99, 1], [[1], [99], [1]]),
    ],
)
def test_items_are_split_into_batches(sizes: list[int], expected: list[list[int]]) -> None:
    """At most three items and ten bytes in each; an item that is larger comes alone."""
    assert list(batches(sizes, 3, 10, lambda size: size)) == expected
    assert first_batch(sizes, 3, 10, lambda size: size) == (expected[0] if expected else [])


def test_no_item_fits_where_none_is_wanted() -> None:
    """Not even the first."""
    assert first_batch([1], 0, 10, lambda size: size) == []


def test_what_does_not_fit_is_not_counted() -> None:
    """A smaller item may still fit."""
    taken = BatchSize(3, 10)

    assert [taken.take(size) for size in (6, 6, 4)] == [True, False, True]
    assert (taken.items, taken.bytes) == (2, 10)
