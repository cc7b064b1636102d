"""Scheduled runs and later work with the fixtures, in virtual time and over real stores."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from receiver import BatchContext, Context, GiveUp, Router
from receiver.core.types import Trigger, WorkState
from receiver.events import CrawlPage, CrawlStarted, Event, ScheduledRun
from receiver.settings import Settings
from receiver.testing import (
    SteppedClock,
    assert_dead,
    assert_handled,
    deliver,
    open_receiver,
    open_sender,
    record_calls,
    sample,
    settings_for_test,
)

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


@pytest.fixture(params=["sqlite", "memory"])
def receiver_settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    return settings_for_test(tmp_path, **({"store": "memory://"} if request.param == "memory" else {}))


async def test_a_nightly_job_runs_when_the_night_has_passed(receiver_settings: Settings) -> None:
    """Once for each night, at its moment; it is a work item with its attempt."""
    router, clock = Router(), SteppedClock()
    seen: list[tuple[datetime, datetime, Trigger]] = []

    @router.every(cron="0 2 * * *", timezone="Europe/Berlin", name="nightly")
    async def nightly(event: ScheduledRun, ctx: Context) -> None:
        seen.append((event.due_at, ctx.now, ctx.trigger))

    async with open_receiver(router, receiver_settings, clock) as receiver:
        begin = clock.now()
        await clock.advance(hours=24)
        assert [due - begin < 24 * HOUR and due.astimezone(UTC).hour in (0, 1) for due, _, _ in seen] == [True]
        await clock.advance(hours=24)
        work = await receiver.work_items()

    assert [(due, now - due < MINUTE, trigger) for due, now, trigger in seen] == [
        (seen[0][0], True, Trigger.SCHEDULE),
        (seen[0][0] + 24 * HOUR, True, Trigger.SCHEDULE),
    ]
    assert_handled(work, "nightly", times=2)
    assert [one.id.startswith("every:nightly:") for one in work] == [True, True]


async def test_a_failed_run_is_tried_again_and_no_next_run_is_made_meanwhile(receiver_settings: Settings) -> None:
    """The retries of a schedule fit between two runs, and then the run is dead and the next one comes."""
    router, clock = Router(), SteppedClock()
    attempts: list[datetime] = []

    @router.every("5 minutes", name="look", jitter=0)
    def look(event: ScheduledRun, ctx: Context) -> None:
        attempts.append(event.due_at)
        if len(attempts) < 5:
            raise ValueError("not yet")

    async with open_receiver(router, receiver_settings, clock) as receiver:
        await clock.advance(minutes=10)
        work = await receiver.work_items()

    assert attempts == [attempts[0]] * 4 + [attempts[0] + 5 * MINUTE]
    assert_dead([work[0]], "look", error="not yet")
    assert (work[1].state, work[1].attempts) == (WorkState.DONE, 1)


async def test_only_the_handler_of_a_schedule_gets_its_runs(receiver_settings: Settings) -> None:
    """Others do not, whatever they want, and a request that looks like a run is an unknown event."""
    router, clock = Router(), SteppedClock()

    @router.on("*", name="everything")
    def everything(event: Event) -> None: ...

    @router.on(Event, name="events")
    def events(event: Event) -> None: ...

    @router.every("1 hour", name="hourly")
    def hourly(event: ScheduledRun) -> None: ...

    recorded = record_calls(router)
    forged = b'{"type":"schedule.run","name":"hourly","dueAt":"2026-01-01T00:00:00Z","webhookId":"every:hourly:x"}'
    async with (
        open_receiver(recorded.router, receiver_settings, clock) as receiver,
        open_sender(receiver, clock, secret=receiver_settings.plain_secrets()[0]) as sender,
    ):
        await sender.send(forged)
        assert [type(one).__name__ for one in recorded.events()] == ["UnknownEvent"] * 2
        await clock.advance(hours=1)
        assert len(await receiver.work_items("hourly")) == 1

    assert len(recorded.events("hourly")) == 1
    assert len(recorded.calls) == 3


async def test_missed_runs_are_made_up_for_by_the_last_one(tmp_path: Path) -> None:
    """Nothing worked for a day. The handler sees when its run was due."""
    settings, clock = settings_for_test(tmp_path), SteppedClock()
    router = Router()
    seen: list[datetime] = []

    @router.every("1 hour", name="hourly")
    def hourly(event: ScheduledRun) -> None:
        seen.append(event.due_at)

    async with open_receiver(router, settings, clock) as receiver:
        await receiver.work_items()
    await clock.advance(hours=24, minutes=10)
    async with open_receiver(router, settings, clock) as receiver:
        await receiver.work_items()
        late = clock.now()
        assert [late - due < HOUR for due in seen] == [True]
        await clock.advance(hours=1)

    assert seen[1] - seen[0] == HOUR


async def test_a_new_schedule_does_not_begin_with_a_missed_run(tmp_path: Path) -> None:
    """Nor does one that has changed since."""
    settings, clock = settings_for_test(tmp_path), SteppedClock()
    counts = []
    for schedule in ("1 day", "1 hour"):
        router = Router()

        @router.every(schedule, name="job")
        def job(event: ScheduledRun) -> None: ...

        await clock.advance(days=3, minutes=1)
        async with open_receiver(router, settings, clock) as receiver:
            counts.append(len(await receiver.work_items()))
            if schedule == "1 day":
                await clock.advance(days=1)
                counts.append(len(await receiver.work_items()))

    assert counts == [0, 1, 1]


async def test_work_for_later_runs_after_its_time(receiver_settings: Settings) -> None:
    """For the event of the delivery; a function of `router.later` runs at no other time."""
    router, clock = Router(), SteppedClock()
    seen: list[tuple[str, timedelta, Trigger]] = []

    @router.on(CrawlStarted, name="started")
    async def started(event: CrawlStarted, ctx: Context) -> None:
        begun.append(ctx.now)
        ctx.later(look, event, after="2 hours")
        ctx.later("plain", event, after=90)

    @router.later(CrawlStarted, name="look")
    async def look(event: CrawlStarted, ctx: Context) -> None:
        seen.append(("look", ctx.now - begun[0], ctx.trigger))
        if len(seen) < 3:
            ctx.later(look, event, after=HOUR)

    @router.later(CrawlStarted, name="plain")
    def plain(event: CrawlStarted, ctx: Context) -> None:
        seen.append((event.job_id or "", ctx.now - begun[0], ctx.trigger))

    begun: list[datetime] = []
    async with (
        open_receiver(router, receiver_settings, clock) as receiver,
        open_sender(receiver, clock, secret=receiver_settings.plain_secrets()[0]) as sender,
    ):
        given = sample("crawl.started")
        await sender.send(given)
        assert [(one.handler, one.state) for one in await receiver.work_items()] == [
            ("started", WorkState.DONE),
            ("look", WorkState.WAITING),
            ("plain", WorkState.WAITING),
        ]
        await clock.advance(hours=24)
        work = await receiver.work_items()

    assert seen == [
        (given.event.job_id, timedelta(seconds=90), Trigger.LATER),
        ("look", 2 * HOUR, Trigger.LATER),
        ("look", 3 * HOUR, Trigger.LATER),
    ]
    assert {one.id for one in work} == {given.event.webhook_id}
    assert_handled(work, times=4)


async def test_a_failed_attempt_asks_for_nothing_and_the_next_one_asks_once(receiver_settings: Settings) -> None:
    router, clock = Router(), SteppedClock()

    @router.on(CrawlPage, name="flaky", pauses=[1], jitter=0)
    async def flaky(event: CrawlPage, ctx: Context) -> None:
        ctx.later(after, event, after="1 minute")
        if ctx.attempt == 1:
            raise ValueError("no")

    @router.later(CrawlPage, name="after")
    async def after(event: CrawlPage) -> None: ...

    async with (
        open_receiver(router, receiver_settings, clock) as receiver,
        open_sender(receiver, clock, secret=receiver_settings.plain_secrets()[0]) as sender,
    ):
        await sender.send(sample("crawl.page"))
        assert await receiver.work_items("after") == []
        await clock.advance(hours=1)
        assert_handled(await receiver.work_items(), times=2)


async def test_a_batch_asks_for_each_of_its_events(tmp_path: Path) -> None:
    router, clock = Router(), SteppedClock()
    settings = settings_for_test(tmp_path, store="memory://")

    @router.on(CrawlPage, name="pages", batch=2)
    async def pages(events: list[CrawlPage], ctx: BatchContext) -> None:
        ctx.later("after", events[1], after=60)

    @router.later(CrawlPage, name="after")
    async def after(event: CrawlPage) -> None:
        seen.append(event.webhook_id)

    seen: list[str | None] = []
    async with (
        open_receiver(router, settings, clock) as receiver,
        open_sender(receiver, clock, secret=settings.plain_secrets()[0]) as sender,
    ):
        first, second = sample("crawl.page"), sample("crawl.page", seed=1)
        await sender.send(first)
        await sender.send(second)
        await clock.advance(hours=1)

    assert seen == [second.event.webhook_id]


def wrong_calls() -> list[tuple[object, object, object, str]]:
    return [
        ("nobody", None, 1, "no handler of the router is 'nobody'; register it with"),
        ("look", None, 1, "no handler of the router is 'look'; did you mean 'other.look'?"),
        (len, None, 1, "no handler of the router is 'len'"),
        (5, None, 1, "takes a handler's function or its name, not 5"),
        ("ends", None, 1, "the handler ends is not registered for crawl.page"),
        ("lane", None, 1, "the handler lane has an order"),
        ("other.look", CrawlPage(job_id="other"), 1, "takes the event that the handler got"),
        ("other.look", None, "soon", "after= takes a text such as '5 minutes'"),
        ("other.look", None, -1, "after= takes from 0s to"),
    ]


@pytest.mark.parametrize(("wanted", "event", "after", "message"), wrong_calls())
def test_a_wrong_call_fails_with_a_sentence(wanted: object, event: object, after: object, message: str) -> None:
    router = Router()

    @router.on(CrawlPage, name="page")
    def page(given: CrawlPage, ctx: Context) -> None:
        ctx.later(wanted, event or given, after=after)  # type: ignore[arg-type]

    router.later(CrawlPage, name="other.look")(lambda event: None)
    router.later("crawl.completed", name="ends")(lambda event: None)
    router.on("crawl.failed", name="unused")(lambda event: None)
    router.on(CrawlPage, name="lane", ordered=True)(lambda event: None)

    (run,) = (one for one in deliver(sample("crawl.page"), router, check=False) if one.handler == "page")

    assert message in (run.error or "")


def test_a_run_can_be_delivered_to_its_handler_alone() -> None:
    """So that a test needs no worker for it."""
    router = Router()

    @router.every("1 day", name="report")
    def report(event: ScheduledRun, ctx: Context) -> str:
        if event.due_at.day == 2:
            raise GiveUp("not today")
        return f"{event.name} {event.due_at:%d} {ctx.trigger}"

    router.every("1 day", name="another")(lambda event: None)
    due_at = datetime(2026, 11, 1, tzinfo=UTC)

    (run,) = deliver(ScheduledRun(name="report", due_at=due_at), router)

    assert (run.value, run.type) == ("report 01 schedule", "schedule.run")
