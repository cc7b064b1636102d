"""Mass actions apart from what they change: plans, questions, and the doing."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from functools import partial

import click
import pytest

from receiver.cli.plans import CHUNK, Plan, agreed, carry_out
from tests.cli.kept import NOON


def planned(count: int) -> Plan:
    """Return a plan of this many items, the newest first as listings have them."""
    plan = Plan("item", by=("kind",))
    for number in range(count, 0, -1):
        plan.add(number, NOON + timedelta(minutes=number), ("a",), partial("item {}".format, number))
    return plan


@pytest.mark.parametrize("count", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 7, 140_000])
def test_a_plan_gives_back_every_id_in_either_order(count: int) -> None:
    """At most 500 at a time, as many as there are, also when they no longer lie in memory."""
    with planned(count) as plan:
        newest_first = list(plan.chunks())
        oldest_first = list(plan.chunks(backwards=True))

    assert [number for chunk in newest_first for number in chunk] == list(range(count, 0, -1))
    assert [number for chunk in oldest_first for number in chunk] == list(range(1, count + 1))
    assert max(map(len, newest_first + oldest_first), default=0) <= CHUNK


def test_a_plan_takes_the_memory_of_a_thousand_kinds() -> None:
    """Types come from outside: the rest is counted together."""
    with Plan("item", by=("type", "state")) as plan:
        for number in range(1_500):
            plan.add(number, NOON, (f"type-{number}", "dead"), lambda: "")
        counts = plan.counts("type")

    assert len(counts) == 1_001
    assert counts["others"] == 500
    assert counts.total() == plan.count == 1_500


def test_a_plan_of_one_moment_has_no_span() -> None:
    """Three lines at most are shown of the items themselves."""
    with planned(1) as plan:
        assert list(plan.lines("mend")) == [
            "1 item to mend",
            "  by kind",
            "              1  a",
            "  arrived   2026-08-04T12:01:00Z",
            "  first     item 1",
        ]
    with planned(5_000) as plan:
        assert list(plan.lines("mend")) == [
            "5,000 items to mend",
            "  by kind",
            "          5,000  a",
            "  arrived   2026-08-04T12:01:00Z to 2026-08-07T23:20:00Z",
            "  first     item 5000",
            "            item 4999",
            "            item 4998",
        ]


async def test_what_was_changed_is_counted() -> None:
    """By what the store says, not by what was asked for."""

    async def change(ids: Sequence[int]) -> int:
        return len(ids) - 1

    with planned(2 * CHUNK) as plan:
        assert await carry_out(plan, change, done="mended") == 2 * CHUNK - 2


async def test_being_cancelled_waits_for_the_chunk_at_hand(capsys: pytest.CaptureFixture[str]) -> None:
    """Its transaction is not undone by leaving, so what is told includes it."""
    begun, free = asyncio.Event(), asyncio.Event()
    changed: list[int] = []

    async def change(ids: Sequence[int]) -> int:
        if changed:
            begun.set()
            await free.wait()
        changed.extend(ids)
        return len(ids)

    with planned(3 * CHUNK) as plan:
        doing = asyncio.create_task(carry_out(plan, change, done="mended", limited=True))
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
        "stopped: 1,000 of 1,500 items were looked at, 1,000 mended; "
        "the same command goes on with the rest (--limit 500)\n",
    )


def test_yes_asks_nobody() -> None:
    """And without it there has to be somebody."""
    assert agreed("Really?", yes=True)
    with pytest.raises(click.UsageError, match="add --yes"):
        agreed("Really?", yes=False)
