"""The last words of `receiver demo`."""

from pathlib import Path

import pytest

from receiver.cli.demo.command import activation


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A virtual environment in the current folder, whose programs are not on the path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    folder = tmp_path / ".venv"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "activate").touch()
    return folder


def test_a_stranger_learns_how_to_type_receiver(environment: Path) -> None:
    """The first command of the README leaves the virtual environment inactive."""
    assert activation(environment) == ". .venv/bin/activate"


def test_nothing_is_said_if_receiver_can_be_typed(environment: Path, tmp_path: Path) -> None:
    """The virtual environment is active, or the command is installed for all."""
    (tmp_path / "receiver").touch(mode=0o755)

    assert activation(environment) is None


def test_nothing_is_said_without_a_virtual_environment(environment: Path, tmp_path: Path) -> None:
    """There is no script to activate it."""
    assert activation(tmp_path / "elsewhere") is None
