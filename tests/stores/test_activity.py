"""The contract of what is counted when attempts end."""

from datetime import timedelta

import pytest

from receiver.core.activity import (
    ACTIVITY_KEPT,
    ActivityCount,
    Performance,
    PruneRule,
    WorkerSign,
    by_step,
    duration_bucket,
    performance,
)
from receiver.core.claims import Settlement
from receiver.core.types import AttemptOutcome, HandlerName, Trigger
from receiver.core.work import Attempt
from receiver.stores.postgres.log import BEHIND
from tests.doubles import NOON, delivery
from tests.stores.opened import DAY, DEAD, DONE, NOTHING, ONE, SECOND, TWO, A, Opened, after_noon
from tests.stores.outside import Tables

SIGN = WorkerSign(A, "machine", 7, "1.0", NOON)
MINUTE = timedelta(minutes=1)
MILLISECOND = timedelta(milliseconds=1)
SUCCEEDED, FAILED, TIMED_OUT = AttemptOutcome.SUCCEEDED, AttemptOutcome.FAILED, AttemptOutcome.TIMED_OUT


def end(
    work_id: int,
    at: timedelta = NOTHING,
    took: timedelta | None = MILLISECOND,
    outcome: AttemptOutcome = SUCCEEDED,
    handler: HandlerName = ONE,
) -> Settlement:
    """Return the end of a first attempt, so long after noon."""
    started = None if took is None else after_noon(at) - took
    state = DONE if outcome is SUCCEEDED else DEAD
    error = None if outcome is SUCCEEDED else "E: no"
    return Settlement(
        work_id, handler, A, Attempt(1, Trigger.DELIVERY, started, after_noon(at), outcome, error), state, NOON
    )


async def counted(
    opened: Opened, since: timedelta = -DAY, step: timedelta = MINUTE, handler: HandlerName | None = None
) -> list[ActivityCount]:
    """Return the counts in order, with what waits for the worker's next sign."""
    await opened.queue.sign_on(SIGN, now=NOON)
    found = await opened.reports.activity(since=after_noon(since), step=step, handler=handler)
    return sorted(found, key=lambda one: (one.begins_at, one.handler, one.outcome, one.bucket))


async def test_ended_attempts_are_counted_by_minute_handler_outcome_and_duration(opened: Opened) -> None:
    first, second, third, fourth = await opened.items(4, claim=True)
    (other,) = await opened.items(1, TWO, claim=True)

    await opened.settle(end(first), end(second), end(third, outcome=FAILED), end(other, handler=TWO))
    await opened.settle(end(fourth, MINUTE * 2, SECOND, TIMED_OUT))

    assert await counted(opened) == [
        ActivityCount(NOON, ONE, FAILED, 10, 1),
        ActivityCount(NOON, ONE, SUCCEEDED, 10, 2),
        ActivityCount(NOON, TWO, SUCCEEDED, 10, 1),
        ActivityCount(after_noon(MINUTE * 2), ONE, TIMED_OUT, 20, 1),
    ]


async def test_batches_add_to_the_same_count(opened: Opened) -> None:
    for work_id in await opened.items(3, claim=True):
        await opened.settle(end(work_id))

    assert [one.count for one in await counted(opened)] == [3]


async def test_items_that_ended_alike_count_one_by_one(opened: Opened) -> None:
    """Beside others of other durations, handlers and outcomes."""
    ids = await opened.items(6, claim=True)
    other, third = await opened.items(2, TWO, claim=True)

    ends = [end(ids[0])._replace(also=tuple(ids[1:3])), end(ids[3], took=SECOND), end(ids[4], outcome=FAILED)]
    await opened.settle(*ends, end(other, handler=TWO)._replace(also=(third,)))
    await opened.settle(end(ids[0])._replace(also=(ids[5],)))  # the first of them was settled before

    assert await counted(opened) == [
        ActivityCount(NOON, ONE, FAILED, 10, 1),
        ActivityCount(NOON, ONE, SUCCEEDED, 10, 4),
        ActivityCount(NOON, ONE, SUCCEEDED, 20, 1),
        ActivityCount(NOON, TWO, SUCCEEDED, 10, 2),
    ]


async def test_what_the_worker_did_not_hold_any_more_is_not_counted(opened: Opened) -> None:
    """So a result that comes twice counts once."""
    (work_id,) = await opened.items(1, claim=True)

    assert await opened.settle(end(work_id), end(work_id)) == [True, False]
    assert await opened.settle(end(work_id)) == [False]

    assert [one.count for one in await counted(opened)] == [1]


@pytest.mark.parametrize("took", [None, NOTHING])
async def test_an_attempt_without_a_duration_is_counted_as_the_shortest(
    opened: Opened, took: timedelta | None
) -> None:
    (work_id,) = await opened.items(1, claim=True)

    await opened.settle(end(work_id, took=took))

    assert [(one.bucket, one.count) for one in await counted(opened)] == [(0, 1)]


async def test_counts_come_in_steps_from_a_moment_on_and_for_one_handler(opened: Opened) -> None:
    ids = await opened.items(4, claim=True)
    (other,) = await opened.items(1, TWO, claim=True)
    for at, work_id in zip((-16, -1, 0, 14), ids, strict=True):
        await opened.settle(end(work_id, MINUTE * at))
    await opened.settle(end(other, handler=TWO))

    found = await counted(opened, -MINUTE, MINUTE * 15, ONE)

    assert [(one.begins_at, one.count) for one in found] == [(after_noon(MINUTE * -15), 1), (NOON, 2)]
    assert {one.handler for one in await counted(opened)} == {ONE, TWO}


async def test_old_counts_are_forgotten_an_hour_at_a_time(opened: Opened) -> None:
    hours = (-3, -2, 0)
    for at, work_id in zip(hours, await opened.items(3, claim=True), strict=True):
        await opened.settle(end(work_id, timedelta(hours=at)))

    done = [await opened.maintenance.forget_activity(NOON) for _ in hours]

    assert sum(done) == 2
    assert done[-1] == 0
    assert [one.begins_at for one in await counted(opened, -ACTIVITY_KEPT)] == [NOON]


async def test_old_counts_of_arrivals_are_forgotten_too(opened: Opened, tables: Tables | None) -> None:
    """A store in memory counts what it has, so it has nothing to forget."""
    await opened.add(*[delivery(f"old-{n}", received_at=after_noon(-DAY)) for n in range(BEHIND)])
    await opened.route(ONE, claim=False)  # on PostgreSQL a worker sums up
    await opened.add(delivery("new", received_at=NOON))
    counts = "SELECT count(*) FROM arrival_minutes"
    assert tables is None or tables.select(counts) == [(1,)]

    while await opened.maintenance.forget_activity(NOON):
        pass

    assert tables is None or tables.select(counts) == [(0,)]
    assert await opened.reports.arrivals(NOON) == {NOON: 1}


async def test_pruned_deliveries_leave_the_counts_alone(opened: Opened) -> None:
    (work_id,) = await opened.items(1, claim=True)
    await opened.settle(end(work_id))

    rule = PruneRule(after_noon(DAY))
    pruned = await opened.maintenance.prune(rule, after=0, limit=10, now=after_noon(DAY))

    assert pruned.count == 1

    assert [one.count for one in await counted(opened)] == [1]


def test_durations_are_told_within_a_factor_of_two() -> None:
    counts = [
        ActivityCount(NOON, ONE, SUCCEEDED, (1_000).bit_length(), 90),
        ActivityCount(NOON, ONE, FAILED, (1_000_000).bit_length(), 10),
    ]

    found = performance(counts)

    assert (found.succeeded, found.failed, found.attempts, found.failure_share) == (90, 10, 100, 0.1)
    assert found.median is not None
    assert MILLISECOND / 2 <= found.median <= MILLISECOND * 2
    assert found.p95 is not None
    assert SECOND / 2 <= found.p95 <= SECOND * 2


def test_nothing_has_no_durations_and_no_share() -> None:
    found = performance([])

    assert found == Performance(0, 0, None, None)
    assert found.failure_share is None


def test_every_step_has_its_successes_and_failures() -> None:
    counts = [
        ActivityCount(NOON, ONE, SUCCEEDED, 3, 2),
        ActivityCount(NOON, TWO, SUCCEEDED, 4, 1),
        ActivityCount(NOON, TWO, TIMED_OUT, 4, 5),
    ]

    assert by_step(counts, [NOON - MINUTE, NOON]) == [(NOON - MINUTE, 0, 0), (NOON, 3, 5)]


async def test_the_last_sign_of_a_worker_writes_the_rest(opened: Opened) -> None:
    first, second = await opened.items(2, claim=True)
    await opened.settle(end(first))
    await opened.settle(end(second))

    await opened.queue.sign_off(A)

    found = await opened.reports.activity(since=NOON, step=MINUTE)
    assert [one.count for one in found] == [2]


async def test_counts_are_written_again_after_a_second(opened: Opened) -> None:
    first, second, third = await opened.items(3, claim=True)
    await opened.settle(end(first))
    await opened.settle(end(second))
    await opened.settle(end(third, SECOND))

    found = await opened.reports.activity(since=NOON, step=MINUTE)
    assert [one.count for one in found] == [3]


@pytest.mark.parametrize(("took", "bucket"), [(0, 0), (1, 1), (1_000, 10), (1_024, 11), (-3, 2)])
def test_buckets_are_powers_of_two(took: int, bucket: int) -> None:
    assert duration_bucket(timedelta(microseconds=took)) == bucket
