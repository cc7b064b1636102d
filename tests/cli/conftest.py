from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.kept import STORE, delivery
from tests.cli.replaying import keep
from tests.service.client.calling import KEY
from tests.service.client.stub import Connection, Stub, serving


@pytest.fixture
def configured(bare_environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test runs in an empty folder, and only the store is set."""
    monkeypatch.setenv("RECEIVER_STORE", STORE)


@pytest.fixture
def answers() -> dict[str, tuple[int, Any]]:
    """What the service answers: status and body by method and path."""
    return {}


@pytest.fixture
def stub(configured: None, monkeypatch: pytest.MonkeyPatch, answers: dict[str, tuple[int, Any]]) -> Iterator[Stub]:
    """The service on a socket, and settings that lead there."""

    def answer(connection: Connection) -> None:
        path = connection.path.partition("?")[0]
        connection.answer(*answers[f"{connection.method} {path}"])

    with serving(answer) as made:
        monkeypatch.setenv("RECEIVER_BASE_URL", made.address)
        monkeypatch.setenv("RECEIVER_API_KEY", KEY)
        monkeypatch.setenv("RECEIVER_PUBLIC_URL", "https://hooks.example.com")
        yield made


@pytest.fixture
def three(configured: None) -> None:
    """Three deliveries, one with a duplicate."""
    keep(delivery("a"), delivery("b", 1, type="agent.action", body=b"\0\xff\r\n"), delivery("a"), delivery("c", 2))
