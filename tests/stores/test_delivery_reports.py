"""The contract of reports about deliveries."""

import pytest

from receiver.core.activity import PruneRule
from receiver.core.claims import Lease
from receiver.core.deliveries import DeliveryFilter
from receiver.core.subjects import MAX_SUBJECT_BODY, Subject
from receiver.core.types import DeliveryKey, DeliveryState, HandlerSwitch, WorkState
from receiver.core.work import Hold, NewWork
from receiver.errors import UnknownDelivery
from tests.doubles import NOON, delivery
from tests.stores.opened import (
    AFTER,
    DEAD,
    DONE,
    HELD,
    MUCH,
    ONE,
    QUEUED,
    RUNNING,
    SECOND,
    SKIPPED,
    TWO,
    WAITING,
    A,
    Opened,
    ended,
)


async def test_deliveries_are_listed_newest_first(opened: Opened) -> None:
    """The order is that of arrival, whatever their moments say."""
    await opened.add(delivery("a"), delivery("b", received_at=NOON - SECOND), delivery("c"))

    assert await opened.keys() == ["c", "b", "a"]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"type": "crawl.page"}, "ba"),
        ({"type": "crawl.*"}, "dba"),
        ({"type": "*.page"}, "cba"),
        ({"type": "?rawl.*"}, "dba"),
        ({"type": "[bc]*.page"}, "cba"),
        ({"type": "[!b]*.page"}, "ba"),
        ({"type": "Crawl.*"}, ""),
        ({"type": "crawl"}, ""),
        ({"job_id": "j1"}, "ca"),
        ({"job_id": "j"}, ""),
        ({"since": NOON + SECOND}, "dcb"),
        ({"until": NOON + SECOND}, "a"),
        ({"since": NOON + SECOND, "until": NOON + 3 * SECOND}, "cb"),
        ({"limit": 1}, "d"),
        ({"limit": 0}, ""),
        ({"limit": 9}, "dcba"),
        ({"state": DeliveryState.NEW}, "d"),
        ({"state": DeliveryState.WORKING}, "c"),
        ({"state": DeliveryState.DONE}, "b"),
        ({"state": DeliveryState.DEAD}, "a"),
        ({"type": "crawl.*", "limit": 2}, "db"),
        ({"type": "crawl.*", "state": DeliveryState.DEAD, "limit": 2}, "a"),
        ({"job_id": "j1", "type": "crawl.page", "until": NOON + SECOND}, "a"),
    ],
    ids=str,
)
async def test_listings_are_narrowed(opened: Opened, wanted: dict[str, object], expected: str) -> None:
    """Type, job, time, state and number narrow alone and together. `since` is part of the span, `until` is not."""
    await opened.add(
        delivery("a", kind="crawl.page", job_id="j1"),
        delivery("b", kind="crawl.page", job_id="j2", received_at=NOON + SECOND),
        delivery("c", kind="batch_scrape.page", job_id="j1", received_at=NOON + 2 * SECOND),
    )
    dead, done, _ = await opened.route(ONE)
    await opened.settle(ended(dead, DEAD, error="x"), ended(done))
    await opened.add(delivery("d", kind="crawl.completed", job_id="j3", received_at=NOON + 3 * SECOND))

    assert "".join(await opened.keys(**wanted)) == expected


@pytest.mark.parametrize(
    ("states", "seen"),
    [
        ((DONE, DONE), DeliveryState.DONE),
        ((DONE, SKIPPED), DeliveryState.DONE),
        ((SKIPPED, SKIPPED), DeliveryState.DONE),
        ((DONE, DEAD), DeliveryState.DEAD),
        ((SKIPPED, DEAD), DeliveryState.DEAD),
        ((DEAD, WAITING), DeliveryState.WORKING),
        ((DEAD, RUNNING), DeliveryState.WORKING),
        ((DEAD, QUEUED), DeliveryState.WORKING),
        ((DEAD, HELD), DeliveryState.WORKING),
        ((DONE, WAITING), DeliveryState.WORKING),
        ((DONE, RUNNING), DeliveryState.WORKING),
        ((SKIPPED, QUEUED), DeliveryState.WORKING),
        ((SKIPPED, HELD), DeliveryState.WORKING),
    ],
)
async def test_a_delivery_is_as_far_as_all_its_work(
    opened: Opened, states: tuple[WorkState, WorkState], seen: DeliveryState
) -> None:
    """It is dead only if none of its work can still run, and unfinished only while some can."""
    ahead = await opened.items(1, ONE, claim=True, lane="l") + await opened.items(1, TWO, claim=True, lane="l")
    for handler, state in zip((ONE, TWO), states, strict=True):
        if state is SKIPPED:
            await opened.controls.switch(handler, HandlerSwitch.DISABLED)
    await opened.add(delivery())
    batch = await opened.queue.routing_batch(limit=1, max_bytes=MUCH)
    ids = await opened.queue.route(
        batch,
        [
            NewWork(
                batch.deliveries[0].seq,
                handler,
                claim=state is not WAITING,
                lane="l" if state is QUEUED else None,
                hold=Hold(AFTER, AFTER) if state is HELD else None,
            )
            for handler, state in zip((ONE, TWO), states, strict=True)
        ],
        lease=Lease(A, AFTER),
        now=NOON,
    )
    assert ids is not None
    ends = [
        ended(work_id, state)
        for work_id, state in zip(ids, states, strict=True)
        if work_id is not None and state is not RUNNING
    ]
    await opened.settle(*ends)

    detail = await opened.reports.detail(DeliveryKey("k"))
    assert tuple(one.state for one in detail.work) == states
    assert detail.summary.state is seen
    assert "k" in await opened.keys(state=seen)
    assert await opened.reports.count_unfinished() == len(ahead) + (seen is DeliveryState.WORKING)


async def test_a_long_listing_yields_each_delivery_once(opened: Opened) -> None:
    """It has many pages, and more deliveries arrive meanwhile."""
    await opened.add(*[delivery(f"{n:04}") for n in range(1_201)])
    seen: list[str] = []

    async for summary in opened.reports.deliveries(DeliveryFilter()):
        if len(seen) == 600:
            await opened.add(delivery("later"))
        seen.append(summary.key)

    assert seen == [f"{n:04}" for n in reversed(range(1_201))]
    assert len(await opened.keys(limit=1_001)) == 1_001


async def test_a_listing_can_be_left_early(opened: Opened) -> None:
    """That happens when the pipe behind `events list` is closed."""
    await opened.add(*[delivery(str(n)) for n in range(20)])

    async for summary in opened.reports.deliveries(DeliveryFilter()):
        assert summary.key == "19"
        break

    assert len(await opened.keys()) == 20


@pytest.mark.parametrize(
    ("prefix", "key"),
    [
        ("abc-1", "abc-1"),
        ("abc-1x", "abc-1x"),
        ("b", "beta"),
        ("sha256:0", "sha256:01"),
        ("%", "%_*[a]"),
        ("é", None),
    ],
)
async def test_a_unique_prefix_is_the_whole_key(opened: Opened, prefix: str, key: str | None) -> None:
    """A whole key stands for itself even if others begin with it, and no character of a prefix is a wild card."""
    await opened.add(*[delivery(key) for key in ("abc-1", "abc-1x", "abc-2", "beta", "sha256:01", "%_*[a]", "~")])

    if key is None:
        with pytest.raises(UnknownDelivery):
            await opened.reports.resolve(prefix)
    else:
        assert await opened.reports.resolve(prefix) == key


async def test_an_ambiguous_prefix_names_the_candidates(opened: Opened) -> None:
    """The caller can choose from them."""
    await opened.add(delivery("abc-1"), delivery("abc-2"), delivery("beta"))

    with pytest.raises(UnknownDelivery) as caught:
        await opened.reports.resolve("abc")

    assert "'abc'" in str(caught.value)
    assert "abc-1" in str(caught.value)
    assert "abc-2" in str(caught.value)
    assert "beta" not in str(caught.value)


async def test_many_candidates_are_not_all_named(opened: Opened) -> None:
    """The message stays readable with thousands of deliveries."""
    await opened.add(*[delivery(f"abc-{n:03}") for n in range(300)])

    with pytest.raises(UnknownDelivery) as caught:
        await opened.reports.resolve("")

    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("prefix", ["zeta", "*", "abc-1 "])
async def test_an_unknown_prefix_is_refused(opened: Opened, prefix: str) -> None:
    """The message repeats the prefix."""
    await opened.add(delivery("abc-1"))

    with pytest.raises(UnknownDelivery, match=prefix.replace("*", r"\*")):
        await opened.reports.resolve(prefix)


async def test_detail_is_for_whole_keys(opened: Opened) -> None:
    """The error says that anything else is unknown."""
    await opened.add(delivery("abc-1"))

    with pytest.raises(UnknownDelivery, match="abc"):
        await opened.reports.detail(DeliveryKey("abc"))


async def test_detail_shows_work_in_the_order_it_was_made(opened: Opened) -> None:
    """Each item is as in the listing of work."""
    await opened.add(delivery())
    one, two = await opened.route(ONE, TWO)
    await opened.settle(ended(one, WAITING, error="x", due=SECOND))

    detail = await opened.reports.detail(DeliveryKey("k"))

    assert detail.work == (await opened.seen(one), await opened.seen(two))
    assert [(work.handler, work.state) for work in detail.work] == [(ONE, WAITING), (TWO, RUNNING)]
    assert (detail.headers, detail.body) == (delivery().headers, delivery().body)


async def test_unfinished_counts_deliveries_and_not_their_work(opened: Opened) -> None:
    """It counts new deliveries and those with open work."""
    assert await opened.reports.count_unfinished() == 0
    await opened.add(delivery("a"), delivery("b"))
    assert await opened.reports.count_unfinished() == 2
    ids = await opened.route(ONE, TWO)
    await opened.add(delivery("c"))
    assert await opened.reports.count_unfinished() == 3
    await opened.settle(*[ended(work_id) for work_id in ids[:3]])
    assert await opened.reports.count_unfinished() == 2
    await opened.controls.enqueue([NewWork(3, ONE)], now=NOON)  # a replay of a new one
    assert await opened.reports.count_unfinished() == 2


async def test_a_listing_learns_what_events_are_about(opened: Opened) -> None:
    """Long bodies are left out."""
    page = b'{"type":"crawl.page","data":[{"metadata":{"url":"https://a.b/"}}]}'
    long = page + b" " * MAX_SUBJECT_BODY
    await opened.add(delivery("a", body=page), delivery("b", body=long), delivery("c", body=b"{"), delivery("d"))
    seqs = {one.key: one.seq async for one in opened.reports.deliveries(DeliveryFilter())}
    wanted = [seqs[DeliveryKey(key)] for key in "abc"]

    about = Subject("https://a.b/", "https://a.b/")
    assert await opened.reports.subjects(wanted) == {wanted[0]: about, wanted[2]: Subject()}
    assert await opened.reports.subjects([]) == {}


async def test_a_pruned_body_tells_nothing(opened: Opened) -> None:
    """The other fields of the listing stay."""
    await opened.in_state(DONE)
    (before,) = await opened.listed()
    assert before.seq in await opened.reports.subjects([before.seq])

    rule = PruneRule(AFTER, bodies=True)
    await opened.maintenance.prune(rule, after=0, limit=100, now=AFTER)
    assert await opened.reports.subjects([before.seq]) == {}
