"""`receiver monitors create`, `pause`, `resume` and `delete`, and `receiver jobs cancel`."""

import json
from typing import Any

import pytest

from receiver.cli.main import receiver, run
from tests.cases import for_each
from tests.cli.kept import DONE, WAITING, Filling, fill, on_a_terminal
from tests.service.client.stub import Stub

pytestmark = pytest.mark.usefixtures("stub")
PAGE = "https://example.com"
HOOK = {"url": "https://hooks.example.com/webhooks"}
MONITOR = {
    "id": "mon-1",
    "name": "Prices\x1b",
    "status": "active",
    "schedule": {"cron": "0 * * * *", "timezone": "UTC"},
    "targets": [{"type": "scrape", "urls": [PAGE]}],
}
Answers = dict[str, tuple[int, Any]]


def invoke(*args: str) -> int:
    return run(receiver.main, list(args))


def test_a_monitor_is_made_with_this_receiver_as_its_webhook(
    stub: Stub, answers: Answers, capsys: pytest.CaptureFixture[str]
) -> None:
    """The output is its id."""
    answers["POST /v2/monitor"] = (200, {"success": True, "data": MONITOR})
    schedule = ("--cron", "0 9 * * 1", "--timezone", "Europe/Berlin")

    code = invoke("monitors", "create", "Prices", PAGE, *schedule, "--goal", "prices", "--event", "check.completed")

    assert code == 0
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("mon-1\n", "next: receiver monitors run mon-1\n")
    assert stub.connections[0].body == {
        "name": "Prices",
        "schedule": {"cron": "0 9 * * 1", "timezone": "Europe/Berlin"},
        "targets": [{"type": "scrape", "urls": [PAGE]}],
        "goal": "prices",
        "webhook": {**HOOK, "events": ["monitor.check.completed"]},
    }


@pytest.mark.parametrize("verb", ["show", "run", "pause", "resume", "delete"])
def test_a_shortened_id_is_refused_before_the_service_is_asked(
    verb: str, stub: Stub, capsys: pytest.CaptureFixture[str]
) -> None:
    """The store does not know monitors, and the service takes only whole ids."""
    assert invoke("monitors", verb, "01a216cf") == 2

    assert "the whole id of a monitor: `receiver monitors list` shows it" in " ".join(
        capsys.readouterr().err.split()
    )
    assert not stub.connections


@pytest.mark.parametrize("args", [("jobs", "fetch"), ("jobs", "cancel"), ("backfill", "--yes", "--job")])
def test_a_shortened_id_of_an_unknown_job_is_refused(
    args: tuple[str, ...], stub: Stub, capsys: pytest.CaptureFixture[str]
) -> None:
    """The store cannot complete it."""
    fill(lambda store: store.items(1, DONE))

    assert invoke(*args, "01a216cf", "--family", "crawl") == 1

    assert "the service needs its whole id" in capsys.readouterr().err
    assert not stub.connections


@pytest.mark.parametrize("verb", ["fetch", "cancel"])
def test_without_a_store_a_shortened_id_of_a_job_is_refused(
    verb: str, stub: Stub, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would be sent to the service as it is."""
    assert invoke("jobs", verb, "01a216cf", "--family", "crawl") == 1

    assert "the service needs its whole id" in capsys.readouterr().err
    assert not stub.connections


def test_a_monitor_can_have_any_target(stub: Stub, answers: Answers, capsys: pytest.CaptureFixture[str]) -> None:
    """It comes as JSON. The schedule can be words."""
    answers["POST /v2/monitor"] = (200, {"success": True, "data": MONITOR})
    target = {"type": "crawl", "url": PAGE, "crawlOptions": {"limit": 5}}

    code = invoke(
        "monitors", "create", "Site", "--every", "hourly", "--set", f"targets={json.dumps([target])}", "--json"
    )

    assert code == 0
    assert json.loads(capsys.readouterr().out) == {"monitor_id": "mon-1", "name": "Prices\x1b", "status": "active"}
    assert stub.connections[0].body == {
        "name": "Site",
        "schedule": {"text": "hourly"},
        "targets": [target],
        "webhook": HOOK,
    }


@for_each(
    ("args", "words"),
    [
        ((), "Missing argument 'NAME'"),
        (("m", PAGE), "--every"),
        (("m", "--every", "hourly"), "targets: this is missing"),
        (("m", PAGE, "--every", "now and then"), "schedule.text: the service takes: every N minutes"),
        (("m", PAGE, "--cron", "@daily"), "schedule.cron: a cron expression has five fields"),
        (("m", PAGE, "--cron", "0 9 * * 1", "--every", "hourly"), "exactly one of cron and text"),
        (("m", PAGE, "--cron", "0 9 * * 1", "--timezone", "CEST+"), "schedule.timezone: the name of a time zone"),
        (("m", PAGE, "--every", "hourly", "--event", "completed"), "monitor has no event 'completed'"),
    ],
)
def test_an_invalid_monitor_is_not_sent(
    stub: Stub, capsys: pytest.CaptureFixture[str], args: tuple[str, ...], words: str
) -> None:
    """It is wrong use with exit code 2."""
    assert invoke("monitors", "create", *args) == 2
    assert words in capsys.readouterr().err
    assert stub.connections == []


def test_a_monitor_that_may_have_been_made_is_reported(
    answers: Answers, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second one would cost, too."""
    answers["POST /v2/monitor"] = (500, {"error": "oh"})

    assert invoke("monitors", "create", "m", PAGE, "--every", "hourly") == 1
    assert "the service may have made the monitor" in capsys.readouterr().err


def test_a_monitor_is_paused_and_resumed(stub: Stub, answers: Answers, capsys: pytest.CaptureFixture[str]) -> None:
    """The output is the status that the service says it has now."""
    answers["PATCH /v2/monitor/mon-1"] = (200, {"success": True, "data": {**MONITOR, "status": "paused"}})

    assert invoke("monitors", "pause", "mon-1") == 0
    assert capsys.readouterr().out == "mon-1  paused\n"

    answers["PATCH /v2/monitor/mon-1"] = (200, {"success": True, "data": MONITOR})
    assert invoke("monitors", "resume", "mon-1", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"monitor_id": "mon-1", "status": "active"}
    assert [one.body for one in stub.connections] == [{"status": "paused"}, {"status": "active"}]


def test_a_monitor_is_deleted_after_its_plan(
    stub: Stub, answers: Answers, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--dry-run` shows only the plan. Without `--yes` and without a terminal nothing happens."""
    answers["GET /v2/monitor/mon-1"] = (200, {"success": True, "data": MONITOR})
    answers["DELETE /v2/monitor/mon-1"] = (200, {"success": True})
    shown = ["name      Prices\\x1b", "status    active", "schedule  0 * * * * UTC", "targets   1 target"]
    plan = "\n  ".join(["monitor mon-1", *shown]) + "\n"

    assert invoke("monitors", "delete", "mon-1", "--dry-run") == 0
    assert capsys.readouterr().out == plan
    assert invoke("monitors", "delete", "mon-1") == 2
    assert "add --yes to continue" in capsys.readouterr().err
    assert [one.method for one in stub.connections] == ["GET", "GET"]

    assert invoke("monitors", "delete", "mon-1", "--yes") == 0
    assert capsys.readouterr().out == f"{plan}deleted monitor mon-1\n"
    assert [one.method for one in stub.connections] == ["GET", "GET", "GET", "DELETE"]


def test_a_person_is_asked_before_a_monitor_is_deleted(stub: Stub, answers: Answers) -> None:
    """No is an answer, too."""
    answers["GET /v2/monitor/mon-1"] = (200, {"success": True, "data": MONITOR})

    code, seen = on_a_terminal("monitors", "delete", "mon-1", answer="n\n")

    assert code == 1
    assert "Delete this monitor? [y/N]: " in seen
    assert "nothing was changed" in seen
    assert [one.method for one in stub.connections] == ["GET"]


@for_each(
    ("job_type", "path"),
    [("crawl.page", "crawl/job-1"), ("batch_scrape.page", "batch/scrape/job-1"), ("agent.started", "agent/job-1")],
)
def test_a_job_is_cancelled_by_its_stored_family(
    stub: Stub, answers: Answers, capsys: pytest.CaptureFixture[str], job_type: str, path: str
) -> None:
    """Its id may be shortened; with a store, no family has to be named."""

    async def one(store: Filling) -> None:
        await store.item(DONE, type=job_type, job_id=f"{job_type}-1", key=job_type)

    fill(one)
    family, job_id = job_type.partition(".")[0], f"{job_type}-1"
    path = path.replace("job-1", job_id)
    answers[f"DELETE /v2/{path}"] = (200, {"success": True, "status": "cancelled"})

    assert invoke("jobs", "cancel", job_type[:7]) == 0
    assert capsys.readouterr().out == f"cancelled {family} {job_id}\n"
    assert stub.connections[-1].path == f"/v2/{path}"


def test_a_job_without_events_is_cancelled_by_the_family_that_is_named(
    stub: Stub, answers: Answers, capsys: pytest.CaptureFixture[str]
) -> None:
    """There may be no store at all. `batch` is another name of `batch_scrape`."""
    answers["DELETE /v2/batch/scrape/job-9"] = (200, {"status": "cancelled"})

    assert invoke("jobs", "cancel", "job-9") == 1
    assert "there is no store, so add --family" in capsys.readouterr().err
    assert invoke("jobs", "cancel", "job-9", "--family", "batch") == 0
    assert capsys.readouterr().out == "cancelled batch_scrape job-9\n"

    fill(lambda store: store.item(WAITING))
    assert invoke("jobs", "cancel", "job-9", "--family", "batch_scrape") == 0
    assert invoke("jobs", "cancel", "job-9", "--family", "extract") == 2
    assert "the service cancels only crawl, batch_scrape, agent" in capsys.readouterr().err
    assert len(stub.connections) == 2


def test_a_job_that_is_over_is_reported(answers: Answers, capsys: pytest.CaptureFixture[str]) -> None:
    """The service says so."""
    answers["DELETE /v2/crawl/job-9"] = (409, {"error": "Crawl is already completed"})

    assert invoke("jobs", "cancel", "job-9", "--family", "crawl") == 1
    assert "Crawl is already completed" in capsys.readouterr().err
