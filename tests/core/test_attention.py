"""What needs somebody: the same for the console and for alerts."""

from datetime import timedelta

import pytest

from receiver.core import work
from receiver.core.attention import AttentionLimits, ConcernKind, concerns, read_attention
from receiver.core.types import AttemptOutcome, HandlerName, HandlerSwitch, Trigger, WorkState
from receiver.core.work import EXAMINED, Attempt, RecordedRun
from tests.doubles import NOON, OpenStore, appended, delivery

HOUR = timedelta(hours=1)


async def filled(errors: list[str]) -> OpenStore:
    """Return a store with a dead work item for each error."""
    store = OpenStore()
    runs = []
    for seq, error in enumerate(errors, 1):
        await appended(store, delivery(f"w-{seq}"))
        attempt = Attempt(1, Trigger.DELIVERY, NOON, NOON, AttemptOutcome.FAILED, error)
        runs.append(RecordedRun(seq, HandlerName("save"), attempt, WorkState.DEAD))
    await store.record(runs, now=NOON)
    return store


async def test_more_dead_items_than_are_examined_are_counted_all_the_same() -> None:
    """The text has all of them, though only the newest tell the error."""
    store = await filled([f"TimeoutError: {number}" for number in range(EXAMINED + 5)])

    [concern, _] = concerns(await read_attention(store, NOON + HOUR), AttentionLimits(), NOON + HOUR)

    assert concern.count == EXAMINED + 5
    assert concern.sentence.startswith(
        "2,005 dead in save, of deliveries since 2026-08-04 12:00 UTC: TimeoutError: "
    )
    assert (concern.kind, concern.subject, concern.reason) == (ConcernKind.DEAD, "save", "TimeoutError: #")


async def test_more_dead_items_of_several_errors_than_are_examined_may_be_of_any() -> None:
    store = await filled([f"{'Key' if number % 2 else 'Timeout'}Error: {number}" for number in range(EXAMINED + 4)])

    found = [*concerns(await read_attention(store, NOON), AttentionLimits(), NOON)]

    assert [one.text for one in found if one.kind is ConcernKind.DEAD] == ["1,000+ dead in save"] * 2


async def test_a_group_of_dead_items_is_described_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """To make the glob of an error for each of thousands took most of the time of the first page."""
    made: list[str] = []
    pattern = work._pattern

    def noted(error: str) -> str:
        made.append(error)
        return pattern(error)

    monkeypatch.setattr(work, "_pattern", noted)

    await read_attention(await filled([f"TimeoutError: {number}" for number in range(50)]), NOON)

    assert len(made) == 1


async def test_each_error_of_a_handler_is_a_concern_of_its_own() -> None:
    """The one with the most items comes first."""
    store = await filled(["KeyError: 'a'", "TimeoutError: 1", "TimeoutError: 2"])

    found = concerns(await read_attention(store, NOON), AttentionLimits(), NOON)

    assert [(one.count, one.reason) for one in found] == [(2, "TimeoutError: #"), (1, "KeyError: 'a'")]


async def test_limits_decide_from_when_on() -> None:
    """A backlog and a silence that last exactly as long as allowed need nobody yet."""
    store = OpenStore()
    await appended(store, delivery("w-1", received_at=NOON))
    limits = AttentionLimits(backlog_older_than=HOUR, no_delivery_for=2 * HOUR)

    async def kinds(after: timedelta) -> list[ConcernKind]:
        now = NOON + after
        return [one.kind for one in concerns(await read_attention(store, now), limits, now)]

    assert await kinds(HOUR) == []
    assert await kinds(2 * HOUR) == [ConcernKind.BACKLOG]
    assert await kinds(3 * HOUR) == [ConcernKind.BACKLOG, ConcernKind.NO_DELIVERY]


async def test_an_empty_store_needs_nobody() -> None:
    """Not even where no delivery has come for long: nobody has sent one yet."""
    limits = AttentionLimits(no_delivery_for=HOUR)
    assert not [*concerns(await read_attention(OpenStore(), NOON), limits, NOON)]


async def test_a_backlog_names_the_handlers_that_are_paused() -> None:
    """Their work is due all the time, so that workers may be well."""
    store = OpenStore()
    await appended(store, delivery("w-1", received_at=NOON))
    await store.switch(HandlerName("save"), HandlerSwitch.PAUSED)

    [concern] = concerns(await read_attention(store, NOON + HOUR), AttentionLimits(), NOON + HOUR)

    assert concern.text.endswith("due for 1h. Is a worker running? Work of paused handlers counts too: save")
