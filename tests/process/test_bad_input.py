"""Tests of wrong settings, files and addresses: one clear line, exit code 2 or 3, no traceback, no new files."""

import os
import signal
import socket
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.process.harness import Deployment, Finished

WRONG_USE, STORE_UNREACHABLE = 2, 3
HANDLERS = """
import os
from receiver import Router

router = Router()

@router.on("*")
def nothing_to_do(event): ...
"""


def prepared(folder: Path, **settings: str) -> Deployment:
    """Return a deployment with these settings. Its handlers write no files."""
    made = Deployment(folder, **settings)
    made.write_handlers(HANDLERS)
    return made


def files(folder: Path) -> dict[str, bytes]:
    """Return all files with their content, without Python's own cache."""
    found = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def ended_with_one_line(done: Finished, code: int, *words: str) -> None:
    """Check that the command ended with this code and one line that contains the words."""
    lines = [line for line in done.stderr.splitlines() if "Usage:" not in line and "Try '" not in line and line]
    assert done.code == code, done.text
    assert len(lines) == 1, done.text
    assert lines[0].startswith(("receiver: ", "Error: ")), lines
    assert not done.stdout
    for word in words:
        assert word in lines[0], lines


def refused(deployment: Deployment, code: int, *words: str, command: str = "serve", **environment: str) -> None:
    """Check that a command is refused with one line, and does not change the folder."""
    before = files(deployment.folder)
    ended_with_one_line(deployment.run(command, environment=environment), code, *words)
    assert files(deployment.folder) == before


# --- settings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "eighty"),
        ("PORT", "70000"),
        ("ACK_DEADLINE", "10"),
        ("ACK_DEADLINE", "nan"),
        ("READ_TIMEOUT", "0"),
        ("READ_TIMEOUT", "9"),
        ("MAX_IN_FLIGHT", "1"),
        ("CONCURRENCY", "0"),
        ("LOG_LEVEL", "loud"),
        ("SIGNATURE_HEADER", "two words"),
        ("TOKEN_HEADER", "X-Token"),
        ("SECRETS", '["a"'),
        ("SECRETS", '["a", ""]'),
        ("STORE", "mysql://host/db"),
        ("STORE", "receiver.db"),
        ("STORE", "sqlite:///:memory:"),
        ("ALLOW_UNSIGNED", "maybe"),
    ],
)
def test_the_error_for_a_wrong_value_names_its_setting(tmp_path: Path, name: str, value: str) -> None:
    """The error comes before anything is opened or created."""
    word = "sqlite:///" if name == "STORE" else f"RECEIVER_{name.removesuffix('_HEADER')[:7]}"
    refused(prepared(tmp_path), WRONG_USE, word, **{f"RECEIVER_{name}": value})


@pytest.mark.parametrize("name", ["LEASE", "GRACE"])
def test_a_duration_that_no_calendar_can_add_is_refused(tmp_path: Path, name: str) -> None:
    """Its type is right, but the date would be too late for Python."""
    refused(prepared(tmp_path), WRONG_USE, f"RECEIVER_{name}", **{f"RECEIVER_{name}": "1e12"})


@pytest.mark.parametrize(
    ("name", "meant"), [("RECEIVER_SECRET", "RECEIVER_SECRETS"), ("RECEIVER_PROT", "RECEIVER_PORT")]
)
@pytest.mark.parametrize("command", ["serve", "sign"])
def test_the_error_for_a_misspelt_name_suggests_the_right_one(
    tmp_path: Path, name: str, meant: str, command: str
) -> None:
    """If the variable were ignored, nobody would notice the mistake."""
    refused(prepared(tmp_path), WRONG_USE, name, f"did you mean {meant}", command=command, **{name: "1"})


@pytest.mark.parametrize("name", ["SECRETS", "TOKENS", "STORE", "PATH", "HOST", "SIGNATURE_HEADER"])
def test_a_setting_that_is_not_utf8_text_is_refused(tmp_path: Path, name: str) -> None:
    """The environment contains bytes, so their encoding must be known."""
    value = os.fsdecode(b"sqlite:///r\xff.db" if name == "STORE" else b"/r\xff")
    more = {"RECEIVER_TOKEN_HEADER": "X-Token"} if name == "TOKENS" else {}
    refused(prepared(tmp_path), WRONG_USE, f"RECEIVER_{name}", **{f"RECEIVER_{name}": value}, **more)


@pytest.mark.parametrize("path", ["/{a", "/a{b}", "/{id:nothing}", "/healthz", "/readyz/", "/a?b", "/a b", "/ä"])
def test_a_path_that_no_delivery_can_reach_is_refused(tmp_path: Path, path: str) -> None:
    """Examples are braces, a query, spaces, and the paths of the health checks."""
    refused(prepared(tmp_path), WRONG_USE, "RECEIVER_PATH", RECEIVER_PATH=path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"RECEIVER_PORT=0\nRECEIVER_SECRETS\n", (".env", "line 2", "NAME=value")),
        (b"RECEIVER_SECRETS=caf\xe9\n", (".env", "UTF-8")),
        (b"RECEIVER_SECRET=a\n", ("RECEIVER_SECRET in .env", "did you mean RECEIVER_SECRETS")),
        (b"RECEIVER_PORT=eighty\n", ("RECEIVER_PORT",)),
        (b"export RECEIVER_ACK_DEADLINE=11\n", ("RECEIVER_ACK_DEADLINE",)),
        ("RECEIVER_PORT=eighty\n".encode("utf-16"), (".env", "UTF-8")),
        (b"\x00\x01\x02", (".env",)),
    ],
)
def test_a_broken_env_file_is_refused(tmp_path: Path, content: bytes, words: tuple[str, ...]) -> None:
    """The error has the line if possible, and never the value."""
    (tmp_path / ".env").write_bytes(content)
    refused(prepared(tmp_path, port=""), WRONG_USE, *words)


def test_an_env_file_that_is_a_folder_is_refused(tmp_path: Path) -> None:
    """No user can read it as a file."""
    (tmp_path / ".env").mkdir()
    refused(prepared(tmp_path), WRONG_USE, ".env")


def test_serving_without_authentication_must_be_allowed(tmp_path: Path) -> None:
    """Otherwise anybody could send deliveries, also to a loopback address through a proxy."""
    refused(prepared(tmp_path, secrets=""), WRONG_USE, "RECEIVER_SECRETS", "ALLOW_UNSIGNED")


@pytest.mark.parametrize("flag", ["--port=eighty", "--prot=1", "--concurrency=-", "stray"])
def test_a_wrong_flag_is_refused(tmp_path: Path, flag: str) -> None:
    """Every command does this."""
    done = prepared(tmp_path).run("serve", flag)

    assert done.code == WRONG_USE
    assert flag.strip("-").partition("=")[0] in done.stderr
    assert "Traceback" not in done.text
    assert "receiver.db" not in files(tmp_path)


# --- addresses


def test_a_used_port_is_reported_before_a_database_is_created(tmp_path: Path) -> None:
    """The command binds its address before it creates anything."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused(prepared(tmp_path, port=str(port)), WRONG_USE, str(port), "--port")


@pytest.mark.parametrize(
    "host",
    [
        "no-such-host.invalid",
        "203.0.113.7",
        "a" * 70,
        "a..b",
        "300.1.1.1",
        "ho st",
        "127.0.0.1:80",
        "http://localhost",
    ],
)
def test_an_address_that_is_not_available_is_reported(tmp_path: Path, host: str) -> None:
    """The address is unknown, belongs to another machine, or is not valid."""
    refused(prepared(tmp_path), WRONG_USE, host[:60], RECEIVER_HOST=host)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may use every port")
def test_a_port_that_needs_rights_is_reported(tmp_path: Path) -> None:
    """Some systems reserve the ports below 1024 for root."""
    with socket.socket() as trial:
        try:
            trial.bind(("127.0.0.1", 80))
        except PermissionError:
            refused(prepared(tmp_path, port="80"), WRONG_USE, "80", "--port")
        else:
            pytest.skip("this system lets everybody use port 80")


# --- the store


@dataclass
class Database:
    """A file that is not a usable database, and words of the expected error."""

    make: Callable[[Path], object]
    words: tuple[str, ...]


def foreign(path: Path) -> None:
    """Make a database of another program that has our journal mode."""
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA journal_mode = WAL")
        other.execute("CREATE TABLE notes (text)")
        other.commit()


def newer(path: Path) -> None:
    """Make a database as a later version of the receiver would."""
    with closing(sqlite3.connect(path)) as later:
        later.execute("PRAGMA journal_mode = WAL")
        later.execute(f"PRAGMA application_id = {0x43525631}")
        later.execute("CREATE TABLE deliveries (seq)")
        later.execute("PRAGMA user_version = 9999")


DATABASES = {
    "garbage": Database(lambda path: path.write_bytes(b"not a database " * 1000), ("not a SQLite database",)),
    "a short text": Database(lambda path: path.write_bytes(b"remember the milk"), ("not a SQLite database",)),
    "of another program": Database(foreign, ("another program", "RECEIVER_STORE")),
    "of a newer version": Database(newer, ("newer version", "Nothing was changed")),
    "a folder": Database(lambda path: path.mkdir(), ("folder",)),
    "a dangling link": Database(lambda path: path.symlink_to("/nowhere/at/all"), ()),
}


@pytest.mark.parametrize("database", DATABASES.values(), ids=DATABASES.keys())
@pytest.mark.parametrize("command", ["serve", "work", "events list"])
def test_a_file_that_is_not_our_database_is_refused_unchanged(
    tmp_path: Path, database: Database, command: str
) -> None:
    """The exit code is 3. The file and the folder do not change."""
    deployment = prepared(tmp_path)
    database.make(deployment.database)
    before = files(tmp_path)

    done = deployment.run(*command.split())

    told = [line for line in done.stderr.splitlines() if " worker_started handlers=" not in line]
    ended_with_one_line(
        Finished(done.code, done.stdout, "\n".join(told)), STORE_UNREACHABLE, "receiver.db", *database.words
    )
    assert files(tmp_path) == before


def test_check_reports_the_same_error_and_changes_nothing(tmp_path: Path) -> None:
    """The exit code is the one of the worst error."""
    deployment = prepared(tmp_path)
    newer(deployment.database)
    before = files(tmp_path)

    done = deployment.run("check")

    assert done.code == STORE_UNREACHABLE
    assert "newer version" in done.text
    assert "Traceback" not in done.text
    assert files(tmp_path) == before


@pytest.mark.parametrize(
    "store", ["sqlite:///no/such/folder/r.db", "sqlite:////proc/r.db", "sqlite:////dev/null/r.db"]
)
def test_a_store_that_cannot_be_created_is_reported(tmp_path: Path, store: str) -> None:
    """Its folder does not exist, or nobody may write there, not even root."""
    refused(prepared(tmp_path, store=store), STORE_UNREACHABLE, "r.db")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")
@pytest.mark.parametrize("mode", [0o000, 0o400])
async def test_a_database_without_write_permission_is_reported(tmp_path: Path, mode: int) -> None:
    """A service user who does not own the file has this problem."""
    deployment = prepared(tmp_path)
    async with deployment.serve() as serving:
        serving.send_signal(signal.SIGTERM)
        assert await serving.exit_code() == 0
    deployment.database.chmod(mode)
    ended_with_one_line(deployment.run("serve"), STORE_UNREACHABLE, "receiver.db")


@pytest.mark.parametrize("command", [("events", "list"), ("events", "show", "a"), ("events", "raw", "a")])
def test_a_command_that_only_reads_does_not_create_a_store(tmp_path: Path, command: tuple[str, ...]) -> None:
    """An empty database would hide that the path is wrong."""
    deployment = prepared(tmp_path)
    before = files(tmp_path)

    done = deployment.run(*command)

    assert done.code == STORE_UNREACHABLE
    assert "there is no database" in done.stderr
    assert "Traceback" not in done.text
    assert files(tmp_path) == before


# --- handlers


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("handlers", ("module:router",)),
        ("handlers:", ("module:router",)),
        (":router", ("module:router",)),
        ("handlers:nothing", ("'nothing'", "Router")),
        ("handlers:os", ("handlers.os is of type module", "Router")),
        ("no_such_module:router", ("no_such_module",)),
        ("handlers.deeper:router", ("handlers.deeper",)),
        ("../handlers:router", ("handlers",)),
        ("..handlers:router", ("handlers",)),
        ("hand lers:router", ("hand lers",)),
    ],
)
def test_an_unknown_module_of_handlers_is_reported(tmp_path: Path, name: str, words: tuple[str, ...]) -> None:
    """The exit code is 2 with one line for any name. The first worker of `serve` reports the same."""
    deployment = prepared(tmp_path, handlers=name)
    before = files(tmp_path)

    done = deployment.run("work")

    lines = [line for line in done.text.splitlines() if line.startswith("receiver: ")]
    assert done.code == WRONG_USE, done.text
    assert len(lines) == 1
    assert all(word in lines[0] for word in words), lines
    assert "Traceback" not in done.text
    assert files(tmp_path) == before
