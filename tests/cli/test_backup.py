"""`receiver backup` and `receiver restore`, run as a user runs them, on a real database."""

import asyncio
import errno
import resource
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from receiver.cli.main import receiver, run
from receiver.core.claims import ClaimLimits, HandlerClaim, Lease
from receiver.core.clock import local_time
from receiver.core.types import WorkerId
from receiver.stores import open_store
from receiver.stores.sqlite.bodies import body_files
from tests.cli.kept import DEAD, DONE, NOON, RUNNING, SAVE, WAITING, delivery, fill, on_a_terminal
from tests.cli.replaying import keep
from tests.doubles import LONG
from tests.stores.rows import execute, select

pytestmark = pytest.mark.usefixtures("configured")

KEPT, COPY = Path("kept.db"), Path("copy.db")
LONG_BODY = b'{"text":"' + b"x" * 20_000 + b'"}'


def invoke(*args: str) -> int:
    return run(receiver.main, list(args))


@pytest.fixture
def filled(configured: None) -> None:
    """The store has three events."""
    fill(*(lambda store, state=state: store.item(state) for state in (DONE, DEAD, WAITING)))


def keys(path: Path) -> list[str]:
    """Return the events in a database."""
    return [key for (key,) in select(path, "SELECT key FROM deliveries ORDER BY seq")]


def files() -> set[str]:
    """Return the names of all files in the folder, without that of the locks.

    It is there if a checkpoint was due while a test filled the store.
    """
    return {entry.name for entry in Path().iterdir()} - {f"{KEPT}-locks"}


@pytest.mark.usefixtures("filled")
def test_a_backup_is_a_whole_store(capsys: pytest.CaptureFixture[str]) -> None:
    """It can be opened as the store. Nothing else is left in the folder."""
    assert invoke("backup", "copy.db") == 0

    assert capsys.readouterr().out.startswith(f"wrote copy.db: 3 events, the last arrived {local_time(NOON)}, ")
    assert files() == {"kept.db", "copy.db"}
    assert stat.S_IMODE(COPY.stat().st_mode) == 0o600
    assert keys(COPY) == keys(KEPT) == ["key-1", "key-2", "key-3"]
    assert select(COPY, "SELECT count(*) FROM work_items") == [(3,)]
    assert invoke("events", "list", "--store", "sqlite:///copy.db") == 0


@pytest.mark.usefixtures("filled")
def test_a_backup_is_made_while_others_write() -> None:
    """It has the state of its beginning, with what only the log has yet, and the writers never wait for it."""
    with closing(sqlite3.connect(KEPT, isolation_level=None, timeout=0)) as writer:
        writer.execute("PRAGMA wal_autocheckpoint = 0")
        writer.execute("CREATE TABLE filler (x)")
        writer.executemany("INSERT INTO filler VALUES (zeroblob(?))", [(1_000_000,)] * 8)
        program = (
            "import sqlite3, sys; from pathlib import Path; from receiver.stores.sqlite.backup import back_up\n"
            "def step(_): print('step', flush=True); sys.stdin.readline()\n"
            "back_up(Path('kept.db'), Path('copy.db'), overwrite=False, advance=step)"
        )
        with subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            steps = 0
            while process.stdout.readline():
                steps += 1
                assert not COPY.exists()
                writer.execute("INSERT INTO filler VALUES (1)")
                process.stdin.write("\n")
                process.stdin.flush()

    assert process.returncode == 0
    assert steps > 2
    assert select(COPY, "SELECT count(*) FROM filler") == [(8,)]
    assert select(COPY, "PRAGMA integrity_check") == [("ok",)]


@pytest.mark.usefixtures("filled")
def test_a_backup_replaces_a_file_only_by_force(capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 2, and the file stays as it was. A log of the old file goes with it."""
    COPY.write_text("precious")
    Path("copy.db-wal").write_text("its log")

    assert invoke("backup", "copy.db") == 2
    error = capsys.readouterr().err
    assert "copy.db or a log of it is there already" in error
    assert "--force replaces it" in error
    assert COPY.read_text() == "precious"

    assert invoke("backup", "copy.db", "--force") == 0
    assert keys(COPY) == ["key-1", "key-2", "key-3"]
    assert files() == {"kept.db", "copy.db"}


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (("kept.db", "--force"), 2, "is the file to copy from"),
        (("nowhere/copy.db",), 2, "cannot write nowhere/copy.db: No such file"),
        (("copy.db", "--store", "sqlite:///missing.db"), 3, "there is no database at missing.db"),
        (("copy.db", "--store", "postgresql://user:hidden@host/db"), 2, "backup and restore are for SQLite stores"),
    ],
)
def test_a_backup_that_cannot_be_made_says_why(
    capsys: pytest.CaptureFixture[str], args: tuple[str, ...], code: int, words: str
) -> None:
    """Nothing is left behind."""
    assert invoke("backup", *args) == code

    err = capsys.readouterr().err
    assert words in err
    assert "hidden" not in err
    assert files() == {"kept.db"}


def damage(path: Path) -> None:
    """Make indexes disagree with their table, which no command meets by chance."""
    execute(
        path,
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = 'marks')"
        " WHERE type = 'index' AND tbl_name = 'deliveries'",
    )


@pytest.mark.usefixtures("filled")
def test_no_backup_is_kept_of_a_damaged_store(capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 3 and the message is one line."""
    damage(KEPT)

    assert invoke("backup", "copy.db") == 3

    err = capsys.readouterr().err
    assert "the database kept.db" in err
    assert "damaged" in err
    assert len(err.splitlines()) == 1
    assert not COPY.exists()


@pytest.mark.usefixtures("filled")
def test_a_backup_has_the_bodies_that_lie_beside_the_database(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """It is one file, and a restore from it needs no other."""
    keep(delivery("long", body=LONG_BODY))
    assert len(body_files(KEPT)) == 1

    assert invoke("backup", "copy.db") == 0
    assert files() == {"kept.db", "copy.db", body_files(KEPT)[0].name}
    assert invoke("restore", "copy.db", "--yes", "--discard") == 0
    assert files() == {"kept.db", "copy.db"}

    capfdbinary.readouterr()
    assert invoke("events", "raw", "long") == 0
    assert capfdbinary.readouterr().out.rstrip(b"\n") == LONG_BODY


@pytest.mark.usefixtures("filled")
def test_a_restore_keeps_the_bodies_beside_the_store_before(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """Under its new name, so that it can be opened, and restored again."""
    assert invoke("backup", "copy.db") == 0
    keep(delivery("long", body=LONG_BODY))

    assert invoke("restore", "copy.db", "--yes") == 0

    [aside] = [path for path in Path().glob("kept.db-replaced-*") if "-bodies-" not in path.name]
    assert body_files(KEPT) == []
    assert len(body_files(aside)) == 1
    capfdbinary.readouterr()
    assert invoke("events", "raw", "long", "--store", f"sqlite:///{aside}") == 0
    assert capfdbinary.readouterr().out.rstrip(b"\n") == LONG_BODY
    assert invoke("restore", str(aside), "--yes", "--discard") == 0
    assert keys(KEPT)[-1] == "long"


@pytest.mark.usefixtures("filled")
def test_a_backup_has_many_bodies_also_of_files_that_are_removed_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker moves them while the backup runs. The copy has the state of its beginning."""
    bodies = {f"long-{n}": LONG_BODY + b" " * n for n in range(100)}
    keep(*[delivery(key, body=body) for key, body in bodies.items()])
    [file] = body_files(KEPT)
    backup = sqlite3.Connection.backup

    class Connection(sqlite3.Connection):
        def backup(self, *args: Any, **kwargs: Any) -> None:
            file.unlink()
            super().backup(*args, **kwargs)

    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Connection))
    assert backup is not Connection.backup
    assert invoke("backup", "copy.db") == 0

    assert select(COPY, "SELECT count(*) FROM bodies WHERE coding <> 0") == [(0,)]
    rows = "SELECT d.key, b.body FROM deliveries AS d JOIN bodies AS b USING (seq) WHERE d.key LIKE 'long-%'"
    assert dict(select(COPY, rows)) == bodies


@pytest.mark.usefixtures("filled")
def test_a_backup_takes_no_files_for_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    """It is restored where the store was that somebody has renamed: its files stay for that one."""
    number = "SELECT value FROM marks WHERE name = 'store'"
    assert invoke("backup", "copy.db") == 0

    assert select(COPY, number) != select(KEPT, number)


@pytest.mark.usefixtures("filled")
def test_a_restore_discards_only_the_bodies_of_the_store_that_it_replaces() -> None:
    """Somebody has moved another store away and left its files here."""
    keep(delivery("long", body=LONG_BODY))
    assert invoke("backup", "copy.db") == 0
    [theirs] = body_files(KEPT)
    KEPT.rename("moved.db")
    keep(delivery("new", body=LONG_BODY))

    assert invoke("restore", "copy.db", "--yes", "--discard") == 0

    assert body_files(KEPT) == [theirs]


@pytest.mark.usefixtures("filled")
def test_a_store_is_backed_up_and_restored_through_a_link() -> None:
    """The file itself is replaced, and kept beside itself."""
    Path("disk").mkdir()
    for name in ("kept.db", *[one.name for one in Path().glob("kept.db-*")]):
        Path(name).rename(Path("disk", name))
    KEPT.symlink_to(Path("disk", "kept.db"))
    keep(delivery("long", body=LONG_BODY))
    assert invoke("backup", "copy.db") == 0
    keep(delivery("later", body=LONG_BODY))

    assert invoke("restore", "copy.db", "--yes") == 0

    [aside] = [path for path in Path("disk").glob("kept.db-replaced-*") if path.name[-1] == "Z"]
    assert KEPT.is_symlink()
    assert (keys(KEPT)[-1], keys(aside)[-1]) == ("long", "later")
    assert invoke("events", "raw", "later", "--store", f"sqlite:///{aside}") == 0
    assert invoke("events", "raw", "long") == 0


@pytest.mark.usefixtures("filled")
def test_a_backup_whose_last_pages_find_no_room_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite tells nobody when it cannot move them from the log of the copy while it is closed."""
    keep(*[delivery(f"short-{n}", body=b"x" * 7_000) for n in range(100)])
    keep(*[delivery(f"long-{n}", body=LONG_BODY) for n in range(20)])

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (KEPT.stat().st_size + 100_000, resource.RLIM_INFINITY))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    command = [sys.executable, "-m", "receiver", "backup", "copy.db", "--store", "sqlite:///kept.db"]
    done = subprocess.run(command, preexec_fn=limit, check=False, capture_output=True)

    assert (done.returncode, COPY.exists()) == (3, False), done.stderr.decode()


@pytest.mark.usefixtures("filled")
def test_no_backup_is_kept_without_a_body(capsys: pytest.CaptureFixture[str]) -> None:
    """The message names the event, and the file that is not there."""
    keep(delivery("long", body=LONG_BODY))
    [file] = body_files(KEPT)
    file.unlink()

    assert invoke("backup", "copy.db") == 3

    err = capsys.readouterr().err
    assert f"the body of delivery long cannot be read: {file}: No such file or directory; put the file back" in err
    assert len(err.splitlines()) == 1
    assert files() == {"kept.db"}


@pytest.mark.usefixtures("filled")
def test_a_backup_that_runs_out_of_space_leaves_nothing() -> None:
    """Here a limit on the size of files stands in for a full disk."""
    command = [sys.executable, "-B", "-m", "receiver", "backup", "copy.db"]

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))

    done = subprocess.run(command, capture_output=True, text=True, timeout=LONG, check=False, preexec_fn=limit)

    assert done.returncode == 3
    assert done.stderr.startswith("receiver: the database copy.db cannot be used: ")
    assert len(done.stderr.splitlines()) == 1
    assert files() == {"kept.db"}


@pytest.mark.usefixtures("filled")
def test_a_backup_is_restored_where_no_store_is(capsys: pytest.CaptureFixture[str]) -> None:
    """There is nothing to ask."""
    assert invoke("backup", "copy.db") == 0
    KEPT.unlink()
    capsys.readouterr()

    assert invoke("restore", "copy.db") == 0

    out = capsys.readouterr().out.splitlines()
    assert out[0] == "restore copy.db to kept.db"
    assert out[1].startswith(f"  backup    3 events, the last arrived {local_time(NOON)}, ")
    assert out[2:] == ["restored kept.db"]
    assert files() == {"kept.db", "copy.db"}
    assert keys(KEPT) == ["key-1", "key-2", "key-3"]


def crash_with_log() -> None:
    """Leave the store with an event that only its log has, as a crash would."""
    shutil.copy(KEPT, "before.db")
    with closing(sqlite3.connect(KEPT, isolation_level=None)) as connection:
        connection.execute("DELETE FROM deliveries WHERE key = 'key-1'")
        shutil.copy("kept.db-wal", "before.db-wal")
    Path("before.db").replace(KEPT)
    Path("before.db-wal").replace("kept.db-wal")


@pytest.mark.usefixtures("filled")
def test_a_restore_replaces_a_store_and_its_log(capsys: pytest.CaptureFixture[str]) -> None:
    """The plan says what is replaced. Without --yes and a terminal nothing changes, and --dry-run stops there."""
    assert invoke("backup", "copy.db") == 0
    crash_with_log()
    before = KEPT.read_bytes(), Path("kept.db-wal").read_bytes()

    assert invoke("restore", "copy.db", "--dry-run") == 0
    assert "  replaces  a database of " in capsys.readouterr().out
    assert invoke("restore", "copy.db") == 2
    assert "add --yes" in capsys.readouterr().err
    assert (KEPT.read_bytes(), Path("kept.db-wal").read_bytes()) == before

    assert invoke("restore", "copy.db", "--yes", "--discard") == 0
    assert files() == {"kept.db", "copy.db"}
    assert keys(KEPT) == ["key-1", "key-2", "key-3"]


@pytest.mark.usefixtures("filled")
def test_a_restore_keeps_the_store_before_under_another_name(capsys: pytest.CaptureFixture[str]) -> None:
    """With its newest events, which only its log has. The plan counts those that the backup does not have."""
    execute(KEPT, "UPDATE deliveries SET received_at = received_at - 60000000 WHERE key = 'key-1'")
    assert invoke("backup", "copy.db") == 0
    execute(COPY, "DELETE FROM deliveries WHERE key <> 'key-1'")
    crash_with_log()
    capsys.readouterr()

    assert invoke("restore", "copy.db", "--yes") == 0

    out = capsys.readouterr().out
    assert "2 events in it arrived after the last one of the backup" in out
    [aside] = Path().glob("kept.db-replaced-*")
    assert f"  keeps it  as {aside}\n" in out
    assert out.endswith(f"restored kept.db; the one before is {aside}\n")
    assert files() == {"kept.db", "copy.db", aside.name}
    assert keys(KEPT) == ["key-1"]
    assert keys(aside) == ["key-2", "key-3"]


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("options", [[], ["--discard"]])
def test_a_restore_that_ends_before_the_backup_is_in_place_leaves_the_whole_store(
    options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also the newest events, which only its log had."""
    assert invoke("backup", "copy.db") == 0
    crash_with_log()

    def refuse(path: Path, target: Path) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Path, "replace", refuse)
    assert invoke("restore", "copy.db", "--yes", *options) != 0

    assert keys(KEPT) == ["key-2", "key-3"]


@pytest.mark.usefixtures("filled")
def test_a_killed_backup_leaves_nothing_when_the_next_one_is_made() -> None:
    """What it has written can be as large as the store."""
    program = """
import os, signal
from receiver.cli.main import main
from receiver.stores.sqlite import backup

backup._checked = lambda *args, **options: os.kill(os.getpid(), signal.SIGKILL)
main()
"""
    killed = subprocess.run([sys.executable, "-B", "-c", program, "backup", "copy.db"], timeout=LONG, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert files() > {"kept.db"}

    assert invoke("backup", "copy.db") == 0

    assert files() == {"kept.db", "copy.db"}


@pytest.mark.usefixtures("filled")
def test_a_log_without_a_database_is_replaced_only_when_asked() -> None:
    """It may be all that is left of a store."""
    assert invoke("backup", "copy.db") == 0
    crash_with_log()
    KEPT.unlink()

    assert invoke("restore", "copy.db") == 2
    assert Path("kept.db-wal").exists()
    assert invoke("restore", "copy.db", "--yes", "--discard") == 0
    assert files() == {"kept.db", "copy.db"}


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(("answer", "code", "left"), [("y", 0, 3), ("n", 1, 2)])
def test_a_restore_asks_on_a_terminal(answer: str, code: int, left: int) -> None:
    """Only the answer yes replaces the store."""
    assert invoke("backup", "copy.db") == 0
    execute(KEPT, "DELETE FROM deliveries WHERE key = 'key-1'")

    status, seen = on_a_terminal("restore", "copy.db", answer=f"{answer}\n")

    assert "Replace kept.db?" in seen
    assert status == code
    assert len(keys(KEPT)) == left


@pytest.mark.usefixtures("filled")
def test_a_store_that_is_open_is_not_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever has it open would write into a file that nobody finds. The exit code is 3."""
    assert invoke("backup", "copy.db") == 0
    program = (
        "import sqlite3, sys; opened = sqlite3.connect('kept.db');"
        "opened.execute('SELECT * FROM marks').fetchall();"
        "print('open', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()

        assert invoke("restore", "copy.db", "--yes") == 3
        assert "kept.db is in use; stop the server" in capsys.readouterr().err
        assert invoke("backup", "kept.db", "--force", "--store", "sqlite:///copy.db") == 3
        assert other.stdin is not None
        other.stdin.close()

    assert invoke("restore", "copy.db", "--yes") == 0


@pytest.mark.usefixtures("configured")
def test_a_restored_store_shows_no_worker_of_the_backup(capsys: pytest.CaptureFixture[str]) -> None:
    """It stopped since, and hangs nowhere. What it ran is due at once, and is no suspect for what ended it."""
    fill(lambda store: store.item(RUNNING))
    execute(
        KEPT,
        "INSERT INTO workers (name, machine, pid, version, started_at, seen_at) VALUES ('w', 'm', 1, '1', 1, 1)",
        "UPDATE work_items SET started = 1, lease_until = 9000000000000000",
    )
    assert invoke("backup", "copy.db") == 0
    assert invoke("restore", "copy.db", "--yes", "--discard") == 0
    assert select(KEPT, "SELECT name FROM workers") == []

    async def claimed() -> int:
        async with open_store("sqlite:///kept.db").queue() as queue:
            lease, one = Lease(WorkerId("other"), NOON + timedelta(minutes=1)), HandlerClaim(SAVE)
            return len(await queue.claim([one], ClaimLimits(9, 9_999), lease=lease, now=NOON))

    assert asyncio.run(claimed()) == 1
    assert select(KEPT, "SELECT attempts, uncounted, lost, deaths, suspect FROM work_items") == [(2, 1, 1, 0, 0)]


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("content", [b"", b"hello", b"SQLite format 3\0" + b"\xff" * 2_000])
def test_what_is_no_backup_is_not_restored(capsys: pytest.CaptureFixture[str], content: bytes) -> None:
    """The store stays as it is, and the exit code is 3."""
    COPY.write_bytes(content)

    assert invoke("restore", "copy.db", "--yes") == 3

    assert "copy.db" in capsys.readouterr().err
    assert len(keys(KEPT)) == 3


@pytest.mark.usefixtures("filled")
def test_a_damaged_backup_is_not_restored(capsys: pytest.CaptureFixture[str]) -> None:
    """The store stays as it is, and the exit code is 3."""
    assert invoke("backup", "copy.db") == 0
    damage(COPY)

    assert invoke("restore", "copy.db", "--yes") == 3

    err = capsys.readouterr().err
    assert "the database copy.db cannot be used: it is damaged" in err
    assert "use another backup; nothing was replaced" in err
    assert "receiver restore" not in err
    assert len(keys(KEPT)) == 3
    assert files() == {"kept.db", "copy.db"}


@pytest.mark.usefixtures("filled")
def test_a_damaged_store_can_be_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    """The plan says that nobody can count its events, and it is kept as it is."""
    assert invoke("backup", "copy.db") == 0
    KEPT.write_bytes(b"garbage")
    Path("kept.db-wal").write_bytes(b"garbage")
    capsys.readouterr()

    assert invoke("restore", "copy.db", "--yes") == 0

    assert "it cannot be read, so it may have newer events" in capsys.readouterr().out
    assert [path.read_bytes() for path in Path().glob("kept.db-replaced-*")] == [b"garbage"] * 2
    assert len(keys(KEPT)) == 3
