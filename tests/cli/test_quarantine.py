"""`receiver quarantine`, run as a user runs it, on a real database."""

import json

import pytest

from receiver.cli.main import receiver, run
from receiver.core.deliveries import Quarantined
from tests.cli.kept import BODY, NOON, Filling, delivery, fill, on_a_terminal
from tests.doubles import appended

pytestmark = pytest.mark.usefixtures("configured")

HEADERS = (("content-type", "application/json"), ("x-odd", "\x1b[2J"))


def invoke(*args: str) -> int:
    return run(receiver.main, ["quarantine", *args])


@pytest.fixture
def filled(configured: None) -> None:
    """1 is no JSON, 2 contradicts a delivery, 3 is an envelope that an earlier version did not read."""

    async def step(store: Filling) -> None:
        await appended(store.log, delivery("key-1", body=BODY))
        other = b'{"type":"crawl.page","webhookId":"key-1"}'
        for reason, detail, body in (
            ("malformed", "the body is not JSON", b"\x00\xff\x1b[2J"),
            ("conflict", "another body", other),
            ("malformed", "the body has no `type`", b'{"type":"crawl.page","webhookId":"late"}'),
        ):
            await store.log.quarantine(Quarantined(NOON, reason, detail, None, HEADERS, body))

    fill(step)


def rows(capsys: pytest.CaptureFixture[str], *flags: str) -> list[int]:
    """Return the numbers that the listing has as JSON."""
    capsys.readouterr()
    assert invoke("list", "--json", *flags) == 0
    return [json.loads(line)["id"] for line in capsys.readouterr().out.splitlines()]


@pytest.mark.usefixtures("filled")
def test_refused_requests_are_listed_newest_first(capsys: pytest.CaptureFixture[str]) -> None:
    """The JSON has every field except headers and body."""
    assert invoke("list", "--json") == 0

    first = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert first == {
        "id": 1,
        "received_at": "2026-08-04T12:00:00.000000Z",
        "reason": "malformed",
        "detail": "the body is not JSON",
        "delivery_id": None,
        "size": 6,
    }
    assert rows(capsys) == [3, 2, 1]


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("--kind", "conflict"), [2]),
        (("--limit", "1"), [3]),
        (("--since", "2026-08-04T12:00:00Z"), [3, 2, 1]),
        (("--until", "2026-08-04T12:00:00Z"), []),
    ],
)
def test_filters_choose(capsys: pytest.CaptureFixture[str], flags: tuple[str, ...], expected: list[int]) -> None:
    """They choose by reason, time and number."""
    assert rows(capsys, *flags) == expected


def test_an_unknown_kind_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """The error has the known ones. A misspelt kind must not look like an empty quarantine."""
    assert invoke("list", "--kind", "malformd") == 2

    assert "'malformd' is not one of 'malformed', 'conflict'" in capsys.readouterr().err


@pytest.mark.usefixtures("filled")
def test_the_listing_for_people_has_a_line_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    """A pipe gets lines below a header, and a terminal a table."""
    assert invoke("list") == 0

    assert len(capsys.readouterr().out.splitlines()) == 1 + 3
    status, seen = on_a_terminal("quarantine", "list")
    assert status == 0
    assert "the body is not JSON" in seen


@pytest.mark.usefixtures("filled")
def test_one_request_is_shown_safely(capsys: pytest.CaptureFixture[str]) -> None:
    """It shows reason, headers and body, and no text can control a terminal."""
    assert invoke("show", "1") == 0

    out = capsys.readouterr().out
    assert "the body is not JSON" in out
    assert r"x-odd: \x1b[2J" in out
    assert r"\x00\xff\x1b[2J" in out
    assert "\x1b" not in out
    assert invoke("show", "1", "--json") == 0
    assert json.loads(capsys.readouterr().out)["headers"] == [list(header) for header in HEADERS]


@pytest.mark.usefixtures("filled")
def test_the_raw_body_is_exact(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """A pipe gets the exact bytes, and a terminal is refused."""
    assert invoke("raw", "1") == 0

    assert capfdbinary.readouterr().out == b"\x00\xff\x1b[2J"
    status, seen = on_a_terminal("quarantine", "raw", "1")
    assert status == 2
    assert "Error: standard output is a terminal" in seen


@pytest.mark.usefixtures("filled")
def test_a_readable_request_becomes_a_delivery(capsys: pytest.CaptureFixture[str]) -> None:
    """The request leaves quarantine, keeps its time, and waits for a worker."""
    assert invoke("release", "3") == 0

    assert capsys.readouterr().out == "3  accepted as delivery late\n"
    assert rows(capsys) == [2, 1]
    assert run(receiver.main, ["events", "show", "late", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["received_at"], shown["state"], shown["origin"]) == (
        "2026-08-04T12:00:00.000000Z",
        "new",
        "sender",
    )


@pytest.mark.usefixtures("filled")
def test_a_refused_request_stays(capsys: pytest.CaptureFixture[str]) -> None:
    """Each line has the reason, and the exit code is 1. The others are released."""
    assert invoke("release", "1", "2", "3", "3", "9") == 1

    assert capsys.readouterr().out.splitlines() == [
        "1  stays: the body is not JSON",
        "2  stays: delivery key-1 is stored with another body",
        "3  accepted as delivery late",
        "9  stays: there is no request 9 in quarantine",
    ]
    assert rows(capsys) == [2, 1]


@pytest.mark.parametrize("command", ["show", "raw"])
@pytest.mark.usefixtures("filled")
def test_an_unknown_number_is_an_error(capsys: pytest.CaptureFixture[str], command: str) -> None:
    """The exit code is 1."""
    assert invoke(command, "9") == 1
    assert "there is no request 9 in quarantine" in capsys.readouterr().err


@pytest.mark.parametrize("flags", [("list",), ("show", "1"), ("raw", "1"), ("release", "1")])
def test_without_a_store_it_says_so(flags: tuple[str, ...]) -> None:
    """The exit code is 3."""
    assert invoke(*flags) == 3


@pytest.mark.parametrize("flags", [("show", "x"), ("release",), ("list", "--limit", "0")])
def test_wrong_use_is_reported(flags: tuple[str, ...]) -> None:
    """The exit code is 2."""
    assert invoke(*flags) == 2
