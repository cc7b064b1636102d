"""Each guard in the SQL, and the same schedule without it: what it is there for.

Of locks around limits and lanes, and of the order of numbers, `test_concurrency.py` and `test_order.py` show it.
"""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from copy import copy
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from receiver.core.activity import PruneRule
from receiver.core.claims import ClaimLimits, HandlerClaim, Lease
from receiver.core.deliveries import Quarantined, QuarantineFilter
from receiver.core.types import AppendOutcome, DeliveryKey, DeliveryState
from receiver.core.work import NewWork
from receiver.errors import StoreError, UnknownRequest
from receiver.stores.postgres import controls as postgres_controls
from receiver.stores.postgres.controls import PostgresControls, PostgresMaintenance
from receiver.stores.postgres.dialect import READS, WRITES, PostgresLocks, writes
from receiver.stores.postgres.store import PostgresStore
from receiver.stores.sql.controls import SqlControls
from receiver.stores.sql.maintenance import SqlMaintenance
from receiver.stores.sql.writes import Writes
from tests.doubles import NOON, appended, delivery, soon
from tests.stores.opened import AFTER, DAY, DEAD, EVERYTHING, LEASE, MUCH, ONE, RUNNING, WAITING, A, B, ended
from tests.stores.outside import PostgresTables
from tests.stores.postgres.gate import Gate
from tests.stores.postgres.test_concurrency import UNLOCKED
from tests.stores.postgres.test_concurrency import workers as workers_of


def without(guard: str, *names: str) -> Writes:
    """Return all that writes, with a guard taken out of the statements of these names."""
    weak = copy(WRITES.sql)
    for name in names:
        text = getattr(weak, name)
        assert guard in text, f"{name} has no {guard}"
        setattr(weak, name, text.replace(guard, ""))
    return writes(PostgresLocks(), weak)


@pytest.fixture
def gate(postgres_url: str) -> Gate:
    """Transactions stop when they have changed work items, before they commit."""
    return Gate(postgres_url, "INSERT OR UPDATE", "work_items")


# --- routing


async def routed_by_two(gate: Gate, by: Writes) -> int:
    """Return how many items two workers make that route one delivery at the same time."""
    async with workers_of(gate, 2, by) as (opened, queues):
        await opened.add(delivery())
        batch = await opened.queue.routing_batch(limit=9, max_bytes=MUCH)
        work = [NewWork(batch.deliveries[0].seq, ONE, False, False, None, None)]
        with gate.closed():
            routing = [
                asyncio.create_task(queue.route(batch, work, lease=Lease(A, AFTER), now=NOON)) for queue in queues
            ]
            await gate.until_waiting(2)
        await soon(asyncio.gather(*routing))
        return len(await opened.work())


async def test_the_mark_lets_one_worker_route_a_batch(gate: Gate) -> None:
    """The second one waits, and finds it moved."""
    assert await routed_by_two(gate, WRITES) == 1


async def test_without_the_place_of_the_mark_both_route_it(gate: Gate) -> None:
    """So the test above can fail."""
    assert await routed_by_two(gate, without("AND value = :after", "advance_routed")) == 2


LOST = """
DELETE FROM bodies;
DELETE FROM deliveries;
SELECT setval(pg_get_serial_sequence('deliveries', 'seq'), 1, false);
"""


async def routed_after_a_loss(gate: Gate, by: Writes) -> Sequence[str]:
    """Return the keys of the deliveries that get the lane "lost", which a worker gave to a delivery that was lost.

    A standby that took the place of the primary did not have it, and gave its number to another delivery.
    """
    async with workers_of(gate, 1, by) as (opened, (queue,)):
        await opened.add(delivery("lost"))
        batch = await queue.routing_batch(limit=9, max_bytes=MUCH)
        batch = replace(batch, server=batch.server - 1)
        PostgresTables(gate.url).run(LOST)
        await opened.add(delivery("other"))
        for _ in range(2):
            work = [NewWork(one.seq, ONE, False, False, one.delivery.key, None) for one in batch.deliveries]
            if await queue.route(batch, work, lease=Lease(A, AFTER), now=NOON) is not None:
                break
            batch = await queue.routing_batch(limit=9, max_bytes=MUCH)
        (item,) = await opened.work()
        return [item.lane or ""]


async def test_a_batch_that_a_failover_has_lost_is_not_routed(gate: Gate) -> None:
    """What has its number now is routed as what it is."""
    assert await routed_after_a_loss(gate, WRITES) == ["other"]


async def test_without_a_look_at_the_server_another_delivery_would_be_handled_as_the_lost_one(gate: Gate) -> None:
    """So the test above can fail."""
    statement = WRITES.sql.advance_routed
    guard = statement[statement.index("AND CAST(extract") :]
    assert await routed_after_a_loss(gate, without(guard, "advance_routed")) == ["lost"]


# --- once keys. By these, workers also take turns in asking the service about a job (backfill).


async def answers_of_two(url: str, by: Writes, *, expired: bool, moment: datetime = AFTER + DAY) -> Sequence[bool]:
    """Return what two workers hear that ask for the same key at the same time, new or at its end."""
    gate = Gate(url, "INSERT OR UPDATE", "once_keys")
    async with workers_of(gate, 2, by) as (_, queues):
        if expired:
            assert await queues[0].once(ONE, "key", now=NOON, until=AFTER)
        with gate.closed():
            first = asyncio.create_task(queues[0].once(ONE, "key", now=moment, until=moment + DAY))
            await gate.until_waiting(1)
            second = asyncio.create_task(queues[1].once(ONE, "key", now=moment, until=moment + DAY))
            await gate.until_waiting(2)
        return await soon(asyncio.gather(first, second))  # type: ignore[no-any-return]


@pytest.mark.parametrize("expired", [False, True])
async def test_of_two_that_ask_at_a_time_one_is_the_first(postgres_url: str, expired: bool) -> None:
    """The second waits for the first, and looks again at when the key ends."""
    assert await answers_of_two(postgres_url, WRITES, expired=expired) == [True, False]


@pytest.mark.parametrize("expired", [False, True])
async def test_without_a_look_at_the_end_both_are_the_first(postgres_url: str, expired: bool) -> None:
    """So the test above can fail."""
    weak = without("WHERE k.expires_at <= excluded.asked_at", "once")
    assert await answers_of_two(postgres_url, weak, expired=expired) == [True, True]


# --- lost leases


async def take_back_twice(gate: Gate, by: Writes) -> list[list[int]]:
    """Return the attempts that two workers claim who find a lease at its end at the same time."""
    async with workers_of(gate, 2, by) as (opened, queues):
        await opened.items(1, claim=True)
        claim = [HandlerClaim(ONE)], ClaimLimits(5, MUCH)
        with gate.closed():
            first, second = (queue.claim(*claim, lease=Lease(B, AFTER + LEASE), now=AFTER) for queue in queues)
            claiming = [asyncio.create_task(first)]
            await gate.until_waiting(1)
            claiming.append(asyncio.create_task(second))
            waiting = asyncio.create_task(gate.until_waiting(2))
            await asyncio.wait({claiming[1], waiting}, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
        return [[item.attempt for item in one] for one in await soon(asyncio.gather(*claiming))]


async def test_a_lease_at_its_end_is_taken_back_by_one_worker(gate: Gate) -> None:
    """The second skips what the first has locked, and does not wait."""
    assert await take_back_twice(gate, WRITES) == [[2], []]


async def test_without_the_lock_the_second_worker_fails(gate: Gate) -> None:
    """It records the same loss, which the table refuses, and claims nothing else either."""
    with pytest.raises(StoreError, match="duplicate key"):
        await take_back_twice(gate, without("FOR UPDATE SKIP LOCKED", "take_leases_ended"))


@asynccontextmanager
async def late_worker(gate: Gate, by: Writes) -> Any:
    """Give a worker that was away while its lease ended, and an item that another one runs since."""
    async with workers_of(gate, 1, by) as (opened, (late,)):
        (work_id,) = await opened.items(1, claim=True)
        again = await opened.other.claim([HandlerClaim(ONE)], EVERYTHING, lease=Lease(B, AFTER + LEASE), now=AFTER)
        assert [one.attempt for one in again] == [2]
        yield opened, late, work_id


async def test_a_worker_that_comes_back_ends_no_attempt_of_another(gate: Gate) -> None:
    """It hears that it no longer holds the item."""
    async with late_worker(gate, WRITES) as (opened, late, work_id):
        assert await late.settle([ended(work_id)]) == [False]
        assert await opened.states(work_id) == [RUNNING]


async def test_without_the_number_of_the_attempt_its_whole_batch_fails(gate: Gate) -> None:
    """So the test above can fail."""
    async with late_worker(gate, without("AND worker = :worker AND attempts = :number", "finish")) as (
        _,
        late,
        work_id,
    ):
        with pytest.raises(StoreError, match="duplicate key"):
            await late.settle([ended(work_id)])


LEASES = ("mark_started", "clear_started", "renew", "release_leases")


async def state_after_giving_back(gate: Gate, by: Writes) -> str:
    """Return the state of an item that runs elsewhere, after a worker whose lease has ended gave it back."""
    async with late_worker(gate, by) as (opened, late, work_id):
        await late.release_leases([work_id], A, now=AFTER)
        (state,) = await opened.states(work_id)
        return str(state)


async def test_a_worker_that_comes_back_gives_nothing_back_that_another_runs(gate: Gate) -> None:
    """A partition of the network is over, and it stops."""
    assert await state_after_giving_back(gate, WRITES) == RUNNING


async def test_without_the_name_of_the_worker_it_would_run_a_third_time(gate: Gate) -> None:
    """So the test above can fail."""
    assert await state_after_giving_back(gate, without("AND worker = :worker", *LEASES)) == WAITING


# --- pruning


async def retried_and_pruned(gate: Gate, retry_by: Writes, prune_by: Writes) -> tuple[int, int, int]:
    """Return how many items were retried, how many deliveries pruned meanwhile, and how many items are left."""
    async with workers_of(gate, 1) as (opened, _):
        (work_id,) = await opened.items(1, claim=True)
        await opened.settle(ended(work_id, DEAD, error="no"))
        assert isinstance(opened.controls, PostgresControls)
        assert isinstance(opened.maintenance, PostgresMaintenance)
        rule = PruneRule(AFTER + DAY, state=DeliveryState.DEAD)
        with gate.closed():
            retrying = asyncio.create_task(
                SqlControls(opened.controls.database, retry_by).retry([work_id], now=NOON)
            )
            await gate.until_waiting(1)
            pruner = SqlMaintenance(opened.maintenance.database, READS, prune_by)
            pruning = asyncio.create_task(pruner.prune(rule, after=0, limit=9, now=NOON))
            await gate.until_waiting(2)
        return await soon(retrying), (await soon(pruning)).count, len(await opened.work())


async def test_what_is_retried_is_not_pruned_meanwhile(gate: Gate) -> None:
    """Pruning waits for the retry, and looks again."""
    assert await retried_and_pruned(gate, WRITES, WRITES) == (1, 0, 1)


@pytest.mark.parametrize("by", [(UNLOCKED, WRITES), (WRITES, UNLOCKED)])
async def test_without_the_lock_of_either_what_was_retried_is_gone(gate: Gate, by: tuple[Writes, Writes]) -> None:
    """The operator hears that it will run, and it does not."""
    assert await retried_and_pruned(gate, *by) == (1, 1, 0)


# --- releasing from quarantine


class Releasing:
    """A store with a request in quarantine, whose deliveries stop before they are committed."""

    def __init__(self, url: str) -> None:
        self.gate = Gate(url, "INSERT", "deliveries")
        self._store = PostgresStore(self.gate.url)

    async def beside_an_append(self) -> tuple[AppendOutcome, list[tuple[int, str]]]:
        """Release it while another body is appended under its key; return the outcome and the quarantine."""
        async with AsyncExitStack() as stack:
            log, first, _ = await self._open(stack)
            with self.gate.closed():
                appending = appended(log, delivery(body=b"another body"))
                await self.gate.until_waiting(1)
                releasing = asyncio.create_task(first.release_request(1, delivery()))
                await self.gate.until_waiting(2)
            await soon(appending)
            receipt = await soon(releasing)
            reports = await stack.enter_async_context(self._store.reports())
            left = [(one.id, one.reason) async for one in reports.quarantined_requests(QuarantineFilter())]
            return receipt.outcome, left

    async def by_two(self) -> list[Any]:
        """Let two operators release it at the same time; return what each hears."""
        async with AsyncExitStack() as stack:
            _, *both = await self._open(stack)
            with self.gate.closed():
                releasing = [asyncio.create_task(one.release_request(1, delivery())) for one in both]
                await self.gate.until_waiting(2)
            results = await soon(asyncio.gather(*releasing, return_exceptions=True))
            return [type(one) if isinstance(one, Exception) else one.outcome for one in results]

    async def _open(self, stack: AsyncExitStack) -> tuple[Any, Any, Any]:
        log = await stack.enter_async_context(self._store.log())
        one = delivery()
        await log.quarantine(Quarantined(NOON, "malformed", "why", DeliveryKey("k"), one.headers, one.body))
        operators = [await stack.enter_async_context(self._store.controls()) for _ in range(2)]
        return log, operators[0], operators[1]


async def test_a_request_whose_key_is_stored_meanwhile_stays_in_quarantine(postgres_url: str) -> None:
    """Its release waits for the append, and sees what was stored."""
    assert await Releasing(postgres_url).beside_an_append() == (AppendOutcome.CONFLICT, [(1, "malformed")])


async def test_without_the_lock_it_becomes_another_request(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its number and its reason are lost."""
    monkeypatch.setattr(postgres_controls, "APPEND_TURN", "SELECT 1")
    assert await Releasing(postgres_url).beside_an_append() == (AppendOutcome.CONFLICT, [(2, "conflict")])


async def test_of_two_operators_one_releases_a_request(postgres_url: str) -> None:
    """The other one hears that it is not there."""
    assert set(await Releasing(postgres_url).by_two()) == {AppendOutcome.ACCEPTED, UnknownRequest}


async def test_without_a_look_at_the_request_the_second_counts_a_duplicate(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the test above can fail."""
    monkeypatch.setattr(postgres_controls, "FREE_REQUEST", "SELECT CAST(:id AS bigint)")
    assert set(await Releasing(postgres_url).by_two()) == {AppendOutcome.ACCEPTED, AppendOutcome.DUPLICATE}
