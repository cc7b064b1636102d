"""What `check` tells about the SQLite of this Python."""

import pytest

from receiver.stores.sqlite.store import health_notes


@pytest.mark.parametrize("version", [(3, 40, 1), (3, 44, 5), (3, 45, 0), (3, 50, 6), (3, 51, 0), (3, 51, 2)])
def test_a_version_that_can_damage_the_database_is_noted(version: tuple[int, ...]) -> None:
    """With its number and what to do."""
    (note,) = health_notes(version)

    assert f"SQLite {'.'.join(map(str, version))} has a bug" in note
    assert "3.51.3 or later" in note


@pytest.mark.parametrize("version", [(3, 44, 6), (3, 50, 7), (3, 51, 3), (3, 52, 0), (3, 53, 4), (4, 0, 0)])
def test_a_version_without_that_bug_is_not_mentioned(version: tuple[int, ...]) -> None:
    """Older branches have the fix too."""
    assert health_notes(version) == ()
