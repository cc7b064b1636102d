"""Commands that only read run with a copied `.env.example`, whose secret is a placeholder."""

import pytest

from receiver.cli.main import receiver, run
from receiver.settings import PLACEHOLDER

pytestmark = pytest.mark.usefixtures("three")


@pytest.mark.parametrize(
    "command",
    [
        ("events", "list"),
        ("events", "show", "a"),
        ("events", "raw", "a", "--force"),
        ("events", "export", "week.ndjson"),
        ("jobs", "list"),
        ("work-items", "list"),
        ("quarantine", "list"),
        ("drift",),
        ("backup", "copy.db"),
        ("tail", "--limit", "1"),
    ],
)
def test_reading_needs_no_secret(command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody may look at a store before the secret is there."""
    monkeypatch.setenv("RECEIVER_SECRETS", PLACEHOLDER)

    assert run(receiver, list(command)) == 0


@pytest.mark.parametrize("command", [("check",), ("send", "crawl.page")])
def test_what_signs_refuses_the_placeholder(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RECEIVER_SECRETS", PLACEHOLDER)

    assert run(receiver, list(command)) == 2
    assert "is the placeholder" in capsys.readouterr().err
