"""The log lines of attempts."""

import logging
from datetime import timedelta
from typing import Any

import pytest

from receiver.core.clock import VirtualClock
from receiver.core.types import WorkState
from receiver.errors import GiveUp, NoApiKey, Retry
from receiver.worker.attempts import Ended, ProcessDied, log_attempt, refused
from receiver.worker.calls.runner import Runner
from tests.doubles import NOON, Inline, event_of, soon
from tests.worker.running import SECOND, batch, claim, raising, run


async def logged(
    caplog: pytest.LogCaptureFixture, ended: Ended, state: WorkState = WorkState.WAITING
) -> dict[str, Any]:
    """Log the end of an attempt and return the fields of its line."""
    caplog.clear()
    log_attempt(claim(print), ended, state, NOON + SECOND)
    (record,) = caplog.records
    return vars(record)


@pytest.mark.parametrize("plain", [False, True], ids=["async", "plain"])
@pytest.mark.parametrize("state", [WorkState.WAITING, WorkState.DEAD])
async def test_a_failed_attempt_logs_frames_and_a_command(
    caplog: pytest.LogCaptureFixture, plain: bool, state: WorkState
) -> None:
    """The frames of the handler alone, and the traceback from its first line on."""
    line = await logged(caplog, await run(raising(ValueError("no"))[plain]), state)

    (frame,) = line["frames"]
    assert frame.startswith("tests/worker/running.py:")
    assert frame.endswith("_handler: raise error")
    header, first = line["traceback"].splitlines()[:2]
    assert header == "Traceback (most recent call last):"
    assert 'tests/worker/running.py"' in first
    assert line["advice"] == "receiver work-items show 1"
    assert f"\n  {frame}\n  receiver work-items show 1" in str(line["msg"])


async def test_the_command_in_the_log_names_another_store(caplog: pytest.LogCaptureFixture) -> None:
    """So that it can be pasted as it is."""
    log_attempt(
        claim(print), await run(raising(ValueError("no"))[0]), WorkState.DEAD, NOON, store="sqlite:///my other.db"
    )

    assert vars(caplog.records[-1])["advice"] == "receiver work-items show 1 --store 'sqlite:///my other.db'"


@pytest.mark.parametrize("error", [GiveUp("gone"), Retry("later"), Retry(after=timedelta(hours=1))])
async def test_a_deliberate_end_is_one_line(caplog: pytest.LogCaptureFixture, error: Exception) -> None:
    """Its reason says why; machines get the traceback too."""
    line = await logged(caplog, await run(raising(error)[0]))

    assert "\n" not in str(line["msg"])
    assert str(error) in str(line["msg"])
    assert "traceback" in line


async def test_a_missing_key_shows_where_the_handler_needs_it(caplog: pytest.LogCaptureFixture) -> None:
    """It is a GiveUp that the handler did not choose."""
    line = await logged(caplog, await run(raising(NoApiKey("none"))[0]), WorkState.DEAD)

    assert line["frames"][0].startswith("tests/worker/running.py:")
    assert line["advice"] == "receiver work-items show 1"


async def test_an_attempt_that_never_ran_is_not_counted(caplog: pytest.LogCaptureFixture) -> None:
    """The line says after which attempt the work item is dead: the last one that ran."""
    claimed = claim(print)._replace(refusal="not run again: 2 workers died while it ran")

    log_attempt(claimed, refused(claimed, NOON), WorkState.DEAD, NOON)

    [record] = caplog.records
    assert claimed.item.attempt == 3
    assert "DEAD after attempt 2: not run again: 2 workers died" in str(vars(record)["msg"])


async def test_a_time_out_shows_where_the_handler_was(caplog: pytest.LogCaptureFixture) -> None:
    """None of our own frames."""
    clock = VirtualClock(NOON)

    async def hang(event: object) -> None:
        clock.advance(timedelta(seconds=4))
        await clock.sleep(timedelta(days=1))

    line = await logged(caplog, await run(hang, clock, timeout=timedelta(seconds=3)))

    assert line["frames"][0].startswith("tests/worker/test_attempts.py:")
    assert "await clock.sleep" in line["frames"][0]
    assert not [frame for frame in line["frames"] if frame.startswith("receiver")]


@pytest.mark.parametrize("error", [ProcessDied("killed"), None], ids=["died", "refused"])
async def test_a_failure_outside_the_handler_has_the_command_and_no_frames(
    caplog: pytest.LogCaptureFixture, error: Exception | None
) -> None:
    """Frames of ours would tell nothing."""
    ended = refused(claim(print), NOON) if error is None else await run(raising(error)[0])
    line = await logged(caplog, ended, WorkState.DEAD)

    assert [frame for frame in line["frames"] if "runner" in frame] == []
    assert line["advice"] == "receiver work-items show 1"


async def test_frames_of_a_batch_are_logged_once() -> None:
    """They are the same for all of its items."""

    def fail(events: list[Any]) -> None:
        raise ValueError("no")

    ends = await soon(Runner(VirtualClock(NOON), Inline()).run_batch(batch(fail, 3, batch=3)))

    assert [len(end.raised.frames) for end in ends] == [1, 0, 0]
    assert all(end.raised.traceback for end in ends)


def test_a_success_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """Without the fields of a failure."""
    caplog.set_level(logging.INFO)
    ended = refused(claim(print), NOON)
    log_attempt(claim(print), ended, WorkState.DONE, NOON)

    assert [event_of(record) for record in caplog.records] == ["attempt_succeeded"]
    assert "error" not in vars(caplog.records[0])
