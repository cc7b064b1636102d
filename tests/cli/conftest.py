from pathlib import Path

import pytest

from tests.cli.kept import STORE


@pytest.fixture
def configured(bare_environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder, and no setting but the store."""
    monkeypatch.setenv("RECEIVER_STORE", STORE)
