"""Actions on many items: plans, questions, and the change."""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta

import click
import pytest

from receiver.cli.common.confirm import agreed, carry_out, count_lines, say_part, span_and_first
from receiver.cli.main import receiver, run
from receiver.core.choosing import CHUNK
from receiver.core.clock import local_time
from tests.cli.kept import NOON


async def chunks(count: int) -> AsyncIterator[Sequence[int]]:
    """Yield so many ids in chunks."""
    for start in range(0, count, CHUNK):
        yield range(start, min(start + CHUNK, count))


def test_kinds_are_counted_with_the_most_frequent_first() -> None:
    """At most ten names are listed, and the others are one line."""
    counts = {f"type-{number:02}": 1 for number in range(11)} | {"many": 2_000}

    lines = list(count_lines("type", counts, 0))

    assert lines[:3] == ["  by type", "          2,000  many", "              1  type-00"]
    assert lines[10:] == ["              1  type-08", "                 and 2 more"]
    assert list(count_lines("type", counts, 5_000))[-1] == "                 and 3 more"
    assert list(count_lines("state", {"dead": 1}, 0)) == ["  by state", "              1  dead"]


def test_a_plan_of_one_moment_has_no_span() -> None:
    """The first examples come below, one line each."""
    assert list(span_and_first(NOON, NOON, ["a\x1b"])) == [f"  arrived   {local_time(NOON)}", "  first     a\\x1b"]
    assert list(span_and_first(NOON, NOON + timedelta(minutes=1), ["a", "b"])) == [
        f"  arrived   {local_time(NOON)} to {local_time(NOON + timedelta(minutes=1))}",
        "  first     a",
        "            b",
    ]
    assert list(span_and_first(None, None, [])) == []


def test_a_part_of_a_plan_is_wrapped_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a pipe it is one line."""
    monkeypatch.setenv("COLUMNS", "40")
    text = "3 events, the last arrived at noon, 20 KB"

    say_part("backup", text)
    assert capsys.readouterr().out == f"  backup    {text}\n"

    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    say_part("backup", text)
    assert capsys.readouterr().out == "  backup    3 events, the last arrived\n            at noon, 20 KB\n"


async def test_changed_items_are_counted() -> None:
    """The store's answer counts."""

    async def change(ids: Sequence[int]) -> int:
        return len(ids) - 1

    done = await carry_out(chunks(2 * CHUNK), change, planned=2 * CHUNK, noun="item", done="changed")

    assert done == 2 * CHUNK - 2


async def test_a_cancellation_waits_for_the_chunk_at_hand(capsys: pytest.CaptureFixture[str]) -> None:
    """Its transaction is not undone, so the message counts it."""
    begun, free = asyncio.Event(), asyncio.Event()
    changed: list[int] = []

    async def change(ids: Sequence[int]) -> int:
        if changed:
            begun.set()
            await free.wait()
        changed.extend(ids)
        return len(ids)

    count = 3 * CHUNK
    doing = asyncio.create_task(
        carry_out(chunks(count), change, planned=count, noun="item", done="changed", limited=True)
    )
    await begun.wait()
    doing.cancel()
    await asyncio.sleep(0)
    assert not doing.done()
    free.set()
    with pytest.raises(asyncio.CancelledError):
        await doing

    assert len(changed) == 2 * CHUNK
    assert capsys.readouterr() == (
        "",
        "stopped: 1,000 of 1,500 items were checked, 1,000 changed; "
        "the same command continues with the rest (--limit 500)\n",
    )


def test_yes_asks_nobody() -> None:
    """Without --yes a person must answer."""
    assert agreed("Really?", yes=True)
    with pytest.raises(click.UsageError, match="add --yes"):
        agreed("Really?", yes=False)


@pytest.mark.parametrize(
    "command",
    [
        "events list",
        "jobs list",
        "work-items list",
        "work-items retry",
        "quarantine list",
        "events export",
        "replay",
    ],
)
@pytest.mark.parametrize(("since", "until"), [("2h", "3h"), ("2026-08-04T12:00Z", "2026-08-04T12:00Z")])
@pytest.mark.usefixtures("configured")
def test_an_empty_span_is_wrong_use(
    command: str, since: str, until: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It must not look like a store in which nothing matches."""
    assert run(receiver.main, [*command.split(), "--since", since, "--until", until]) == 2

    assert "nothing can match: --since is not before --until" in capsys.readouterr().err
