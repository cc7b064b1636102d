"""The last words of `receiver demo`, and its monitor."""

from pathlib import Path
from unittest.mock import AsyncMock, MagicMock, call

import pytest

from receiver.cli.demo.command import activation, monitor
from receiver.requests import WebhookConfig


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


async def test_the_monitor_of_the_demo_is_paused_before_the_receiver_stops() -> None:
    """A check that came while the receiver is away would be counted with what the demo counts there."""
    stage = MagicMock()
    stage.service.client = client = AsyncMock()
    client.create_monitor.return_value.id = "m-1"
    stage.handled = AsyncMock()
    stage.webhook.return_value = WebhookConfig(url="https://receiver.test/webhooks")
    stage.service.changed_url = "https://docs.example.com/pricing"

    await monitor(stage)

    assert client.method_calls[-1] == call.update_monitor("m-1", status="paused")
