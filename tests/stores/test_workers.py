"""The contract of workers that show themselves."""

from dataclasses import replace
from datetime import timedelta

from receiver.core.activity import HandlerLimits, HandlerUse, WorkerReport, WorkerSign, use_of
from receiver.core.claims import HandlerClaim
from tests.doubles import NOON
from tests.stores.opened import ONE, SECOND, TWO, A, B, Opened, after_noon, ended

MINUTE = timedelta(minutes=1)
LIMITS = {ONE: HandlerLimits(concurrency=3), TWO: HandlerLimits(interval=SECOND * 6)}
SIGN = WorkerSign(A, "host-1", 41, "1.2.3", NOON, 32, LIMITS)
OTHER = WorkerSign(B, "host-2", 42, "1.2.4", NOON)


async def test_a_worker_shows_who_it_is_and_when_it_was_seen(opened: Opened) -> None:
    await opened.queue.sign_on(SIGN, now=NOON)
    await opened.other.sign_on(OTHER, now=NOON)
    await opened.queue.sign_on(SIGN, now=after_noon(SECOND))

    assert await opened.reports.workers() == [
        WorkerReport(SIGN, after_noon(SECOND), {}),
        WorkerReport(OTHER, NOON, {}),
    ]


async def test_a_worker_shows_what_it_runs_now(opened: Opened) -> None:
    await opened.queue.sign_on(SIGN, now=NOON)
    first, _ = await opened.items(2, ONE, claim=True)
    await opened.items(1, TWO, claim=True)
    await opened.items(1, TWO, claim=True, worker=B)
    await opened.settle(ended(first))

    [shown] = await opened.reports.workers()

    assert shown.running == {ONE: 1, TWO: 1}


async def test_a_worker_that_ends_is_not_shown_any_more(opened: Opened) -> None:
    await opened.queue.sign_on(SIGN, now=NOON)
    await opened.other.sign_on(OTHER, now=NOON)

    await opened.queue.sign_off(A)
    await opened.queue.sign_off(A)

    assert [one.sign for one in await opened.reports.workers()] == [OTHER]


async def test_workers_that_nobody_has_seen_are_forgotten(opened: Opened) -> None:
    await opened.queue.sign_on(SIGN, now=NOON)
    await opened.other.sign_on(OTHER, now=after_noon(SECOND))

    await opened.maintenance.forget_workers(after_noon(SECOND))

    assert [one.sign for one in await opened.reports.workers()] == [OTHER]


def test_how_long_a_worker_was_not_seen_is_told_in_seconds() -> None:
    report = WorkerReport(SIGN, NOON, {})

    assert report.unseen(after_noon(SECOND * 1.5)) == SECOND
    assert report.unseen(after_noon(-SECOND)) == SECOND * 0


def test_a_worker_is_late_after_two_minutes() -> None:
    report = WorkerReport(SIGN, NOON, {})

    assert not report.is_late(after_noon(MINUTE * 2))
    assert replace(report, seen_at=after_noon(-SECOND)).is_late(after_noon(MINUTE * 2))


async def test_the_pace_of_a_handler_with_a_rate_is_shown(opened: Opened) -> None:
    """After two attempts at noon, the next may begin when both intervals are over."""
    await opened.items(3, TWO)
    claim = HandlerClaim(TWO, interval=MINUTE)
    assert len(await opened.claimed(claimants=[claim])) == 1

    paces = await opened.reports.paces()

    assert paces == {TWO: after_noon(MINUTE)}
    used = use_of(
        TWO,
        [WorkerReport(replace(SIGN, limits={TWO: HandlerLimits(None, MINUTE)}), NOON, {TWO: 1})],
        paces[TWO],
        NOON,
    )
    assert used.next_from == after_noon(MINUTE - SECOND / 10)
    assert used.per_minute == 1


def test_what_a_handler_uses_is_counted_over_the_living_workers() -> None:
    """A handler without a limit of its own has the slots of all workers. One that was killed has none."""
    killed = WorkerReport(replace(OTHER, slots=8), NOON - timedelta(hours=1), {})
    workers = [WorkerReport(SIGN, NOON, {ONE: 2}), WorkerReport(replace(OTHER, slots=8), NOON, {ONE: 1, TWO: 4})]

    assert use_of(ONE, [*workers, killed], None, NOON) == HandlerUse(3, 3, True, None, None)
    assert use_of(TWO, [*workers, killed], NOON, NOON) == HandlerUse(4, 40, False, SECOND * 6, None)
    assert use_of(TWO, [], None, NOON) == HandlerUse(0, 0, False, None, None)
