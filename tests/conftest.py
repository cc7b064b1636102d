import os
from pathlib import Path

import pytest


@pytest.fixture
def bare_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, and no variable that settings are read from."""
    for name in os.environ:
        if name.upper().startswith("RECEIVER_") or name in ("PORT", "DATABASE_URL"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path
