"""The contract of mass actions on work items: a plan, and then the ids."""

import pytest

from receiver.core.bulk import WorkKind, WorkPlan
from receiver.core.work import NewWork, WorkFilter
from tests.doubles import NOON, delivery
from tests.stores.opened import DEAD, DONE, ONE, QUEUED, SECOND, TWO, WAITING, Opened, ended

FILTERS = [
    (WorkFilter(), [1, 2, 3, 4, 5]),
    (WorkFilter(state=DEAD), [1, 3]),
    (WorkFilter(among=(DEAD, WAITING)), [1, 2, 3, 4]),
    (WorkFilter(among=(DEAD, QUEUED), stuck=True), [3, 5]),
    (WorkFilter(handler="two"), [2, 4]),
    (WorkFilter(handler=("none", "two")), [2, 4]),
    (WorkFilter(type="agent.*"), [3, 4]),
    (WorkFilter(since=NOON + SECOND), [3, 4, 5]),
    (WorkFilter(limit=2), [4, 5]),
    (WorkFilter(among=(DEAD, WAITING), limit=3), [2, 3, 4]),
    (WorkFilter(job_id="none"), []),
]


async def fill(opened: Opened) -> None:
    """Make items: dead; waiting; dead and holding its lane; waiting; queued behind the third."""
    await opened.add(delivery("a"))
    await opened.route(ONE, TWO, claim=True)
    await opened.settle(ended(1, DEAD, error="no"), ended(2, WAITING, error="no"))
    await opened.add(delivery("b", kind="agent.action", received_at=NOON + SECOND))
    await opened.route(ONE, claim=True, lane="lane")
    await opened.settle(ended(3, DEAD, error="no", holds_lane=True))
    await opened.controls.enqueue([NewWork(2, TWO)], now=NOON)
    await opened.add(delivery("c", received_at=NOON + 2 * SECOND))
    await opened.route(ONE, lane="lane")


@pytest.mark.parametrize(("wanted", "expected"), FILTERS)
async def test_a_plan_counts_what_a_listing_has(opened: Opened, wanted: WorkFilter, expected: list[int]) -> None:
    """It counts by handler, type and state, and has the span of arrival."""
    await fill(opened)

    plan = await opened.reports.work_plan(wanted)

    found = [one async for one in opened.reports.work_items(wanted)]
    kinds = [WorkKind(one.handler, one.type, one.state) for one in found]
    moments = [one.received_at for one in found]
    assert [one.id for one in found] == expected[::-1]
    assert plan == WorkPlan(
        count=len(expected),
        first_id=min(expected, default=0),
        last_id=max(expected, default=0),
        first_at=min(moments, default=None),
        last_at=max(moments, default=None),
        kinds={kind: kinds.count(kind) for kind in kinds},
        others=0,
    )


@pytest.mark.parametrize("count", [24, 25])
async def test_a_plan_counts_many_kinds(opened: Opened, count: int) -> None:
    """The most frequent come first, however many there are."""
    await opened.add(*[delivery(f"key-{n}", kind=f"type-{n:02}") for n in range(count)])
    await opened.add(delivery("again", kind="type-03"))
    await opened.route(ONE, claim=False)

    plan = await opened.reports.work_plan(WorkFilter())

    assert list(plan.kinds)[:2] == [WorkKind(ONE, "type-03", WAITING), WorkKind(ONE, "type-00", WAITING)]
    assert list(plan.kinds.values()) == [2, *[1] * (count - 1)]
    assert (plan.count, plan.others) == (count + 1, 0)


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize(("wanted", "expected"), FILTERS)
async def test_the_ids_are_those_of_the_plan(
    opened: Opened, wanted: WorkFilter, expected: list[int], newest_first: bool
) -> None:
    """They come in the order asked for, and later items are not among them."""
    await fill(opened)
    plan = await opened.reports.work_plan(wanted)
    await opened.items(1)

    ids = [one async for some in opened.reports.work_ids(wanted, plan, newest_first=newest_first) for one in some]

    assert ids == sorted(expected, reverse=newest_first)


@pytest.mark.parametrize("newest_first", [False, True])
async def test_ids_go_on_while_the_items_change(opened: Opened, newest_first: bool) -> None:
    """They come in chunks. An item that does not match when its chunk is read is left out."""
    ids = await opened.items(1_200, claim=True)
    await opened.settle(*[ended(one, DEAD, error="no") for one in ids])
    wanted = WorkFilter(state=DEAD)
    plan = await opened.reports.work_plan(wanted)
    seen: list[int] = []

    async for some in opened.reports.work_ids(wanted, plan, newest_first=newest_first):
        assert len(some) <= 500
        seen += some
        other_end = range(1, 101) if newest_first else range(1_101, 1_201)
        await opened.controls.retry([*some, *other_end], now=NOON)

    left_out = set(range(1, 101)) if newest_first else set(range(1_101, 1_201))
    assert seen == sorted(set(ids) - left_out, reverse=newest_first)


async def test_done_items_are_planned_for_too(opened: Opened) -> None:
    """A plan counts whatever the filter asks for."""
    await opened.in_state(DONE)

    assert (await opened.reports.work_plan(WorkFilter(state=DONE))).count == 1
