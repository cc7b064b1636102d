"""`receiver events export`, and `import` of what it wrote, run as a user runs them, on a real database."""

import gzip
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.bundling import OTHER, command, deliveries_of, execute, invoke, keep_many, stored
from tests.cli.kept import BODY, delivery, on_a_terminal
from tests.cli.replaying import keep
from tests.doubles import LONG

pytestmark = pytest.mark.usefixtures("configured")


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


def test_a_file_name_decides_about_compression_only_for_an_export() -> None:
    """The same deliveries give the same bytes."""
    keep(delivery("a", body=BODY))
    invoke("export", "plain")
    invoke("export", "packed.gz")

    assert gzip.decompress(Path("packed.gz").read_bytes()).partition(b"\n")[2] == deliveries_of("plain")
    assert Path("packed.gz").read_bytes()[4:8] == b"\0\0\0\0"
    Path("packed.gz").rename("packed")
    assert invoke("import", "packed", "--dry-run") == 0
