"""`receiver events import`, run as a user runs it, on a real database."""

import gzip
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.bundling import OTHER, command, execute, invoke, keep_many, stored
from tests.cli.kept import on_a_terminal
from tests.doubles import LONG

pytestmark = pytest.mark.usefixtures("configured")


def damaged() -> None:
    """Write a bundle of 30 events, of which 12 are damaged."""
    keep_many(30, 100)
    invoke("export", "bundle")
    lines = Path("bundle").read_bytes().splitlines(keepends=True)
    for number in range(10, 22):
        lines[number] = lines[number].replace(b'"body":"', b'"body":"x')
    Path("bundle").write_bytes(b"".join(lines))


def test_damaged_lines_are_reported_and_the_rest_is_imported(capsys: pytest.CaptureFixture[str]) -> None:
    """The first ten places are named, and the exit code is 1."""
    damaged()
    capsys.readouterr()

    assert invoke("import", "bundle", "--yes", "--store", OTHER) == 1

    why = "its body does not have the SHA-256 of the line"
    assert capsys.readouterr().out.splitlines()[2:] == [
        "imported 18 events",
        "12 damaged places",
        *(f"  line {number}: {why}" for number in range(11, 21)),
        "  and 2 more",
    ]
    assert len(stored(OTHER)) == 18


@pytest.mark.usefixtures("three")
def test_a_moment_that_no_calendar_has_is_damage(capsys: pytest.CaptureFixture[str]) -> None:
    """In UTC it would be before the year 1."""
    invoke("export", "bundle")
    header, first, *rest = Path("bundle").read_bytes().splitlines(keepends=True)
    first = first.replace(
        b'"received_at":"2026-08-04T12:00:00.000000Z"', b'"received_at":"0001-01-01T00:00:00+05:00"'
    )
    Path("bundle").write_bytes(b"".join([header, first, *rest]))
    capsys.readouterr()

    assert invoke("import", "bundle", "--yes", "--store", OTHER) == 1

    assert capsys.readouterr().out.splitlines()[2:] == [
        "imported 2 events",
        "1 damaged place",
        "  line 2: received_at: it has to be between the years 1970 and 8999",
    ]


def test_a_packed_file_of_empty_lines_ends_with_a_reason(capsys: pytest.CaptureFixture[str]) -> None:
    """One line for it, with the place and the number of bytes, and exit code 1."""
    header = b'{"format":"crawl-receiver bundle","version":2,"made_at":"2026-08-04T12:00:00Z","count":0}\n'
    Path("bundle.gz").write_bytes(gzip.compress(header) + gzip.compress(b"\n" * 2**24) * 20)

    assert invoke("import", "bundle.gz", "--yes") == 1

    *_, count, line = capsys.readouterr().out.splitlines()
    assert count == "1 damaged place"
    assert line.endswith(" bytes hold no event, so the rest of the file is not read")


def test_a_dry_run_finds_all_damage_and_touches_no_store(capsys: pytest.CaptureFixture[str]) -> None:
    """The command needs no store."""
    damaged()
    capsys.readouterr()

    assert invoke("import", "bundle", "--dry-run", "--store", OTHER) == 1

    out = capsys.readouterr().out.splitlines()
    assert out[2:4] == ["18 events can be imported", "12 damaged places"]
    assert not Path("other.db").exists()


@pytest.mark.usefixtures("three")
def test_a_conflict_is_reported_and_the_stored_body_stays(capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 1, because a person must decide which body is right."""
    invoke("export", "bundle")
    execute("UPDATE bodies SET body = x'00' WHERE seq = (SELECT seq FROM deliveries WHERE key = 'c')", "kept.db")
    before = stored()
    capsys.readouterr()

    assert invoke("import", "bundle", "--yes") == 1

    assert capsys.readouterr().out.splitlines()[2:] == [
        "imported 0 events",
        "2 events stored already",
        "1 conflict: the store keeps another body with the same id",
        "  c",
    ]
    assert stored() == before


@pytest.mark.parametrize(
    ("content", "code", "words"),
    [
        (b"hello\n", 2, "receiver: not a bundle: its first line is not a header (not JSON)\n"),
        (b"", 2, "receiver: not a bundle: it is empty\n"),
        (
            b'{"format":"crawl-receiver bundle","version":3}\n',
            2,
            "receiver: a bundle of version 3, and this program reads version 2\n",
        ),
    ],
)
def test_another_file_is_refused(content: bytes, code: int, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """This happens before the question."""
    Path("bundle").write_bytes(content)

    assert invoke("import", "bundle", "--yes") == code

    assert capsys.readouterr() == ("", words)
    assert not Path("kept.db").exists()


def test_a_missing_file_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    """The message names the file."""
    assert invoke("import", "nowhere", "--yes") == 2
    assert "'nowhere': No such file or directory" in capsys.readouterr().err


@pytest.mark.usefixtures("three")
def test_without_a_terminal_it_needs_yes(capsys: pytest.CaptureFixture[str]) -> None:
    """This is so if the bundle comes through standard input."""
    invoke("export", "bundle")

    assert invoke("import", "bundle", "--store", OTHER) == 2
    assert "there is no terminal to ask: add --yes" in capsys.readouterr().err
    assert stored(OTHER) == []


@pytest.mark.parametrize(("answer", "code", "count"), [("y\n", 0, 3), ("n\n", 1, 0), ("\x03", 130, 0)])
@pytest.mark.usefixtures("three")
def test_on_a_terminal_it_asks(answer: str, code: int, count: int) -> None:
    """The question comes after the plan."""
    invoke("export", "bundle")

    ended, seen = on_a_terminal("events", "import", "bundle", "--store", OTHER, answer=answer)

    assert ended == code
    assert seen.index("3 events to import") < seen.index("Import 3 events? [y/N]: ")
    assert len(stored(OTHER)) == count


# --- being stopped


BROKEN = """CREATE TRIGGER broken AFTER INSERT ON deliveries WHEN NEW.key = 'k01500'
BEGIN SELECT RAISE(ABORT, 'the disk is gone'); END"""
SLOW = """CREATE TRIGGER slow AFTER INSERT ON deliveries BEGIN
SELECT count(*) FROM deliveries AS a, (SELECT 1 FROM deliveries LIMIT 2) WHERE a.received_at > 0; END"""


def made_elsewhere(trigger: str) -> None:
    """Make an empty store with a trigger in it."""
    Path("none").write_bytes(
        b'{"format":"crawl-receiver bundle","version":2,"made_at":"2026-08-04T12:00:00Z","count":0}'
    )
    invoke("import", "none", "--yes", "--store", OTHER)
    execute(trigger)


def test_after_an_error_the_same_command_continues(capsys: pytest.CaptureFixture[str]) -> None:
    """After the continuation, the store is the same as without the error."""
    keep_many(2_500)
    invoke("export", "bundle")
    made_elsewhere(BROKEN)
    capsys.readouterr()

    assert invoke("import", "bundle", "--yes", "--store", OTHER) == 3

    stopped, error = capsys.readouterr().err.splitlines()
    assert stopped == (
        "stopped: 1,000 of 2,500 events were read, 1,000 imported; the same command goes on with the rest"
    )
    assert "the disk is gone" in error
    execute("DROP TRIGGER broken")
    assert invoke("import", "bundle", "--yes", "--store", OTHER) == 0
    assert stored(OTHER) == stored()


def test_ctrl_c_finishes_the_batch_and_the_same_command_continues() -> None:
    """The exit code is 130. The store has the number that the message says, and the same command does the rest."""
    keep_many(3_500)
    invoke("export", "bundle")
    made_elsewhere(SLOW)

    with subprocess.Popen(
        command("import", "bundle", "--yes", "--store", OTHER),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        while not stored(OTHER) and process.poll() is None:
            pass
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=LONG)

    assert process.returncode == 130
    come = len(stored(OTHER))
    assert come in (1_000, 2_000, 3_000)
    assert err.rstrip("\n") == (
        f"stopped: {come:,} of 3,500 events were read, {come:,} imported; the same command goes on with the rest"
    )
    execute("DROP TRIGGER slow")
    assert invoke("import", "bundle", "--yes", "--store", OTHER) == 0
    assert stored(OTHER) == stored()
