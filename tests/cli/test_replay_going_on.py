"""A replay that is stopped, at whatever point, and continued as it says ends like one that was not."""

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.kept import BODY, delivery, items
from tests.cli.replaying import HANDLED, Command, handled, keep, keep_jobs, write_handlers

pytestmark = pytest.mark.usefixtures("configured")

_COUNT = 8
_ORDERS = pytest.mark.parametrize("order", ["arrival", "job"])

# Ctrl-C comes while the delivery is handled whose number, over all runs, is in the file `stops`.
_CODE = """
import os, signal
from pathlib import Path

def note(*words):
    with open("handled", "a") as file:
        print(*words, file=file)

def tick():
    count = Path("count")
    number = int(count.read_text()) if count.exists() else 0
    count.write_text(str(number + 1))
    if str(number) in Path("stops").read_text().split():
        signal.raise_signal(signal.SIGINT)
    return True
"""
_HERE = f"""{_CODE}
@router.on("*")
async def first(event, ctx):
    tick()
    note("first", ctx.delivery.id)
    return ctx.delivery.id

@router.on("*", batch=3)
async def many(events, ctx):
    for info in ctx.deliveries:
        note("many", info.id)
    return "some"

@router.on("*")
def last(event, ctx):
    note("last", ctx.delivery.id)
"""
_ENQUEUE = f"""{_CODE}
@router.on("*", where=lambda event: tick())
async def one(event): ...

@router.on("*", lane=lambda event: event.job_id)
async def two(event): ...
"""


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command."""
    return Command(monkeypatch, capsys)


def stop_at(*numbers: int) -> None:
    """Set the deliveries at which Ctrl-C comes, and count from 0."""
    Path("stops").write_text(" ".join(map(str, numbers)))
    Path("count").unlink(missing_ok=True)
    HANDLED.unlink(missing_ok=True)


def recorded() -> Counter[tuple[str, ...]]:
    """Return the work items of a replay, and forget them."""
    found: Counter[tuple[str, ...]] = Counter(
        (item.key, item.handler, item.state.value, str(item.lane)) for item in items()
    )
    with closing(sqlite3.connect("kept.db")) as connection, connection:
        connection.execute("DELETE FROM attempts")
        connection.execute("DELETE FROM work_items")
    return found


@_ORDERS
def test_handlers_run_once_for_each_event_after_any_stop(
    order: str, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a stop at any event each handler gets all events in order; saved and recorded results are the same."""
    keep_jobs(_COUNT)
    write_handlers(_HERE, monkeypatch)
    asked = ("--order", order, "--record", "--save")
    stop_at()
    assert command.to_the_end(*asked, "whole") == 0
    whole, kept = handled(), recorded()
    assert len(whole) == sum(kept.values()) == 3 * _COUNT

    for number in range(_COUNT):
        stop_at(number)
        stopped = command.to_the_end(*asked, f"stopped {number}")

        assert stopped == (number < _COUNT - 1)
        for handler in ("first", "many", "last"):
            assert of(handler, handled()) == of(handler, whole)
        assert recorded() == kept
        assert command("--order", order, "--compare", f"stopped {number}") == 0
        assert f"{3 * _COUNT:>11,}  same" in command.out
        assert recorded() == Counter()


def of(handler: str, lines: list[str]) -> list[str]:
    """Return the lines of one handler."""
    return [line for line in lines if line.startswith(handler)]


@_ORDERS
def test_a_replay_can_be_stopped_at_every_event(
    order: str, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The printed command does not grow."""
    keep_jobs(_COUNT)
    write_handlers(_HERE, monkeypatch)
    stop_at()
    command.to_the_end("--order", order)
    whole = handled()

    stop_at(*range(_COUNT))
    assert command.to_the_end("--order", order) == _COUNT - 1

    assert sorted(handled()) == sorted(whole)
    assert of("first", handled()) == of("first", whole)


@_ORDERS
def test_work_items_are_made_once_after_any_stop(
    order: str, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stop comes at each delivery, and then at all."""
    keep_jobs(_COUNT)
    write_handlers(_ENQUEUE, monkeypatch)
    asked = ("--order", order, "--enqueue")
    stop_at()
    assert command.to_the_end(*asked) == 0
    whole = recorded()
    assert sum(whole.values()) == 2 * _COUNT

    for numbers in [*[[number] for number in range(_COUNT)], list(range(_COUNT))]:
        stop_at(*numbers)
        assert command.to_the_end(*asked) == len([one for one in numbers if one < _COUNT - 1])
        assert recorded() == whole


def test_events_that_arrive_meanwhile_are_not_replayed(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a limit, the newest are those that were the newest when it began."""
    keep_jobs(_COUNT)
    write_handlers(_HERE, monkeypatch)
    stop_at(1)
    assert command("--limit", "3", "--since", "100w", "--handler", "*.first") == 130
    keep(delivery("new", 60))

    assert command.exactly(*command.way_on) == 0

    assert handled() == ["first k5", "first k6", "first k7"]


def test_the_printed_command_has_all_given_options(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Moments are absolute, each option appears once, and words are quoted."""
    keep(delivery("a", job_id="j 1"), delivery("b", 1, job_id="j 1"))
    write_handlers(_HERE, monkeypatch)
    stop_at(0)

    command("--until=2026-08-04T15:00+02:00", "--job", "j 1", "--order", "job", "--where", "success != 'a b'")
    assert command.way_on == [
        *["replay", "--job", "j 1", "--until", "2026-08-04T13:00:00.000000Z", "--where", "success != 'a b'"],
        *["--order", "job", "--after", "1:j 1", "--yes"],
    ]


def test_a_replay_of_a_bundle_is_continued(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name may look like anything."""
    keep_jobs(4)
    command.exactly("events", "export", "a bundle")
    write_handlers(_HERE, monkeypatch)
    stop_at(2)

    assert command("--handler", "*.first", "--", "a bundle") == 130
    assert command.exactly(*command.way_on) == 0

    assert handled() == [f"first k{n}" for n in range(4)]


def test_a_job_id_cannot_control_the_terminal(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes from outside and is part of the printed command."""
    keep(*[delivery(key, job_id="\x1b[31m", body=BODY) for key in "ab"])
    write_handlers(_HERE, monkeypatch)
    stop_at(0)

    assert command("--order", "job") == 130

    assert "\\x1b[31m" in command.err
    assert "\x1b" not in command.err
