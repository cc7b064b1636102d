"""`receiver jobs`, run as a user runs it, on a real database."""

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest

from receiver.cli.jobs import readable
from receiver.cli.main import receiver, run
from receiver.core.bulk import Imported
from receiver.core.clock import local_time
from receiver.core.jobs import JobArrivals, JobDetail
from receiver.core.types import HandlerSwitch, Origin
from receiver.stores import open_store
from tests.cli.kept import DEAD, DONE, NOON, SAVE, STORE, TELL, WAITING, Filling, delivery, fill, on_a_terminal
from tests.core.test_jobs import JOB
from tests.doubles import appended

pytestmark = pytest.mark.usefixtures("configured")


def invoke(*args: str) -> int:
    return run(receiver.main, ["jobs", *args])


def listed(capsys: pytest.CaptureFixture[str], *args: str) -> list[dict[str, Any]]:
    assert invoke("list", "--json", *args) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.fixture
def two(configured: None) -> None:
    """A crawl of three pages has ended, and an agent runs."""

    async def run_all(store: Filling) -> None:
        await store.item(DONE, type="crawl.started", key="started")
        await store.items(2, DONE, key="page-{}", minutes=1)
        await store.item(DEAD, key="bad", minutes=2, success=False)
        await appended(store.log, delivery("bad", success=False))
        await store.item(DONE, TELL, type="crawl.completed", key="end", minutes=3)
        await appended(store.log, delivery("step", 4, type="agent.action", job_id="job-2"))

    fill(run_all)


@pytest.mark.usefixtures("two")
def test_the_listing_as_json_has_one_object_per_job(capsys: pytest.CaptureFixture[str]) -> None:
    """The job with the newest event is first, and each object has all fields."""
    agent, crawl = listed(capsys)

    assert crawl == {
        "job_id": "job-1",
        "family": "crawl",
        "state": "completed",
        "started": True,
        "pages_succeeded": 2,
        "pages_failed": 1,
        "pages_late": 0,
        "deliveries": 5,
        "duplicates": 1,
        "backfilled": 0,
        "first_at": "2026-08-04T12:00:00.000000Z",
        "last_at": "2026-08-04T12:03:00.000000Z",
        "ended_by": "crawl.completed",
        "ended_at": "2026-08-04T12:03:00.000000Z",
        "end_success": True,
        "warnings": [],
    }
    assert (agent["job_id"], agent["state"], agent["pages_succeeded"], agent["ended_by"]) == (
        "job-2",
        "open",
        None,
        None,
    )


@pytest.mark.usefixtures("two")
@pytest.mark.parametrize(
    ("filters", "ids"),
    [
        (("--type", "crawl"), ["job-1"]),
        (("--type", "*.action"), ["job-2"]),
        (("--job", "job-2"), ["job-2"]),
        (("--since", "2026-08-04T12:04:00Z"), ["job-2"]),
        (("--until", "2026-08-04T12:04:00Z"), ["job-1"]),
        (("--state", "open"), ["job-2"]),
        (("--state", "ended"), ["job-1"]),
        (("--state", "failed"), []),
        (("--limit", "1"), ["job-2"]),
    ],
)
def test_filters_narrow_the_listing(
    filters: tuple[str, ...], ids: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The filters are those of every command; --type also takes a family."""
    assert [one["job_id"] for one in listed(capsys, *filters)] == ids


@pytest.mark.usefixtures("two")
def test_in_a_pipe_a_job_is_an_aligned_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Ids and moments are complete, whatever the width of the terminal."""
    assert invoke("list", "--type", "crawl") == 0

    head, line = capsys.readouterr().out.splitlines()
    assert head.split()[:4] == ["last", "family", "job_id", "state"]
    assert line.split() == [
        *(local_time(NOON + timedelta(minutes=3)), "crawl", "job-1", "completed", "2", "1", "+1", "-"),
        *(local_time(NOON), "yes", "-"),
    ]


@pytest.mark.usefixtures("two")
def test_a_listing_for_people_says_when_there_is_more(capsys: pytest.CaptureFixture[str]) -> None:
    """It also says that no job matched."""
    assert invoke("list", "--type", "nothing") == 0
    assert capsys.readouterr().err == "no job matched\n"


@pytest.mark.usefixtures("two")
def test_on_a_terminal_jobs_are_a_table() -> None:
    """It has titles, and a dash for a missing value."""
    code, seen = on_a_terminal("jobs", "list", columns=200)

    head, agent, crawl = seen.splitlines()[:3]
    assert code == 0
    assert head.split()[:6] == ["last", "family", "job_id", "state", "succeeded", "failed"]
    assert agent.split()[1:6] == ["agent", "job-2", "open", "-", "-"]
    assert crawl.split()[1:6] == ["crawl", "job-1", "completed", "2", "1"]


@pytest.mark.usefixtures("two")
def test_the_table_fits_in_80_columns() -> None:
    """Columns without room are named, and what is remarkable in them is below its row."""
    _, seen = on_a_terminal("jobs", "list", columns=80)

    assert max(len(line) for line in seen.splitlines()) <= 80
    assert "completed" in seen
    assert "1 duplicate" in seen or "+1" in seen
    assert "columns without room: first; --wide" in seen


@pytest.mark.usefixtures("two")
def test_one_job_is_shown_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """The object has arrivals by type and work by handler. The id may be shortened."""
    assert invoke("show", "job-1", "--json") == 0

    shown = json.loads(capsys.readouterr().out)
    assert shown["arrivals"] == [
        {"type": "crawl.started", "success": True, "count": 1, "duplicates": 0, "backfilled": 0},
        {"type": "crawl.page", "success": True, "count": 2, "duplicates": 0, "backfilled": 0},
        {"type": "crawl.page", "success": False, "count": 1, "duplicates": 1, "backfilled": 0},
        {"type": "crawl.completed", "success": True, "count": 1, "duplicates": 0, "backfilled": 0},
    ]
    assert shown["work"] == [
        {"handler": TELL, "status": "on", "counts": {"done": 1}},
        {"handler": SAVE, "status": "on", "counts": {"done": 3, "dead": 1}},
    ]
    assert (shown["new"], shown["warnings"]) == (0, [])


@pytest.mark.usefixtures("two")
def test_one_job_is_shown_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    """An open job shows its start and its warnings: here no event arrived for an hour."""
    assert invoke("show", "job-2") == 0

    out = capsys.readouterr().out
    assert f"state           open since {local_time(NOON + timedelta(minutes=4))}, " in out
    assert "1  deliveries that are not routed yet" in out
    assert "\nwarnings\n  nothing came for an hour" in out


def test_backfilled_events_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    """The listing and each type have the count."""

    async def import_deliveries(store: Filling) -> None:
        await appended(store.log, delivery("sent"))
        made = [delivery(f"backfill:{number}") for number in range(2)]
        await store.controls.import_deliveries([Imported(one, origin=Origin.BACKFILL) for one in made])

    fill(import_deliveries)

    (job,) = listed(capsys)
    assert (job["deliveries"], job["backfilled"]) == (3, 2)
    assert invoke("show", "job-1") == 0
    out = capsys.readouterr().out
    assert "backfilled      2\n" in out
    assert "3  crawl.page               ok       2 by backfill\n" in out
    _, seen = on_a_terminal("jobs", "list", columns=200)
    assert "backfilled" in seen


@pytest.mark.usefixtures("two")
@pytest.mark.parametrize(("job_id", "words"), [("job", "several jobs have"), ("x", "no job matched")])
def test_an_unknown_or_ambiguous_id_is_an_error(
    job_id: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is 1, and standard output is empty."""
    assert invoke("show", job_id) == 1

    seen = capsys.readouterr()
    assert words in seen.err
    assert seen.out == ""


def test_without_a_store_the_commands_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 3."""
    assert invoke("list") == 3
    assert "there is no database" in capsys.readouterr().err


def test_no_text_of_the_sender_can_control_the_terminal() -> None:
    """The type of an event is such a text."""
    detail = JobDetail(JOB, (JobArrivals("crawl.\x1b[2J", True, 1, 0, 1),), 0, ())

    lines = list(readable(detail, NOON + timedelta(hours=2)))

    assert "\x1b" not in "".join(lines)
    assert any("crawl.\\x1b[2J" in line for line in lines)


def test_work_of_a_paused_handler_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """It shows why the job does not proceed."""

    async def pause() -> None:
        async with open_store(STORE).controls() as controls:
            await controls.switch(SAVE, HandlerSwitch.PAUSED)

    fill(lambda store: store.item(WAITING))
    asyncio.run(pause())

    assert invoke("show", "job-1") == 0
    assert f"{SAVE:<40} 1 waiting  (paused)" in capsys.readouterr().out
