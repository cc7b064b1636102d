"""A store that cannot write: 503 in time, /readyz red, and recovery by itself; 2xx only for what is there."""

import asyncio
import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.process.faults import locked, without_room
from tests.process.harness import PATIENCE_SECONDS, Deployment, Load, Serving, get, post, until

SHORT = {"ack_deadline": "2", "read_timeout": "1"}
"""Where every answer waits for its deadline. Elsewhere a machine that stalls may not turn a 200 into a 503."""


async def becomes_red(serving: Serving) -> None:
    """Check that /readyz tells what is wrong, while the process itself is alive."""
    ready = await get(serving.port, "/readyz")
    assert (ready.status, ready.json()["error"]) == (503, "unavailable")
    assert (await get(serving.port, "/healthz")).status == 200


async def recovers(deployment: Deployment, serving: Serving, load: Load) -> None:
    """Check that, without a restart, what was refused gets in and everything is handled once it is there."""
    await serving.becomes_ready()
    await load.send_again(serving.port)
    stored = deployment.stored()
    load.check_stored(stored)
    assert stored.keys() == load.acknowledged.keys()
    await deployment.all_handled()
    assert deployment.handled().keys() == load.acknowledged.keys()
    assert deployment.intact()


async def refuses(serving: Serving, load: Load) -> str:
    """Send deliveries of which none may be acknowledged; return what the last answer said."""
    before = load.answers.copy()
    await load.send(serving.port, 6)  # one on each connection
    assert set(load.answers - before) == {503}
    answer = await post(serving.port, load.body())
    assert (answer.status, answer.json()["error"]) == (503, "unavailable")
    assert int(answer.headers["retry-after"]) > 0
    return str(answer.json()["detail"])


# --- a full disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of 3 MB; skip where that takes rights this user does not have."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "none", str(folder)]
    if (
        sys.platform != "linux"
        or os.geteuid()
        or subprocess.run(mount, check=False, capture_output=True).returncode
    ):
        pytest.skip("mounting a small disk takes root on Linux; the test with a limit on file sizes stands for it")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)  # a killed process may still close its files


def make_room(disk: Path, mebibytes: int = 64) -> None:
    """Enlarge the disk, as an operator would make room on it."""
    subprocess.run(["mount", "-o", f"remount,size={mebibytes}m", str(disk)], check=True)


async def test_a_full_disk_refuses_deliveries_until_there_is_room_again(tmp_path: Path, small_disk: Path) -> None:
    """Filled to the brim by deliveries under load: each of them is either stored or answered 503."""
    deployment = Deployment(tmp_path, store=f"sqlite:///{small_disk}/receiver.db")
    deployment.database = small_disk / "receiver.db"
    load = Load(random.Random(1))
    async with deployment.serve() as serving:
        async with asyncio.timeout(PATIENCE_SECONDS):
            # A small write may still fit where a large one did not, until the last page is used.
            while (ready := await get(serving.port, "/readyz")).status == 200 or not load.answers[503]:
                await load.send(serving.port, 50)
        assert ready.json()["error"] == "unavailable"
        assert (await get(serving.port, "/healthz")).status == 200
        assert load.answers.keys() == {200, 503}
        load.check_stored(deployment.stored())

        make_room(small_disk)
        await recovers(deployment, serving, load)
        assert "Traceback" not in serving.output


def fill(disk: Path) -> Path:
    """Use up all room of the disk; return the file that does."""
    filler = disk / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4_096))
    return filler


@pytest.mark.parametrize(("room", "stopped"), [(64, False), (64, True), (40, False)])
async def test_events_are_pruned_on_a_full_disk(tmp_path: Path, small_disk: Path, room: int, stopped: bool) -> None:
    """A ballast file is given up for it, and made again when there is room. The size of the disk is in MiB."""
    make_room(small_disk, room)
    deployment = Deployment(tmp_path, store=f"sqlite:///{small_disk}/receiver.db")
    deployment.database = small_disk / "receiver.db"
    ballast = small_disk / "receiver.db-ballast"
    prune = ("events", "prune", "--older-than", "1d", "--yes")
    load = Load(random.Random(1))
    async with deployment.serve() as serving:
        await load.send(serving.port, 300)
        await deployment.all_handled()
        with closing(sqlite3.connect(deployment.database, isolation_level=None)) as connection:
            connection.execute("UPDATE deliveries SET received_at = 0")
            while connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                pass  # the log has to grow again for pruning
        await until(ballast.exists, "the worker to make the ballast")
        if stopped:
            serving.send_signal(signal.SIGTERM)
            assert await serving.exit_code() == 0
        filler = fill(small_disk)

        pruned = await asyncio.to_thread(deployment.run, *prune)

        assert pruned.code == 0, pruned.text
        assert "the disk is full: receiver.db-ballast was deleted" in pruned.stderr
        assert "ballast_given_up" not in pruned.stderr
        assert deployment.stored() == {}
        filler.unlink()
        assert (await asyncio.to_thread(deployment.run, *prune)).code == 0
        assert ballast.stat().st_size == 4 * 1024 * 1024


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits what another process may do")
async def test_a_limit_on_file_sizes_refuses_deliveries_until_it_is_lifted(tmp_path: Path) -> None:
    """The same wherever there are no mounts: every write of the writer fails, then succeeds again."""
    if resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY:
        pytest.skip("this user's file sizes are limited already")
    deployment = Deployment(tmp_path)
    load = Load(random.Random(1))
    async with deployment.serve() as serving:
        await load.send(serving.port, 20)
        assert set(load.answers) == {200}

        with without_room(await serving.writer()):
            while not load.answers[503]:
                await load.send(serving.port, 1)
            await refuses(serving, load)
            await becomes_red(serving)
            load.check_stored(deployment.stored())

        await serving.becomes_ready()
        load.sent.update(deployment.stored().values())
        await recovers(deployment, serving, load)
        assert "Traceback" not in serving.output


# --- a locked database


@pytest.mark.parametrize("how", ["IMMEDIATE", "EXCLUSIVE"])
async def test_a_locked_database_is_answered_503_by_the_deadline(tmp_path: Path, how: str) -> None:
    """The deadline decides, not SQLite's own patience, which is longer; afterwards all gets in."""
    deployment = Deployment(tmp_path, **SHORT)
    load = Load(random.Random(1))
    async with deployment.serve() as serving:
        await load.send(serving.port, 20)
        async with locked(deployment.database, how):
            before = deployment.stored()

            assert "in time" in await refuses(serving, load)

            await becomes_red(serving)
            assert deployment.stored() == before
        await serving.becomes_ready()
        # What `refuses` sent last was stored late or not at all; both are right, and its retry does not come.
        load.sent.update(deployment.stored().values())
        await load.send_again(serving.port)
        load.check_stored(deployment.stored())
        assert load.acknowledged.keys() <= deployment.stored().keys()
        await deployment.all_handled()
        assert deployment.handled().keys() == deployment.stored().keys()
        assert deployment.intact()
        assert "Traceback" not in serving.output


async def test_a_start_while_the_database_is_locked_succeeds_and_is_red_until_it_is_free(tmp_path: Path) -> None:
    """Another program's lock is no reason not to come up, nor to say that all is well."""
    deployment = Deployment(tmp_path, **SHORT)
    load = Load(random.Random(1))
    async with deployment.serve() as serving:
        await load.send(serving.port, 5)
    async with locked(deployment.database, "EXCLUSIVE"), deployment.serve(wait=False) as serving:
        line = await serving.line("listening", "http://")
        serving.port = int(line.partition("http://127.0.0.1:")[2].partition("/")[0])
        await becomes_red(serving)
    async with deployment.serve() as serving:
        await recovers(deployment, serving, load)


# --- a database that is taken away


def move(folder: Path, target: Path) -> None:
    """Move the database with what belongs to it."""
    target.mkdir(exist_ok=True)
    for path in folder.glob("receiver.db*"):
        path.rename(target / path.name)


def delete(folder: Path) -> None:
    """Delete the database with what belongs to it."""
    for path in folder.glob("receiver.db*"):
        path.unlink()


async def test_a_database_that_is_moved_away_refuses_deliveries_until_it_is_back(tmp_path: Path) -> None:
    """Nothing is acknowledged into a file that nobody can find; once it is back there is no need to restart."""
    deployment = Deployment(tmp_path)
    load = Load(random.Random(1))
    async with deployment.serve() as serving:
        await load.send(serving.port, 20)
        move(tmp_path, tmp_path / "elsewhere")

        await load.send(serving.port, 20)
        assert load.answers == {200: 20, 503: 20}
        await becomes_red(serving)
        assert not deployment.database.exists()

        move(tmp_path / "elsewhere", tmp_path)
        await recovers(deployment, serving, load)


async def test_a_database_that_is_replaced_is_not_written_to(tmp_path: Path) -> None:
    """Another file under the same name is left as it is; a restart takes it, and deliveries with it."""
    deployment = Deployment(tmp_path)
    load = Load(random.Random(1))
    async with deployment.serve() as serving:
        serving.send_signal(signal.SIGTERM)
        assert await serving.exit_code() == 0
    other = deployment.database.read_bytes()
    async with deployment.serve() as serving:
        await load.send(serving.port, 20)
        move(tmp_path, tmp_path / "elsewhere")
        deployment.database.write_bytes(other)

        await load.send(serving.port, 20)
        assert load.answers == {200: 20, 503: 20}
        await becomes_red(serving)
        assert deployment.database.read_bytes() == other
        serving.send_signal(signal.SIGTERM)
        assert await serving.exit_code() == 0
        assert deployment.database.read_bytes() == other

    load = Load(random.Random(2))
    async with deployment.serve() as serving:
        await load.send(serving.port, 20)
        assert set(load.answers) == {200}
        await recovers(deployment, serving, load)


async def test_a_deleted_database_is_made_anew_by_a_restart_only(tmp_path: Path) -> None:
    """Nothing is acknowledged after the deletion, as an empty database in its place would hide the loss."""
    deployment = Deployment(tmp_path)
    load = Load(random.Random(1))
    async with deployment.serve() as serving:
        await load.send(serving.port, 20)
        delete(tmp_path)
        load = Load(random.Random(2))
        await load.send(serving.port, 20)
        assert set(load.answers) == {503}
        await becomes_red(serving)
        assert not deployment.database.exists()
        serving.send_signal(signal.SIGTERM)
        assert await serving.exit_code() == 0
        assert not deployment.database.exists()

    (tmp_path / "handled").unlink(missing_ok=True)
    async with deployment.serve() as serving:
        await recovers(deployment, serving, load)


# --- a log that is taken away, or of another database, and damage


async def test_a_removed_log_refuses_deliveries_and_loses_none(tmp_path: Path) -> None:
    """What was acknowledged before is in the database after a restart, and nothing is acknowledged after it."""
    deployment = Deployment(tmp_path)
    load = Load(random.Random(1))
    async with deployment.serve("--no-worker") as serving:
        await load.send(serving.port, 20)
        deployment.database.with_name("receiver.db-wal").unlink()

        await load.send(serving.port, 20)
        assert load.answers == {200: 20, 503: 20}
        await becomes_red(serving)
        moved = "receiver.db-wal was moved or deleted; put it back or restart"
        await until(lambda: moved in serving.output, "the log to name the file")
        serving.send_signal(signal.SIGTERM)
        assert await serving.exit_code() == 0
        assert "Traceback" not in serving.output

    assert deployment.stored().keys() == load.acknowledged.keys()
    async with deployment.serve() as serving:
        await recovers(deployment, serving, load)


def damage(path: Path, *, keep: int) -> None:
    """Overwrite all but the first pages of a database."""
    content = bytearray(path.read_bytes())
    content[keep:] = b"\xff" * (len(content) - keep)
    path.write_bytes(content)


COMMANDS = [
    ("serve", "--port", "0"),
    ("work",),
    ("events", "list"),
    ("jobs", "list"),
    ("work-items", "list"),
    ("handlers", "list"),
    ("quarantine", "list"),
    ("drift",),
    ("check",),
    ("events", "prune", "--older-than", "1d", "--yes"),
    ("replay", "--yes"),
]


async def test_a_damaged_database_is_one_clear_line_for_every_command(tmp_path: Path) -> None:
    """The exit code is 3, and there is no traceback."""
    deployment = Deployment(tmp_path)
    load = Load(random.Random(1))
    async with deployment.serve("--no-worker") as serving:
        await load.send(serving.port, 5)
    damage(deployment.database, keep=8_192)

    for command in COMMANDS:
        done = await asyncio.to_thread(deployment.run, *command)

        assert done.code == 3, (command, done.text)
        assert done.text.count("it is damaged; `receiver restore`") == 1, (command, done.text)
        assert "Traceback" not in done.text


async def test_damage_that_shows_later_is_answered_503_and_logged_without_a_traceback(tmp_path: Path) -> None:
    """The pages are gone under a running server and its worker."""
    deployment = Deployment(tmp_path)
    load = Load(random.Random(1))
    async with deployment.serve() as serving:
        await load.send(serving.port, 20)
        await deployment.all_handled()
        with closing(sqlite3.connect(deployment.database)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            connection.execute("UPDATE sqlite_sequence SET seq = seq")  # a commit of ours empties their caches
            connection.commit()
        damage(deployment.database, keep=0)
        while not load.answers[503]:
            await load.send(serving.port, 20)
        await becomes_red(serving)
        assert "not a SQLite database" in serving.output or "is damaged" in serving.output
        assert "Traceback" not in serving.output
