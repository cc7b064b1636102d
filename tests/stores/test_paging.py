"""The contract of plans, and of reading many deliveries with their bodies."""

import pytest

from receiver.core.bulk import Cursor, DeliveryPlan
from receiver.core.deliveries import DeliveryFilter, StoredDelivery
from receiver.core.types import DeliveryState
from tests.doubles import NOON, delivery
from tests.stores.opened import DEAD, DONE, ONE, SECOND, TWO, WAITING, Opened, ended

FILTERS: list[tuple[DeliveryFilter, str]] = [
    (DeliveryFilter(), "abcdef"),
    (DeliveryFilter(type="crawl.*"), "abef"),
    (DeliveryFilter(job_id="j1"), "ac"),
    (DeliveryFilter(since=NOON + SECOND, until=NOON + 3 * SECOND), "bc"),
    (DeliveryFilter(state=DeliveryState.NEW), "f"),
    (DeliveryFilter(state=DeliveryState.WORKING), "cd"),
    (DeliveryFilter(state=DeliveryState.DONE), "e"),
    (DeliveryFilter(state=DeliveryState.DEAD), "ab"),
    (DeliveryFilter(handler="one"), "abcde"),
    (DeliveryFilter(handler="t*"), "bd"),
    (DeliveryFilter(handler=("t*", "none")), "bd"),
    (DeliveryFilter(failed=True, handler=("none", "two")), "b"),
    (DeliveryFilter(failed=True), "abc"),
    (DeliveryFilter(failed=True, handler="two"), "b"),
    (DeliveryFilter(failed=True, type="crawl.*", state=DeliveryState.DEAD, limit=1), "b"),
    (DeliveryFilter(limit=2), "ef"),
    (DeliveryFilter(limit=0), ""),
    (DeliveryFilter(limit=9), "abcdef"),
    (DeliveryFilter(type="crawl.*", limit=3), "bef"),
    (DeliveryFilter(job_id="none"), ""),
]


async def fill(opened: Opened) -> None:
    """Append six deliveries: a and b dead, c to be retried after a failure, d open, e done, f new."""
    kinds = dict(zip("abcde", ("crawl.page", "crawl.page", "agent.action", "x", "crawl.started"), strict=True))
    jobs = {"a": "j1", "b": "j2", "c": "j1", "d": None, "e": "j0"}
    for n, (key, kind) in enumerate(kinds.items()):
        await opened.add(delivery(key, kind=kind, job_id=jobs[key], received_at=NOON + n * SECOND))
        (one, *_) = await opened.route(*((ONE, TWO) if key in "bd" else (ONE,)))
        state = {"a": DEAD, "b": DONE, "c": None, "d": DONE, "e": DONE}[key]
        if state is not None:
            await opened.settle(ended(one, state, error="no" if state is DEAD else None))
        if key == "b":
            await opened.settle(ended(one + 1, DEAD, error="no"))
        if key == "c":
            await opened.settle(ended(one, WAITING, error="not yet", due=SECOND))
    await opened.add(delivery("f", job_id="j2", received_at=NOON + 9 * SECOND))


async def read(
    opened: Opened, wanted: DeliveryFilter, *, after: Cursor | None = None, by_job: bool = False
) -> list[StoredDelivery]:
    return [one async for one in opened.reports.iter_deliveries(wanted, after=after, by_job=by_job)]


@pytest.mark.parametrize(("wanted", "expected"), FILTERS)
async def test_wanted_deliveries_are_read_oldest_first(
    opened: Opened, wanted: DeliveryFilter, expected: str
) -> None:
    """They are those of the listing in the opposite order. A limit takes the newest of them."""
    await fill(opened)

    found = await read(opened, wanted)

    assert [one.delivery.key for one in found] == list(expected)
    assert [one.key async for one in opened.reports.deliveries(wanted)] == list(expected[::-1])


@pytest.mark.parametrize(("wanted", "expected"), FILTERS)
async def test_a_plan_counts_what_will_be_read(opened: Opened, wanted: DeliveryFilter, expected: str) -> None:
    """It has their number, bytes, span of arrival, and how many there are of each type."""
    await fill(opened)

    plan = await opened.reports.plan(wanted)

    found = [one.delivery for one in await read(opened, wanted)]
    moments = [one.received_at for one in found]
    kinds = [one.type for one in found]
    assert plan == DeliveryPlan(
        count=len(expected),
        size=sum(len(one.body) for one in found),
        first_at=min(moments, default=None),
        last_at=max(moments, default=None),
        types={kind: kinds.count(kind) for kind in kinds},
        others=0,
        without_body=0,
    )


async def test_a_plan_counts_rare_types_together(opened: Opened) -> None:
    """It names the thousand most frequent types."""
    kinds = [f"type-{n:04}" for n in range(1_003)]
    await opened.add(*[delivery(kind, kind=kind) for kind in kinds], delivery("again", kind="type-1002"))

    plan = await opened.reports.plan(DeliveryFilter())

    assert plan.count == 1_004
    assert list(plan.types)[:2] == ["type-1002", "type-0000"]
    assert len(plan.types) == 1_000
    assert plan.others == 3


async def test_what_is_read_is_exactly_what_was_appended(opened: Opened) -> None:
    """It has its seq and its duplicates."""
    one = delivery("a", body=b"\x00\xff" * 9, headers=(("b", "2"), ("a", "\u00e9"), ("b", "1")), success=None)
    await opened.add(one)
    await opened.add(one)

    assert await read(opened, DeliveryFilter()) == [StoredDelivery(1, 1, one)]


@pytest.mark.parametrize(("wanted", "expected"), FILTERS)
async def test_job_by_job_those_of_a_job_come_together(
    opened: Opened, wanted: DeliveryFilter, expected: str
) -> None:
    """Jobs come in the order of their ids, their deliveries in that of arrival, and those without a job last."""
    await fill(opened)
    order = "eacbfd"

    found = await read(opened, wanted, by_job=True)

    assert [one.delivery.key for one in found] == [key for key in order if key in expected]


@pytest.mark.parametrize("by_job", [False, True])
@pytest.mark.parametrize("wanted", [DeliveryFilter(), DeliveryFilter(type="crawl.*"), DeliveryFilter(limit=4)])
async def test_reading_goes_on_behind_any_place(opened: Opened, wanted: DeliveryFilter, by_job: bool) -> None:
    """A place can be written down. Nothing is read twice or left out, and a plan counts the rest."""
    await fill(opened)
    everything = await read(opened, wanted, by_job=by_job)

    for number, one in enumerate(everything, start=1):
        place = Cursor.parse(str(Cursor.at(one, by_job=by_job)))
        assert await read(opened, wanted, after=place, by_job=by_job) == everything[number:]
        plan = await opened.reports.plan(wanted, after=place, by_job=by_job)
        assert (plan.count, plan.size) == (
            len(everything) - number,
            sum(len(one.delivery.body) for one in everything[number:]),
        )
        assert sum(plan.types.values()) == plan.count


@pytest.mark.parametrize("by_job", [False, True])
async def test_pages_of_many_and_of_heavy_deliveries_leave_nothing_out(opened: Opened, by_job: bool) -> None:
    """There are more than fit in a page by number or bytes, one larger than a page, and gaps in the order."""
    heavy = {7: 3_000_000, 8: 3_000_000, 9: 9_000_000, 1_500: 5_000_000}
    await opened.add(*[delivery(f"{n}", job_id=f"j{n % 3}", body=b"x" * heavy.get(n, n % 7)) for n in range(2_500)])

    found = await read(opened, DeliveryFilter(), by_job=by_job)

    keys = sorted(range(2_500), key=lambda n: (n % 3, n)) if by_job else range(2_500)
    assert [(one.delivery.key, len(one.delivery.body)) for one in found] == [
        (f"{n}", heavy.get(n, n % 7)) for n in keys
    ]


async def test_what_arrives_during_a_reading_is_not_in_it(opened: Opened) -> None:
    """Somebody who answers each delivery with a new one comes to an end."""
    await opened.add(delivery("a"), delivery("b"))
    seen = []

    async for one in opened.reports.iter_deliveries(DeliveryFilter()):
        seen.append(one.delivery.key)
        await opened.add(delivery(f"answer to {one.delivery.key}"))

    assert seen == ["a", "b"]


async def test_an_empty_store_has_an_empty_plan_and_nothing_to_read(opened: Opened) -> None:
    """The plan has no moments and no types."""
    assert await opened.reports.plan(DeliveryFilter()) == DeliveryPlan(0, 0, None, None, {}, 0, 0)
    assert await read(opened, DeliveryFilter(limit=3)) == []
    assert await read(opened, DeliveryFilter(), by_job=True) == []


@pytest.mark.parametrize("written", ["", "x", "-1", "1.5", "17:", "9" * 20, "\u0661", " 1"])
def test_what_is_no_place_is_refused(written: str) -> None:
    """The message shows what a place looks like."""
    with pytest.raises(ValueError, match="as 17 or 17:JOB"):
        Cursor.parse(written)
