"""A signal for each test of subscribers."""

from collections.abc import Iterator

import pytest

from receiver.signals.subscribers import Signal
from tests.signals.watching import delivered


@pytest.fixture
def signal() -> Iterator[Signal[int]]:
    """A signal for one test; all its subscribers are disconnected afterwards."""
    made = Signal[int]("numbers")
    yield made
    for subscriber in made.subscribers:
        made.disconnect(subscriber)
    assert not made.receivers
    delivered()
