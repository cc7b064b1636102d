"""`receiver actions`: what commands did, with who did it."""

import asyncio
import json
from datetime import UTC, datetime

import pytest

from receiver.cli.common.store import actor
from receiver.cli.main import receiver, run
from receiver.core.recorded_actions import INTERRUPTED, NewAction
from receiver.stores import open_store
from tests.cli.kept import DEAD, SAVE, SKIPPED, STORE, WAITING, Filling, fill, states

pytestmark = pytest.mark.usefixtures("configured")


def invoke(*args: str) -> int:
    return run(receiver.main, args)


@pytest.fixture
def some_work(configured: None) -> None:
    """Work items 1 to 3: dead, skipped and waiting."""

    async def step(store: Filling) -> None:
        for state in (DEAD, SKIPPED, WAITING):
            await store.item(state)

    fill(step)


def recorded(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    """Return what is recorded, the oldest first."""
    capsys.readouterr()
    assert invoke("actions", "--json") == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()][::-1]


@pytest.mark.usefixtures("some_work")
def test_commands_record_who_did_what_to_how_many(capsys: pytest.CaptureFixture[str]) -> None:
    """A plan that nobody agreed to is no action."""
    assert invoke("work-items", "retry", "--handler", "*", "--dry-run") == 0
    assert invoke("work-items", "retry", "--handler", "*", "--yes") == 0
    assert invoke("work-items", "bury", "3", "--reason", "no use", "--yes") == 0
    assert invoke("handlers", "pause", SAVE) == 0
    assert invoke("handlers", "pause", SAVE) == 0  # it is paused already

    rows = recorded(capsys)

    assert [(row["action"], row["about"], row["planned"], row["changed"]) for row in rows[:3]] == [
        ("retry", "work items with handler *", 2, 2),
        ("bury", "work item #3", 1, 1),
        ("pause", f"handler {SAVE}", 1, 1),
    ]
    assert {row["by"] for row in rows} == {actor()}
    assert all(row["ended_at"] is not None and row["error"] is None for row in rows)
    assert rows[0]["choice"] == {"handler": "*"}
    assert rows[2]["choice"] == {"handler": SAVE, "before": "on"}


@pytest.mark.usefixtures("some_work")
def test_a_burial_is_undone_by_its_action(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke("work-items", "bury", "--state", "waiting", "--reason", "a mistake", "--yes") == 0
    assert invoke("work-items", "list", "--action", "1", "--json") == 0
    assert '"id":3,' in capsys.readouterr().out

    assert invoke("work-items", "retry", "--action", "1", "--state", "dead", "--yes") == 0

    assert states() == ["dead", "skipped", "waiting"]
    assert [row["about"] for row in recorded(capsys)] == [
        "work items with state waiting",
        "work items with state dead, action 1",
    ]


@pytest.mark.usefixtures("some_work")
def test_a_listing_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke("actions") == 0
    assert "nothing was done yet" in capsys.readouterr().err
    assert invoke("events", "prune", "--older-than", "1d", "--state", "dead", "--yes") == 0
    capsys.readouterr()

    assert invoke("actions", "--limit", "1") == 0

    line = capsys.readouterr().out
    assert "prune" in line
    assert "events that arrived before" in line
    assert actor() in line


async def test_an_action_whose_process_died_is_not_shown_as_under_way(
    some_work: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing was seen of it for longer than a minute. The other one is under way, by its moments."""
    async with open_store(STORE).controls() as controls:
        for began in (datetime(2001, 1, 1, tzinfo=UTC), datetime(2101, 1, 1, tzinfo=UTC)):
            number = await controls.begin_action(NewAction("cli", "retry", "all", 4), now=began)
            await controls.advance_action(number, seen=1, changed=1, now=began)

    await asyncio.to_thread(invoke, "actions")
    shown = capsys.readouterr().out.splitlines()
    assert [line.split()[4] for line in shown if " retry " in line] == ["25", "stopped"]
    rows = await asyncio.to_thread(recorded, capsys)
    assert [(row["ended_at"], row["error"]) for row in rows] == [(None, INTERRUPTED), (None, None)]
