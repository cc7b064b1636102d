from pathlib import Path

import pytest


@pytest.fixture
def output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that handlers write to in this test."""
    folder = tmp_path / "output"
    monkeypatch.setenv("OUTPUT_DIR", str(folder))
    return folder
