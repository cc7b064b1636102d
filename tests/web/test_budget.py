"""Tests of the bytes that may be in flight, in all and for one request."""

import pytest

from receiver.errors import Overloaded, TooLarge
from receiver.web.intake import Admission, Budget


def test_a_budget_gives_only_free_bytes() -> None:
    """A request for too many bytes takes none."""
    budget = Budget(10)
    budget.take(10)
    with pytest.raises(Overloaded):
        budget.take(1)
    budget.give(4)
    with pytest.raises(Overloaded):
        budget.take(5)
    budget.take(4)


def free_bytes(budget: Budget) -> int:
    """Return the free bytes of a budget, measured by taking them."""
    low, high = 0, 10**9
    while low < high:
        middle = (low + high + 1) // 2
        try:
            budget.take(middle)
        except Overloaded:
            high = middle - 1
        else:
            budget.give(middle)
            low = middle
    return low


def test_an_admission_holds_the_bytes_that_have_arrived() -> None:
    """It also holds some bytes for itself. If announced bytes counted, idle clients could use up the budget."""
    budget = Budget(100_000)
    admission = Admission(budget, max_body=50_000, announced=50_000)
    own = 100_000 - free_bytes(budget)
    assert 0 < own < 10_000

    admission.grow(20_000)
    admission.grow(30_000)
    assert free_bytes(budget) == 100_000 - own - 50_000

    admission.release()
    admission.release()
    assert free_bytes(budget) == 100_000


@pytest.mark.parametrize("announced", [None, 0, 100])
def test_a_body_that_grows_too_long_is_refused(announced: int | None) -> None:
    """The announced length makes no difference, and a chunked body has none.

    A body of exactly the limit is allowed.
    """
    budget = Budget(100_000)
    admission = Admission(budget, max_body=100, announced=announced)
    admission.grow(99)
    admission.grow(1)
    with pytest.raises(TooLarge, match="100 bytes"):
        admission.grow(1)
    admission.release()

    assert free_bytes(budget) == 100_000


def test_a_body_announced_too_long_is_refused_before_it_is_read() -> None:
    """It takes nothing from the budget."""
    budget = Budget(100_000)
    with pytest.raises(TooLarge):
        Admission(budget, max_body=100, announced=101)

    assert free_bytes(budget) == 100_000


def test_bytes_above_the_limit_in_flight_are_refused() -> None:
    """They are refused before the body and while it grows, and all bytes are released."""
    budget = Budget(20_000)
    first = Admission(budget, max_body=10**6, announced=None)
    first.grow(free_bytes(budget))
    with pytest.raises(Overloaded):
        first.grow(1)
    with pytest.raises(Overloaded):
        Admission(budget, max_body=10**6, announced=None)
    first.release()

    Admission(budget, max_body=10**6, announced=None).grow(10_000)
