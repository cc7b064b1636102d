from pathlib import Path

import pytest

from tests.cli.kept import STORE


@pytest.fixture
def configured(bare_environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test runs in an empty folder, and only the store is set."""
    monkeypatch.setenv("RECEIVER_STORE", STORE)
