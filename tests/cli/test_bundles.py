"""`receiver events export` and `import`, run as a user runs them, on a real database."""

import asyncio
import gzip
import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from receiver.cli.main import receiver, run
from receiver.core.bulk import Imported
from receiver.core.deliveries import Delivery, DeliveryFilter, StoredDelivery
from receiver.core.types import Origin
from receiver.stores import open_store
from tests.cli.kept import BODY, STORE, delivery, on_a_terminal
from tests.doubles import LONG

pytestmark = pytest.mark.usefixtures("configured")

OTHER = "sqlite:///other.db"


def invoke(*args: str) -> int:
    return run(receiver.main, ["events", *args])


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "receiver", "events", *args]


def keep(*deliveries: Delivery) -> None:
    """Put deliveries into the store, as the sender brings them."""

    async def append() -> None:
        async with open_store(STORE).log() as log:
            await asyncio.gather(*[log.append(one) for one in deliveries])

    asyncio.run(append())


def keep_many(count: int, size: int = 0) -> None:
    """Put many deliveries into the store, with bodies of random text."""

    async def import_deliveries() -> None:
        async with open_store(STORE).log():
            pass
        async with open_store(STORE).controls() as controls:
            await controls.import_deliveries(
                [
                    Imported(delivery(f"k{n:05}", n / 60_000, body=os.urandom(size // 2).hex().encode()))
                    for n in range(count)
                ]
            )

    asyncio.run(import_deliveries())


def stored(store: str = STORE) -> list[StoredDelivery]:
    """Return what a store has, in its order, without the difference between imported and received events."""

    async def read() -> list[StoredDelivery]:
        async with open_store(store).reports() as reports:
            return [
                replace(one, seq=0, delivery=replace(one.delivery, origin=Origin.SENDER))
                async for one in reports.iter_deliveries(DeliveryFilter())
            ]

    return asyncio.run(read()) if Path(store.removeprefix("sqlite:///")).exists() else []


def execute(statement: str, database: str = "other.db") -> None:
    """Change a database from outside."""
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute(statement)


def deliveries_of(bundle: str) -> bytes:
    """Return a bundle without its header, which tells when it was made."""
    return Path(bundle).read_bytes().partition(b"\n")[2]


@pytest.fixture
def three(configured: None) -> None:
    """Three deliveries, one with a duplicate."""
    keep(delivery("a"), delivery("b", 1, type="agent.action", body=b"\0\xff\r\n"), delivery("a"), delivery("c", 2))


# --- there and back


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize("file", ["bundle.ndjson", "bundle.ndjson.gz"])
def test_an_import_stores_exactly_the_exported_events(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The import makes the store. An export from there has the same lines."""
    assert invoke("export", file) == 0
    assert capsys.readouterr() == ("", f"exported 3 events to {file}\n")

    assert invoke("import", file, "--yes", "--store", OTHER) == 0

    out = capsys.readouterr().out.splitlines()
    assert out[0] == "3 events to import"
    assert out[1].startswith("  exported  20")
    assert out[2:] == ["imported 3 events"]
    assert stored(OTHER) == stored()
    assert [one.duplicates for one in stored(OTHER)] == [1, 0, 0]
    assert invoke("export", "first") == invoke("export", "second", "--store", OTHER) == 0
    assert deliveries_of("first") == deliveries_of("second")


@pytest.mark.usefixtures("three")
def test_importing_again_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """No duplicate is counted, and the command says how many events were stored already."""
    invoke("export", "bundle")
    before = stored()
    capsys.readouterr()

    assert invoke("import", "bundle", "--yes") == 0

    assert capsys.readouterr().out.splitlines()[2:] == ["imported 0 events", "3 events stored already"]
    assert stored() == before


@pytest.mark.usefixtures("three")
def test_pipes_carry_bundles() -> None:
    """Standard output has only the bundle."""
    line = (
        f"{sys.executable} -m receiver events export | {sys.executable} -m receiver events import - --yes --store"
    )
    done = subprocess.run(f"{line} {OTHER}", shell=True, capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "imported 3 events"
    assert done.stderr == "exported 3 events\n"
    assert stored(OTHER) == stored()


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize(
    ("filters", "keys"),
    [
        (("--type", "agent.*"), ["b"]),
        (("--since", "2026-08-04T12:01:00Z"), ["b", "c"]),
        (("--until", "2026-08-04T12:01:00Z"), ["a"]),
        (("--limit", "2"), ["b", "c"]),
        (("--type", "another"), []),
        (("--state", "new"), ["a", "b", "c"]),
    ],
)
def test_filters_choose_what_is_exported(
    filters: tuple[str, ...], keys: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The filters are those of every command. A bundle may be empty."""
    assert invoke("export", *filters) == 0

    header, *lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert header["count"] == len(keys)
    assert [line["id"] for line in lines] == keys


def test_an_export_leaves_out_pruned_events_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """The header counts only the exported events."""
    keep(delivery("a"), delivery("b", 1))
    execute("DELETE FROM bodies WHERE seq = 1", "kept.db")
    execute("UPDATE deliveries SET pruned_at = 1 WHERE seq = 1", "kept.db")

    assert invoke("export", "bundle") == 0

    assert capsys.readouterr().err == ("exported 1 event to bundle\nleft out 1 event: their bodies were pruned\n")
    assert invoke("import", "bundle", "--dry-run") == 0


def test_a_redacted_bundle_hides_pages_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """Keys and types stay. The plan of an import says that the bundle is redacted."""
    body = b'{"type":"crawl.page","data":[{"markdown":"my secret"}]}'
    keep(delivery("a", body=body))

    assert invoke("export", "bundle", "--redact") == 0
    assert b"secret" not in Path("bundle").read_bytes()
    assert invoke("import", "bundle", "--yes", "--store", OTHER) == 0

    assert "  redacted  the contents of the pages are hidden\n" in capsys.readouterr().out
    assert [(one.delivery.key, one.delivery.body) for one in stored(OTHER)] == [
        ("a", body.replace(b"my secret", b"xxxxxxxxx"))
    ]


# --- what an export leaves behind


@pytest.mark.usefixtures("three")
def test_a_file_is_replaced_only_with_force(capsys: pytest.CaptureFixture[str]) -> None:
    """Only its owner may read the file, as with the database."""
    Path("bundle").write_text("precious", encoding="utf-8")

    assert invoke("export", "bundle") == 2
    assert "bundle exists already: --force replaces it" in capsys.readouterr().err
    assert Path("bundle").read_text(encoding="utf-8") == "precious"

    assert invoke("export", "bundle", "--force") == 0
    assert invoke("import", "bundle", "--dry-run") == 0
    assert Path("bundle").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("file", ["/dev/null", "."])
@pytest.mark.usefixtures("three")
def test_a_device_is_not_replaced(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Otherwise a device would become a file."""
    assert invoke("export", file, "--force") == 2
    assert f"{file} is not an ordinary file" in capsys.readouterr().err


@pytest.mark.usefixtures("three")
def test_a_missing_folder_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """The message is one line."""
    assert invoke("export", "nowhere/bundle") == 1
    assert capsys.readouterr().err == "receiver: cannot write nowhere/bundle: No such file or directory\n"


def test_without_a_store_there_is_nothing_to_export() -> None:
    """The exit code is 3, and no file is left."""
    assert invoke("export", "bundle") == 3
    assert list(Path().iterdir()) == []


def test_a_full_disk_leaves_no_half_file() -> None:
    """The exit code is 1, one line says why, and no file is left."""
    keep_many(40, 100_000)
    before = {path.name for path in Path().iterdir()}
    line = ["bash", "-c", 'ulimit -f 2048; exec "$@"', "bash", *command("export", "bundle")]

    done = subprocess.run(line, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (
        (1, "", "receiver: cannot write bundle: File too large\n")
    )
    assert {path.name for path in Path().iterdir()} - before <= {"kept.db-shm", "kept.db-wal"}


@pytest.mark.usefixtures("three")
def test_a_full_disk_behind_standard_output_is_reported() -> None:
    """The reader of a pipe cannot know it."""
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command("export"), stdout=full, stderr=subprocess.PIPE, text=True, check=False)

    assert (done.returncode, done.stderr) == (
        1,
        "receiver: cannot write to standard output: No space left on device\n",
    )


def test_a_closed_pipe_ends_an_export() -> None:
    """A closed pipe is success, as after `head`."""
    keep_many(200, 100_000)

    with subprocess.Popen(command("export"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith('{"format":')
        process.stdout.close()
        assert process.stderr is not None
        err = process.stderr.read()

    assert (process.returncode, err) == (0, "")


def test_ctrl_c_leaves_no_half_file() -> None:
    """The exit code is 130, and a line says how many were written."""
    keep_many(1_500, 100_000)

    with subprocess.Popen(
        command("export", "bundle.gz"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        while not any(path.stat().st_size for path in Path().glob(".bundle.gz.*")) and process.poll() is None:
            pass
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=LONG)

    assert process.returncode == 130
    assert err.startswith("stopped: ")
    assert err.rstrip("\n").endswith(" of 1,500 events were written")
    assert list(Path().glob("*bundle*")) + list(Path().glob(".bundle*")) == []


@pytest.mark.usefixtures("three")
def test_a_bundle_is_not_written_to_a_terminal() -> None:
    """Bodies could control it."""
    code, seen = on_a_terminal("events", "export")

    assert code == 2
    assert "standard output is a terminal: name a FILE" in seen


def test_progress_of_an_export_is_shown_on_a_terminal() -> None:
    """The bar is on standard error."""
    keep_many(1_100)

    code, seen = on_a_terminal("events", "export", "bundle")

    assert code == 0
    assert " 1000/1100" in seen
    assert seen.splitlines()[-1] == "exported 1,100 events to bundle"


# --- what an import says


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
        "  line 2: received_at: Input should be between the years 1970 and 8999",
    ]


def test_a_packed_file_of_empty_lines_ends_with_a_reason(capsys: pytest.CaptureFixture[str]) -> None:
    """One line for it, with the place and the number of bytes, and exit code 1."""
    header = b'{"format":"crawl-receiver bundle","version":1,"made_at":"2026-08-04T12:00:00Z","count":0}\n'
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
            "receiver: a bundle of version 3, and this program reads up to version 2: install a newer one\n",
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
        b'{"format":"crawl-receiver bundle","version":1,"made_at":"2026-08-04T12:00:00Z","count":0}'
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


def test_a_file_name_decides_about_compression_only_for_an_export() -> None:
    """The same deliveries give the same bytes."""
    keep(delivery("a", body=BODY))
    invoke("export", "plain")
    invoke("export", "packed.gz")

    assert gzip.decompress(Path("packed.gz").read_bytes()).partition(b"\n")[2] == deliveries_of("plain")
    assert Path("packed.gz").read_bytes()[4:8] == b"\0\0\0\0"
    Path("packed.gz").rename("packed")
    assert invoke("import", "packed", "--dry-run") == 0
