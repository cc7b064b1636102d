"""The schedule: due checks, overlaps, credits, restarts and retention."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from receiver.core.clock import VirtualClock
from receiver.emulator.clock import EmulatorClock
from receiver.emulator.failures import CallRefused
from tests.doubles import event_of, eventually, soon, turns
from tests.emulator.monitors.studio import HOURLY, studio
from tests.emulator.pages import HOME, TEAM

HOUR = timedelta(hours=1)


async def test_a_check_runs_when_it_is_due() -> None:
    async with studio() as one:
        one.web.show("a")
        monitor = await one.create()
        await one.passes(timedelta(minutes=59))
        before = await one.checks(monitor)
        await one.passes(timedelta(minutes=1))
        (check,) = await one.checks(monitor)
        after = await one.monitors.get(TEAM, monitor["id"])

    assert monitor["nextRunAt"] == "2026-01-01T13:00:00.000Z"
    assert before == []
    assert (check["trigger"], check["scheduledFor"]) == ("scheduled", "2026-01-01T13:00:00.000Z")
    assert (check["status"], check["startedAt"]) == ("completed", "2026-01-01T13:00:00.000Z")
    assert after["nextRunAt"] == "2026-01-01T14:00:00.000Z"
    assert after["lastRunAt"] == "2026-01-01T13:00:00.000Z"
    assert after["currentCheckId"] is None
    assert after["lastCheckSummary"]["new"] == 1


async def test_checks_go_on_hour_by_hour() -> None:
    async with studio() as one:
        one.web.show("a")
        monitor = await one.create()
        for _ in range(3):
            await one.passes(HOUR)
        checks = await one.checks(monitor)

    assert [check["scheduledFor"][11:13] for check in checks] == ["15", "14", "13"]


async def test_runs_that_a_clock_was_set_over_come_one_after_the_other() -> None:
    async with studio() as one:
        one.web.show("a")
        monitor = await one.create()
        await one.passes(3 * HOUR)
        checks = await one.checks(monitor)

    assert [(check["status"], check["scheduledFor"][11:13]) for check in checks] == [
        ("completed", "15"),
        ("completed", "14"),
        ("completed", "13"),
    ]


@pytest.mark.parametrize("jitter", [False, True])
async def test_a_clock_that_is_set_over_too_many_runs_brings_the_last_of_them(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, jitter: bool
) -> None:
    """The log tells from when on."""
    monkeypatch.setattr("receiver.emulator.monitors.service.MAX_RUNS", 5)
    async with studio(jitter=jitter) as one:
        one.web.show("a")
        monitor = await one.create()
        await one.passes(timedelta(days=365))
        checks = await one.checks(monitor)
        after = await one.monitors.get(TEAM, monitor["id"])

    late = datetime.fromisoformat(monitor["nextRunAt"]) - datetime(2026, 1, 1, 13, tzinfo=UTC)
    end = datetime(2027, 1, 1, 12, tzinfo=UTC) + late
    first = 0 if late == timedelta(0) else 1
    assert [datetime.fromisoformat(check["scheduledFor"]) for check in checks] == [
        end - number * HOUR for number in range(first, first + 5)
    ]
    assert datetime.fromisoformat(after["nextRunAt"]) == end + (1 - first) * HOUR
    assert [event_of(record) for record in caplog.records] == ["monitor_runs_left_out"]


async def test_a_clock_that_is_moved_step_by_step_over_too_many_runs_brings_the_last_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As the admin API moves it: the runs before them cost nothing."""
    monkeypatch.setattr("receiver.emulator.monitors.service.MAX_RUNS", 5)
    clock = EmulatorClock(VirtualClock())
    async with studio(clock=clock, horizon=clock.horizon) as one:  # type: ignore[arg-type]
        one.web.show("a")
        monitor = await one.create()
        await one.idle()
        await clock.advance(timedelta(days=365), one.activity.over)
        year = await one.checks(monitor)
        await clock.advance(timedelta(hours=2), one.activity.over)
        later = await one.checks(monitor)

    assert [check["startedAt"] for check in year] == [
        f"2027-01-01T{hour:02}:00:00.000Z" for hour in (12, 11, 10, 9, 8)
    ]
    assert [check["startedAt"][11:13] for check in later[:3]] == ["14", "13", "12"]


async def test_a_run_that_is_due_while_a_check_runs_is_skipped() -> None:
    """It is recorded, and tells nobody."""
    async with studio() as one:
        one.web.show("a")
        monitor = await one.create()
        one.web.gate = asyncio.Event()
        started = await one.monitors.run(TEAM, monitor["id"])
        await turns()
        one.clock.advance(HOUR)
        await soon(one.skipped())
        skipped = [check for check in await one.checks(monitor) if check["id"] != started["id"]]
        one.web.gate.set()
        await one.idle()
        told = len(one.mailbox.events)

    assert [(check["status"], check["trigger"]) for check in skipped] == [("skipped_overlap", "scheduled")]
    assert skipped[0]["finishedAt"] == skipped[0]["scheduledFor"] == "2026-01-01T13:00:00.000Z"
    assert told == 2


@pytest.mark.parametrize("trigger", ["scheduled", "manual"])
async def test_without_credits_a_run_is_skipped(trigger: str) -> None:
    async with studio() as one:
        one.purse.credits = 0
        monitor = await one.create()
        if trigger == "manual":
            await one.check(monitor)
        else:
            await one.passes(HOUR)
        (check,) = await one.checks(monitor)

    assert (check["status"], check["trigger"]) == ("skipped_no_credits", trigger)
    assert (check["billingStatus"], check["actualCredits"]) == ("not_applicable", 0)
    assert one.mailbox.events == []
    assert one.web.fetched == []


async def test_a_paused_monitor_rests_until_it_is_active_again() -> None:
    async with studio() as one:
        one.web.show("a")
        monitor = await one.create()
        paused = await one.monitors.change(TEAM, monitor["id"], {"status": "paused"})
        await one.passes(3 * HOUR)
        nothing = await one.checks(monitor)
        with pytest.raises(CallRefused) as refused:
            await one.monitors.run(TEAM, monitor["id"])
        active = await one.monitors.change(TEAM, monitor["id"], {"status": "active"})
        await one.passes(HOUR)
        (check,) = await one.checks(monitor)

    assert (paused["status"], paused["nextRunAt"], nothing) == ("paused", None, [])
    assert refused.value.status == 409
    assert active["nextRunAt"] == "2026-01-01T16:00:00.000Z"
    assert check["scheduledFor"] == "2026-01-01T16:00:00.000Z"


async def test_a_changed_schedule_counts_at_once() -> None:
    async with studio() as one:
        one.web.show("a")
        monitor = await one.create()
        changed = await one.monitors.change(TEAM, monitor["id"], {"schedule": {"text": "every 15 minutes"}})
        await one.passes(timedelta(minutes=15))
        (check,) = await one.checks(monitor)

    assert changed["schedule"] == {"cron": "*/15 * * * *", "timezone": "UTC"}
    assert check["scheduledFor"] == "2026-01-01T12:15:00.000Z"


async def test_a_deleted_monitor_runs_no_more() -> None:
    async with studio() as one:
        monitor = await one.create()
        await one.monitors.delete(TEAM, monitor["id"])
        await one.passes(3 * HOUR)

    assert one.web.fetched == []


async def test_runs_that_wait_do_not_begin_when_their_monitor_is_deleted() -> None:
    """The one that has begun goes on to its end."""
    async with studio() as one:
        one.web.show("a")
        one.web.gate = asyncio.Event()
        monitor = await one.create()
        one.clock.advance(3 * HOUR)
        await eventually(lambda: bool(one.web.fetched))
        await one.monitors.delete(TEAM, monitor["id"])
        one.web.gate.set()
        await one.idle()

    assert [event["type"] for event in one.mailbox.events] == ["monitor.page", "monitor.check.completed"]


async def test_a_schedule_is_read_in_its_time_zone() -> None:
    async with studio(clock=VirtualClock(datetime(2026, 3, 28, 12, tzinfo=UTC))) as one:
        monitor = await one.create(schedule={"cron": "30 2 * * *", "timezone": "Europe/Berlin"})

    assert monitor["nextRunAt"] == "2026-03-29T01:00:00.000Z"


async def test_jitter_moves_every_run_of_a_monitor() -> None:
    async with studio(jitter=True) as one:
        one.web.show("a")
        monitor = await one.create()
        late = datetime.fromisoformat(monitor["nextRunAt"]) - datetime(2026, 1, 1, 13, tzinfo=UTC)
        await one.passes(2 * HOUR)
        checks = await one.checks(monitor)

    assert timedelta(0) < late < timedelta(minutes=5)
    assert {datetime.fromisoformat(check["scheduledFor"]).minute for check in checks} == {late.seconds // 60}


async def test_monitors_and_what_they_remember_survive_a_restart(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with studio(tmp_path / "state.db", clock=clock) as one:
        one.web.show("a")
        monitor = await one.create()
        await one.check(monitor)
    clock.advance(timedelta(minutes=1))
    async with studio(tmp_path / "state.db", clock=clock) as one:
        one.web.show("b")
        await one.passes(HOUR)
        newest, oldest = await one.checks(monitor)
        kept = await one.monitors.get(TEAM, monitor["id"])

    assert (oldest["summary"]["new"], newest["summary"]["changed"]) == (1, 1)
    assert kept["name"] == monitor["name"]


async def test_of_the_runs_missed_while_nothing_ran_only_the_last_comes(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with studio(tmp_path / "state.db", clock=clock) as one:
        monitor = await one.create()
    clock.advance(timedelta(days=7))
    async with studio(tmp_path / "state.db", clock=clock) as one:
        one.web.show("a")
        await one.idle()
        (check,) = await one.checks(monitor)

    assert check["scheduledFor"] == "2026-01-08T12:00:00.000Z"


async def test_old_checks_are_forgotten_and_pages_are_not() -> None:
    """What the next check compares with stays, however long ago it was."""
    async with studio() as one:
        one.web.show("a")
        monitor = await one.create(retentionDays=1, schedule={"cron": "0 0 1 * *"})
        first = await one.check(monitor)
        one.clock.advance(timedelta(days=2))
        await one.check(monitor)
        one.web.show("b")
        third = await one.check(monitor)
        checks = await one.checks(monitor)
        with pytest.raises(CallRefused, match="Check not found"):
            await one.answer(monitor, first["id"])

    assert checks[0]["id"] == third["id"]
    assert first["id"] not in [check["id"] for check in checks]
    assert third["summary"]["changed"] == 1


@pytest.mark.parametrize(
    ("body", "month"),
    [
        ({}, 720),
        ({"targets": [{"type": "scrape", "urls": [HOME, f"{HOME}a"]}], "schedule": {"cron": "0 0 * * *"}}, 60),
        ({"goal": "g"}, 1440),
        ({"targets": [{"type": "crawl", "url": HOME, "crawlOptions": {"limit": 7}}]}, 5040),
        (
            {
                "targets": [
                    {
                        "type": "scrape",
                        "urls": [HOME],
                        "scrapeOptions": {"formats": [{"type": "json", "prompt": "p"}]},
                    }
                ]
            },
            3600,
        ),
        ({"targets": [{"type": "search", "queries": ["q"], "maxResults": 11}], "judgeEnabled": False}, 2880),
        ({"schedule": {"cron": "0 */7 * * *"}}, 103),
        ({"schedule": {"cron": "0 0 1 1 *"}}, 1),
    ],
)
async def test_the_cost_of_a_month_is_estimated(body: dict[str, Any], month: int) -> None:
    async with studio() as one:
        monitor = await one.create(**{"schedule": HOURLY, **body})

    assert monitor["estimatedCreditsPerMonth"] == month
