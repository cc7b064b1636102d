"""`receiver events prune`, run as a user runs it, on a real database."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import timedelta

import pytest

from receiver.cli.main import receiver, run
from receiver.core.clock import SystemClock
from tests.cli.kept import BODY, DEAD, DONE, RUNNING, WAITING, Filling, fill, on_a_terminal
from tests.doubles import LONG

pytestmark = pytest.mark.usefixtures("configured")

OLD = SystemClock().now() - timedelta(days=40)
YOUNG = SystemClock().now() - timedelta(days=20)


def invoke(*args: str) -> int:
    return run(receiver.main, ["events", *args])


@pytest.fixture
def filled(configured: None) -> None:
    """The store has old events that are done, done, dead and waiting, and a new one that is done."""

    async def step(store: Filling) -> None:
        for state in (DONE, DONE, DEAD, WAITING):
            await store.item(state, received_at=OLD)
        await store.item(DONE, received_at=YOUNG, type="agent.action")

    fill(step)


def listed(capsys: pytest.CaptureFixture[str]) -> dict[str, bool]:
    """Return what is stored and whether it has its body."""
    capsys.readouterr()
    assert invoke("list", "--json") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return {line["id"]: line["has_body"] for line in reversed(lines)}


@pytest.mark.usefixtures("filled")
def test_old_finished_events_are_deleted(capsys: pytest.CaptureFixture[str]) -> None:
    """A plan comes first, and other events stay."""
    assert invoke("prune", "--older-than", "30d", "--yes") == 0

    out = capsys.readouterr().out.splitlines()
    assert out[0] == f"2 events to delete, {2 * len(BODY)} bytes"
    assert out[-1] == f"deleted 2 events, {2 * len(BODY)} bytes"
    assert listed(capsys) == {"key-3": True, "key-4": True, "key-5": True}


@pytest.mark.usefixtures("filled")
def test_bodies_alone_can_be_deleted(capsys: pytest.CaptureFixture[str]) -> None:
    """The events are still listed, and show that their bodies were pruned."""
    assert invoke("prune", "--older-than", "30d", "--bodies", "--yes") == 0

    assert "deleted 2 bodies" in capsys.readouterr().out
    assert listed(capsys)["key-1"] is False
    assert invoke("show", "key-1") == 0
    assert f"pruned; it had {len(BODY)} bytes" in capsys.readouterr().out
    assert invoke("raw", "key-1") == 1
    assert "the body of event key-1 was pruned" in capsys.readouterr().err
    assert invoke("prune", "--older-than", "30d", "--bodies", "--yes") == 0
    assert "no event matched" in capsys.readouterr().err


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(
    ("flags", "left"),
    [
        (("--older-than", "30d", "--state", "dead"), [1, 2, 4, 5]),
        (("--older-than", "10d", "--type", "agent.*"), [1, 2, 3, 4]),
        (("--older-than", "10d"), [3, 4]),
        (("--older-than", "60d"), [1, 2, 3, 4, 5]),
    ],
)
def test_filters_choose(capsys: pytest.CaptureFixture[str], flags: tuple[str, ...], left: list[int]) -> None:
    """They choose by age, type and state. Waiting work is never chosen."""
    assert invoke("prune", *flags, "--yes") == 0

    assert listed(capsys) == {f"key-{n}": True for n in left}


@pytest.mark.usefixtures("filled")
def test_a_dry_run_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """The command shows the plan."""
    assert invoke("prune", "--older-than", "30d", "--dry-run") == 0

    assert "2 events to delete" in capsys.readouterr().out
    assert len(listed(capsys)) == 5


@pytest.mark.usefixtures("filled")
def test_without_a_terminal_nothing_is_deleted(capsys: pytest.CaptureFixture[str]) -> None:
    """The message says to add --yes."""
    assert invoke("prune", "--older-than", "30d") == 2

    assert "add --yes" in capsys.readouterr().err
    assert len(listed(capsys)) == 5


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(("answer", "code", "left"), [("y", 0, 3), ("n", 1, 5)])
def test_it_asks_on_a_terminal(capsys: pytest.CaptureFixture[str], answer: str, code: int, left: int) -> None:
    """Only the answer yes deletes events."""
    status, seen = on_a_terminal("events", "prune", "--older-than", "30d", answer=f"{answer}\n")

    assert "Delete 2 events?" in seen
    assert status == code
    assert len(listed(capsys)) == left


@pytest.mark.parametrize(
    "flags", [(), ("--older-than", "soon"), ("--older-than", "30d", "--state", "new"), ("--older-than", "30")]
)
def test_wrong_use_is_reported(capsys: pytest.CaptureFixture[str], flags: tuple[str, ...]) -> None:
    """The age is required."""
    assert invoke("prune", *flags, "--yes") == 2


@pytest.mark.usefixtures("filled")
def test_a_disk_with_little_room_is_noted_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """In a sentence, as the command notes everything, and not as a line of a server's log."""
    blocks = 15 * 256
    found = os.statvfs_result((4_096, 4_096, 2 * blocks, blocks, blocks, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda path: found)

    assert invoke("prune", "--older-than", "30d", "--yes") == 0

    assert capsys.readouterr().err == (
        "kept.db-ballast was not made, and without it nothing can be pruned on a full disk: "
        "16 MB are free, and it needs 17 MB; take a larger disk\n"
    )
    assert caplog.records == []


def test_without_a_store_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 3."""
    assert invoke("prune", "--older-than", "30d", "--yes") == 3


def test_more_events_than_one_step_takes_are_deleted(capsys: pytest.CaptureFixture[str]) -> None:
    """All finished events are deleted, and running work stays."""

    async def step(store: Filling) -> None:
        await store.items(450, DONE, received_at=OLD)
        await store.item(RUNNING, received_at=OLD)

    fill(step)

    assert invoke("prune", "--older-than", "30d", "--yes") == 0
    assert "deleted 450 events" in capsys.readouterr().out
    assert listed(capsys) == {"key-451": True}


def execute(statement: str) -> None:
    """Change the database from outside."""
    with closing(sqlite3.connect("kept.db", isolation_level=None)) as connection:
        connection.execute(statement)


def left() -> int:
    """Return how many deliveries are stored."""
    with closing(sqlite3.connect("kept.db")) as connection:
        return int(connection.execute("SELECT count(*) FROM deliveries").fetchone()[0])


def test_ctrl_c_finishes_the_step_at_hand_and_the_same_command_continues() -> None:
    """Exit code 130; what it says is what is in the store, and the same command does the rest."""
    fill(lambda store: store.items(600, DONE, received_at=OLD))
    # Each step takes long enough for the signal to come while one is being written.
    execute(
        """CREATE TRIGGER slow AFTER DELETE ON deliveries BEGIN
        SELECT count(*) FROM deliveries AS a, (SELECT 1 FROM deliveries LIMIT 20) WHERE a.size > 0; END"""
    )
    command = [sys.executable, "-m", "receiver", "events", "prune", "--older-than", "30d", "--yes"]

    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while left() == 600 and process.poll() is None:
            pass
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=LONG)

    assert process.returncode == 130
    removed = 600 - left()
    assert removed in range(100, 600, 100)
    assert err.rstrip() == f"stopped: {removed} of 600 were deleted; the same command continues with the rest"
    execute("DROP TRIGGER slow")
    assert invoke("prune", "--older-than", "30d", "--yes") == 0
    assert left() == 0
