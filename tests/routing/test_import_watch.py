"""Imports that take long are told while they go on."""

import threading
from datetime import timedelta
from pathlib import Path

import pytest

from receiver.routing.loader import watched_import
from tests.doubles import LONG


def test_an_import_that_takes_long_is_told_with_its_place() -> None:
    """While it goes on, and once. The place is in the code that is running: here in this file."""
    told: list[str] = []
    once_told = threading.Event()

    def tell(where: str) -> None:
        told.append(where)
        once_told.set()

    with watched_import(tell, patience=timedelta(0)):
        assert once_told.wait(LONG)

    [where] = told
    assert where.rpartition(":")[0].endswith(Path(__file__).name)


def test_a_fast_import_is_not_told_and_leaves_no_thread() -> None:
    """Also one that fails."""
    told: list[str] = []
    threads = threading.enumerate()

    with watched_import(told.append):
        pass
    with pytest.raises(ImportError), watched_import(told.append):
        raise ImportError

    assert told == []
    assert threading.enumerate() == threads
