"""`receiver alerts`, run as a user runs it, on a real database."""

import json
from datetime import UTC, datetime

import pytest
from standardwebhooks import Webhook

from receiver.cli.main import receiver, run
from receiver.core.deliveries import Quarantined
from tests.cli.kept import DEAD, Filling, fill, on_a_terminal
from tests.service.client.stub import Connection, serving

pytestmark = pytest.mark.usefixtures("configured")
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def invoke(*args: str) -> int:
    return run(receiver.main, ["alerts", *args])


@pytest.fixture
def filled(configured: None) -> None:
    """Dead work, and a request in quarantine."""

    async def step(store: Filling) -> None:
        await store.items(3, DEAD)
        await store.log.quarantine(Quarantined(datetime.now(UTC), "conflict", "x", None, (), b"{}"))  # noqa: TID251

    fill(step)


@pytest.mark.usefixtures("filled")
def test_what_needs_somebody_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """The worst first; the JSON has the same."""
    assert invoke("list") == 0
    dead, quarantined = capsys.readouterr().out.splitlines()
    assert dead.startswith("dead         3 dead in handlers.pages.save, of deliveries since 2026-08-04 12:00 UTC: ")
    assert quarantined == "quarantined  1 request in quarantine in the last 24 hours: conflict"

    assert invoke("list", "--json") == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["kind"], one["subject"], one["count"]) for one in rows] == [
        ("dead", "handlers.pages.save", 3),
        ("quarantined", "", 1),
    ]


@pytest.mark.usefixtures("filled")
def test_a_terminal_has_no_longer_lines_than_it_takes() -> None:
    """What a line continues stands below its text."""
    code, shown = on_a_terminal("alerts", "list", columns=80)
    assert code == 0
    assert max(map(len, shown.splitlines())) <= 80


def test_a_test_message_is_posted_and_signed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code tells whether it was taken; the URL is in no output."""
    posted: list[Connection] = []
    status = 200

    def answer(connection: Connection) -> None:
        posted.append(connection)
        connection.answer(status, {})

    monkeypatch.setenv("RECEIVER_ALERT_SECRET", SECRET)
    with serving(answer) as made:
        monkeypatch.setenv("RECEIVER_ALERT_URL", f"{made.address}/secret-part")
        assert invoke("test") == 0
        taken = capsys.readouterr()
        assert taken.out.startswith("127.0.0.1 has taken the test message alert_")
        status = 404
        assert invoke("test") == 1
        refused = capsys.readouterr()
    assert refused.err == "receiver: 127.0.0.1 answered 404: check RECEIVER_ALERT_URL\n"
    assert "secret-part" not in taken.out + taken.err + refused.out + refused.err
    assert "test" in Webhook(SECRET).verify(json.dumps(posted[0].body), dict(posted[0].headers))["text"]


def test_without_a_url_nothing_is_tried(capsys: pytest.CaptureFixture[str]) -> None:
    """The message says what to set."""
    assert invoke("test") == 2
    assert "no RECEIVER_ALERT_URL is set" in capsys.readouterr().err
