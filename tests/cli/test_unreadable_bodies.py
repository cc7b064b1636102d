"""Events whose bodies the store cannot read, since the file beside the database is away: commands do the others."""

import subprocess
from pathlib import Path

import pytest

from receiver.stores.sqlite.bodies import body_files
from tests.cli.bundling import command, invoke, stored
from tests.cli.endpoint import served
from tests.cli.kept import BODY, delivery, items
from tests.cli.replaying import KEYS, Command, handled, keep, write_handlers
from tests.process.harness import SECRET

LONG = BODY[:-4] + b" " * 20_000 + BODY[-4:]
COPY = "sqlite:///copy.db"


@pytest.fixture
def away(configured: None) -> Path:
    """Five events, of which four have their bodies in a file that is not there."""
    keep(*[delivery(f"away{n}", n, body=LONG) for n in range(4)])
    [file] = body_files(Path("kept.db"))
    file.unlink()
    keep(delivery("there", 9, body=LONG))
    return file.resolve()


def told(file: Path) -> str:
    """Return what a command says at its end."""
    reason = f"{file}: No such file or directory; put the file back, or import the delivery from an export"
    named = "".join(f"  the body of delivery away{n} cannot be read: {reason}\n" for n in range(3))
    return f"left out 4 events: the store cannot read their bodies\n{named}  and 1 more\n"


@pytest.fixture
def replay(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command with a handler that writes ids to a file."""
    write_handlers(KEYS, monkeypatch)
    return Command(monkeypatch, capsys)


def test_an_export_has_the_other_events(away: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever imports the bundle is told too that it lacks some."""
    assert invoke("export", "bundle") == 1
    assert capsys.readouterr() == ("", f"exported 1 event to bundle\n{told(away)}")

    assert invoke("import", "bundle", "--yes", "--store", COPY) == 1
    assert [one.delivery.key for one in stored(COPY)] == ["there"]
    assert "the header counts 5 deliveries, and 1 lines came" in capsys.readouterr().out


def test_an_export_to_a_pipe_has_the_other_events(away: Path) -> None:
    done = subprocess.run(command("export"), capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert [line.partition('"id":"')[2][:5] for line in done.stdout.splitlines()] == ["", "there"]
    assert done.stderr == f"exported 1 event\n{told(away)}"


def test_a_replay_runs_the_other_events(away: Path, replay: Command) -> None:
    assert replay() == 1
    assert handled() == ["there"]
    assert replay.err.endswith(told(away))


def test_a_replay_makes_work_for_the_other_events(away: Path, replay: Command) -> None:
    assert replay("--enqueue") == 1
    assert [item.key for item in items()] == ["there"]
    assert replay.err.endswith(told(away))


def test_a_replay_sends_the_other_events(away: Path, replay: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECEIVER_SECRETS", SECRET)
    with served() as endpoint:
        assert replay("--to", endpoint.url) == 1
    assert [body for _, _, body in endpoint.requests] == [LONG]
    assert replay.err.endswith(told(away))


def test_a_filter_that_leaves_them_out_is_done_without_a_fault(away: Path, replay: Command) -> None:
    assert replay("--since", "2026-08-04T12:08:00Z") == 0
    assert invoke("export", "bundle", "--since", "2026-08-04T12:08:00Z") == 0
