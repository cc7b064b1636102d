"""The contract of pruning."""

from dataclasses import replace

import pytest

from receiver.core.activity import PruneRule, Step
from receiver.core.bulk import Imported
from receiver.core.deliveries import DeliveryFilter
from receiver.core.types import AppendOutcome, DeliveryKey, DeliveryState, WorkState
from receiver.core.work import NewWork
from receiver.errors import UnknownDelivery, UnknownWork
from tests.doubles import NOON, delivery
from tests.stores.opened import (
    DAY,
    DEAD,
    DONE,
    HELD,
    MICROSECOND,
    MUCH,
    ONE,
    QUEUED,
    RUNNING,
    SECOND,
    SKIPPED,
    WAITING,
    Opened,
    ended,
)
from tests.stores.test_paging import read

LATER = NOON + 30 * DAY
EVERYTHING = PruneRule(LATER)
BODIES = PruneRule(LATER, bodies=True)


async def prune(opened: Opened, rule: PruneRule, *, limit: int = 100) -> int:
    """Prune to the end, and return how many were pruned."""
    pruned, after = 0, 0
    while True:
        step = await opened.maintenance.prune(rule, after=after, limit=limit, now=LATER)
        pruned += step.count
        assert step.count <= limit
        if step.after is None:
            return pruned
        assert step.after > after
        after = step.after


async def test_a_finished_delivery_is_removed_with_its_work(opened: Opened) -> None:
    """The delivery, its work item and its attempts go. Other deliveries stay."""
    await opened.in_state(DONE)
    await opened.add(delivery("new"))

    step = await opened.maintenance.prune(EVERYTHING, after=0, limit=100, now=LATER)

    assert (step.count, step.size) == (1, len(delivery("item-0").body))
    assert await opened.keys() == ["new"]
    assert await opened.work() == []
    with pytest.raises(UnknownWork):
        await opened.reports.work_item(1)
    with pytest.raises(UnknownDelivery):
        await opened.reports.detail(DeliveryKey("item-0"))


async def test_a_pruned_body_leaves_everything_else(opened: Opened) -> None:
    """The listing and the work stay, and the size too.

    Body and headers are gone, and reading skips the delivery.
    """
    await opened.in_state(DONE)
    (before,) = await opened.listed()

    assert await prune(opened, BODIES) == 1

    assert await opened.listed() == [replace(before, has_body=False)]
    detail = await opened.reports.detail(before.key)
    assert (detail.body, detail.headers, len(detail.work)) == (None, (), 1)
    assert await read(opened, DeliveryFilter()) == []
    plan = await opened.reports.plan(DeliveryFilter())
    assert (plan.count, plan.without_body, plan.size) == (1, 1, before.size)
    assert await prune(opened, BODIES) == 0


@pytest.mark.parametrize("bodies", [False, True])
@pytest.mark.parametrize("state", [WAITING, QUEUED, HELD, RUNNING])
async def test_open_work_is_never_pruned(opened: Opened, state: WorkState, bodies: bool) -> None:
    """Neither are deliveries that no worker has routed. No rule can ask for them."""
    await opened.in_state(state)
    await opened.add(delivery("new"))
    before = await opened.listed()

    for named in (None, DeliveryState.DONE, DeliveryState.DEAD):
        assert await prune(opened, PruneRule(LATER, bodies=bodies, state=named)) == 0
    for named in (DeliveryState.NEW, DeliveryState.WORKING):
        with pytest.raises(ValueError, match="never pruned"):
            PruneRule(LATER, bodies=bodies, state=named)

    assert await opened.listed() == before


@pytest.mark.parametrize("bodies", [False, True])
async def test_dead_ones_are_pruned_only_when_they_are_named(opened: Opened, bodies: bool) -> None:
    """Somebody may still want to retry them."""
    await opened.in_state(DEAD)
    await opened.in_state(DONE)

    assert await prune(opened, PruneRule(LATER, bodies=bodies)) == 1
    assert await prune(opened, PruneRule(LATER, bodies=bodies, state=DeliveryState.DEAD)) == 1


@pytest.mark.parametrize("bodies", [False, True])
async def test_a_dead_one_that_stops_its_lane_is_not_pruned(opened: Opened, bodies: bool) -> None:
    """Otherwise nobody could retry or bury it, and what is queued behind it would wait for ever."""
    first, second = await opened.items(2, lane="a")
    await opened.claim()
    await opened.settle(ended(first, DEAD, error="no")._replace(in_lane=True, holds_lane=True))
    rule = PruneRule(LATER, bodies=bodies, state=DeliveryState.DEAD)

    assert (await opened.maintenance.prunable(rule)).count == 0
    assert await prune(opened, rule) == 0

    assert await opened.controls.bury([first], "discarded", now=NOON) == 1
    assert await opened.states(second) == [WAITING]
    assert (await opened.maintenance.prunable(rule)).count == 1
    assert await prune(opened, rule) == 1


async def test_pruning_ends_at_its_moment(opened: Opened) -> None:
    """A delivery that arrived exactly then stays."""
    moments = {"before": -MICROSECOND, "at": 0 * SECOND, "after": MICROSECOND}
    await opened.add(*[delivery(key, received_at=NOON + passed) for key, passed in moments.items()])
    await opened.route()

    assert (await opened.maintenance.prunable(PruneRule(NOON))).count == 1
    assert await prune(opened, PruneRule(NOON)) == 1
    assert await opened.keys() == ["after", "at"]


async def test_only_the_types_named_are_pruned(opened: Opened) -> None:
    """The rule takes a glob, as all filters do."""
    await opened.add(delivery("a", kind="crawl.page"), delivery("b", kind="agent.action"))
    await opened.route()

    assert await prune(opened, PruneRule(LATER, type="crawl.*")) == 1
    assert await opened.keys() == ["b"]


@pytest.mark.parametrize("rule", [EVERYTHING, BODIES])
async def test_a_plan_counts_what_will_be_pruned(opened: Opened, rule: PruneRule) -> None:
    """After the pruning the plan is empty."""
    for state in (DONE, DEAD, WAITING, SKIPPED):
        await opened.in_state(state)

    plan = await opened.maintenance.prunable(rule)

    assert (plan.count, plan.without_body) == (2, 0)
    assert await prune(opened, rule) == 2
    assert (await opened.maintenance.prunable(rule)).count == 0


async def test_a_step_takes_no_more_than_it_may(opened: Opened) -> None:
    """The next step goes on behind it."""
    await opened.add(*[delivery(f"{n}", body=b"12") for n in range(5)])
    await opened.route()

    assert await opened.maintenance.prune(EVERYTHING, after=0, limit=2, now=LATER) == Step(2, 4, 2)
    assert await prune(opened, EVERYTHING, limit=2) == 3


async def test_a_number_is_never_given_again(opened: Opened) -> None:
    """New deliveries come behind all that were ever stored."""
    await opened.add(delivery("a"), delivery("b"))
    await opened.route(claim=False)
    await prune(opened, EVERYTHING)
    assert await opened.listed() == []

    await opened.add(delivery("c"))
    await opened.controls.import_deliveries([Imported(delivery("d"))])

    assert [one.seq for one in await opened.listed()] == [4, 3]
    assert [one.state for one in await opened.listed()] == [DeliveryState.NEW] * 2


async def test_a_work_item_s_number_is_never_given_again(opened: Opened) -> None:
    """Otherwise an attempt of the old item could count for the new one."""
    await opened.in_state(DONE)
    await prune(opened, EVERYTHING)

    assert await opened.items(1) == [2]


@pytest.mark.parametrize(
    ("body", "outcome"), [(b"first", AppendOutcome.DUPLICATE), (b"longer", AppendOutcome.CONFLICT)]
)
async def test_a_retry_of_a_delivery_without_body_is_still_a_duplicate(
    opened: Opened, body: bytes, outcome: AppendOutcome
) -> None:
    """Only the sizes are compared. Once the key is gone too, it would be a new delivery."""
    await opened.add(delivery("a", body=b"first"))
    await opened.route()
    await prune(opened, BODIES)

    assert await opened.add(delivery("a", body=body)) == [outcome]
    assert [(one.duplicates, one.has_body) for one in await opened.listed()] == [(1, False)]
    await prune(opened, EVERYTHING)
    assert await opened.add(delivery("a", body=b"first")) == [AppendOutcome.ACCEPTED]


async def test_an_import_gives_a_body_back(opened: Opened) -> None:
    """The body has to be as long as the pruned one. Nothing else changes."""
    one = delivery("a", body=b"first")
    await opened.add(one)
    await opened.route()
    before = await opened.listed()
    await prune(opened, BODIES)

    outcomes = await opened.controls.import_deliveries([Imported(delivery("a", body=b"longer")), Imported(one, 9)])

    assert outcomes == [AppendOutcome.CONFLICT, AppendOutcome.DUPLICATE]
    assert await opened.listed() == before
    assert [stored.delivery for stored in await read(opened, DeliveryFilter())] == [one]


async def test_work_on_a_delivery_without_body_is_not_taken_up_again(opened: Opened) -> None:
    """A skipped item is not retried and a replay makes nothing, as no handler could see the event."""
    skipped = await opened.in_state(SKIPPED)
    await prune(opened, BODIES)

    assert await opened.controls.retry([skipped], now=LATER) == 0
    assert await opened.controls.enqueue([NewWork(1, ONE)], now=LATER) == 0
    assert await opened.states(skipped) == [SKIPPED]
    assert await opened.claimed(now=DAY) == []


async def test_old_once_keys_are_forgotten(opened: Opened) -> None:
    """A step forgets some of them, and only those used before that moment."""
    for n in range(3):
        await opened.queue.once(ONE, f"{n}", now=NOON + n * SECOND)

    assert await opened.maintenance.forget(NOON + 2 * SECOND, limit=1) == 1
    assert await opened.maintenance.forget(NOON + 2 * SECOND, limit=9) == 1
    assert await opened.maintenance.forget(NOON + 2 * SECOND, limit=9) == 0
    assert [await opened.queue.once(ONE, f"{n}", now=NOON) for n in range(3)] == [True, True, False]


async def test_expiring_once_keys_are_forgotten_like_the_rest(opened: Opened) -> None:
    """Their last use counts, whether they have expired or not."""
    await opened.queue.once(ONE, "a", now=NOON, until=NOON + 9 * SECOND)
    await opened.queue.once(ONE, "b", now=NOON, until=NOON + SECOND)
    await opened.queue.once(ONE, "b", now=NOON + 2 * SECOND, until=NOON + 9 * SECOND)

    assert await opened.maintenance.forget(NOON + 2 * SECOND, limit=9) == 1
    assert [await opened.queue.once(ONE, key, now=NOON + SECOND) for key in ("a", "b")] == [True, False]


async def test_pruning_an_empty_store_does_nothing(opened: Opened) -> None:
    """Neither do the other kinds of maintenance."""
    assert await opened.maintenance.prune(EVERYTHING, after=0, limit=9, now=LATER) == Step(0, 0, None)
    assert await opened.maintenance.compress(limit=9) == Step(0, 0, None)
    while await opened.maintenance.reclaim(MUCH):
        pass  # what making the file left


async def test_bodies_are_the_same_after_compression(opened: Opened) -> None:
    """They are short and long, of any bytes. Retries are duplicates, and sizes stay those of the bodies."""
    bodies = [b"", b"\x00", b"\x00" * 50_000, b"\xff\xfe" * 9_000, b"page " * 2_000_000, bytes(range(256)) * 40]
    ones = [delivery(f"{n}", body=body) for n, body in enumerate(bodies)]
    await opened.add(*ones)
    await opened.route(ONE, claim=False)
    before = await opened.listed()

    while (await opened.maintenance.compress(limit=2)).after is not None:
        pass

    assert [one.delivery for one in await read(opened, DeliveryFilter())] == ones
    assert [item.source.delivery for item in await opened.claim()] == ones
    assert await opened.listed() == [replace(one, state=DeliveryState.WORKING) for one in before]
    assert await opened.add(*ones) == [AppendOutcome.DUPLICATE] * len(ones)
    changed = [one._replace(body=b"x" + one.body[1:]) for one in ones[1:]]
    assert await opened.add(*changed) == [AppendOutcome.CONFLICT] * len(changed)
    assert (await opened.reports.detail(DeliveryKey("4"))).body == bodies[4]
