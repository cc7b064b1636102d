"""`receiver backfill` and `receiver jobs fetch`, run as a user runs them, with a service on a socket."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from receiver.cli.main import receiver, run
from receiver.core.deliveries import DeliveryFilter, StoredDelivery
from receiver.core.types import Origin
from receiver.stores import open_store
from tests.cli.kept import STORE, fill, on_a_terminal
from tests.doubles import appended
from tests.replay.backfill.world import JOB, Service, crawl, document, sent
from tests.service.client.calling import KEY
from tests.service.client.stub import Connection, Stub, serving

pytestmark = pytest.mark.usefixtures("configured")
PATH = f"/v2/crawl/{JOB}"


@pytest.fixture
def service() -> Service:
    """A crawl of three pages, of which one failed."""
    return crawl(document(1), document(2), errors=[{"url": "https://example.com/bad", "error": "Timed out"}])


@pytest.fixture(autouse=True)
def stub(configured: None, monkeypatch: pytest.MonkeyPatch, service: Service) -> Iterator[Stub]:
    """The service on a socket, and settings that lead there."""

    def answer(connection: Connection) -> None:
        found = service.answers.get(connection.path, 404)
        if isinstance(found, int):
            connection.answer(
                found, {"success": False, "error": f"no \x1b[2J {connection.headers['authorization']}"}
            )
        else:
            connection.answer(200, found)

    with serving(answer) as made:
        monkeypatch.setenv("RECEIVER_BASE_URL", made.address)
        monkeypatch.setenv("RECEIVER_API_KEY", KEY)
        yield made


@pytest.fixture(autouse=True)
def one_page(stub: Stub) -> None:
    """Only the first page has arrived."""

    async def add(store: Any) -> None:
        await appended(store.log, sent("crawl.page", "w1", [document(1)]))

    fill(add)


def invoke(*args: str) -> int:
    return run(receiver.main, list(args))


def backfill(*args: str) -> int:
    return invoke("backfill", "--job", JOB, *args)


def stored() -> list[StoredDelivery]:
    async def read() -> list[StoredDelivery]:
        async with open_store(STORE).reports() as reports:
            return [one async for one in reports.iter_deliveries(DeliveryFilter())]

    return asyncio.run(read())


def test_the_plan_comes_before_the_import(capsys: pytest.CaptureFixture[str]) -> None:
    """The plan counts events by type and by job. A second run finds nothing."""
    assert backfill("--yes") == 0

    plan = capsys.readouterr().out.splitlines()
    assert plan == [
        "3 events to import, of 1 compared job",
        "  by type",
        "              2  crawl.page",
        "              1  crawl.completed",
        f"  jobs      {JOB}  3 of 4 missing",
        "imported 3 events, for workers to handle",
    ]
    assert [one.delivery.origin for one in stored()] == ["sender", "backfill", "backfill", "backfill"]

    assert backfill("--yes") == 0
    assert capsys.readouterr().out == "0 events to import, of 1 compared job\n"
    assert len(stored()) == 4


def test_a_dry_run_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """The command shows only the plan; with --json as JSON."""
    assert backfill("--dry-run", "--json") == 0

    assert json.loads(capsys.readouterr().out) == {
        "job_id": JOB,
        "produced": 4,
        "missing": {"crawl.page": 2, "crawl.completed": 1},
        "unclear": 0,
        "imported": 0,
        "problem": None,
    }
    assert len(stored()) == 1


def test_without_a_terminal_it_needs_yes(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a terminal the exit code is 2."""
    assert backfill() == 2
    assert "--yes" in capsys.readouterr().err
    assert len(stored()) == 1


def test_it_asks_on_a_terminal() -> None:
    """The answer no changes nothing."""
    code, seen = on_a_terminal("backfill", "--job", JOB, answer="n\n")

    assert code == 1
    assert "Import 3 events? [y/N]: n" in seen
    assert "nothing was changed" in seen
    assert len(stored()) == 1


def test_since_compares_all_jobs_from_that_time_on(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    """A job that cannot be compared is reported. The others are compared, and the exit code is 1."""

    async def add(store: Any) -> None:
        other = sent("crawl.page", "w9", [document(9)])
        await appended(store.log, other._replace(job_id="other"))

    fill(add)

    assert invoke("backfill", "--since", "2026-08-01", "--yes", "--type", "*.page") == 1

    captured = capsys.readouterr()
    assert "imported 2 events" in captured.out
    assert "job other cannot be compared: GET /v2/crawl/other: 404" in captured.err
    assert "expired" in captured.err
    assert "\x1b" not in captured.err
    assert KEY not in captured.err


def test_a_running_job_cannot_be_compared(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    """Missing events of a running job may still arrive."""
    service.answers[PATH]["status"] = "scraping"

    assert backfill("--yes") == 1
    assert "it is not over yet (its status is scraping)" in capsys.readouterr().err


def test_a_job_without_events_needs_its_family(capsys: pytest.CaptureFixture[str], service: Service) -> None:
    """The store does not know the family of such a job."""
    service.answers = {path.replace(JOB, "lost"): answer for path, answer in service.answers.items()}

    assert invoke("backfill", "--job", "lost", "--yes") == 1
    assert "add --family or --monitor" in capsys.readouterr().err
    assert invoke("backfill", "--job", "lost", "--family", "crawl", "--yes") == 0
    assert "imported 4 events" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, "check RECEIVER_API_KEY"),
        (402, "not enough credits"),
        (403, "your account does not have what was asked for"),
        (404, "kept for 24 hours"),
        (409, "is over"),
    ],
)
def test_a_refusal_of_the_service_has_advice(
    service: Service, capsys: pytest.CaptureFixture[str], status: int, words: str
) -> None:
    """The message is one line without the key, and the exit code is 1."""
    service.answers[PATH] = status

    assert backfill("--yes") == 1

    error = capsys.readouterr().err
    assert words in error
    assert KEY not in error
    assert len(stored()) == 1


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((), "--job ID"),
        (("--since", "1h", "--family", "crawl"), "go with --job ID"),
    ],
)
def test_wrong_use_is_reported(capsys: pytest.CaptureFixture[str], args: tuple[str, ...], words: str) -> None:
    """The exit code is 2."""
    assert invoke("backfill", *args) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    "args", [("backfill", "--job", JOB), ("jobs", "fetch", JOB), ("jobs", "fetch", JOB, "--to", "found")]
)
def test_without_a_key_no_call_is_made(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], stub: Stub, args: tuple[str, ...]
) -> None:
    """The message names the setting, and the exit code is 2."""
    monkeypatch.delenv("RECEIVER_API_KEY")

    assert invoke(*args) == 2
    assert "no RECEIVER_API_KEY is set" in capsys.readouterr().err
    assert stub.connections == []


def test_results_of_a_job_are_stored_and_not_handled(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    """It stores pages, failed pages and the end, and names the next command. A second run stores nothing."""
    service.answers[PATH]["data"].append({"markdown": "of no address"})

    assert invoke("jobs", "fetch", JOB[:20]) == 0

    captured = capsys.readouterr()
    assert captured.out.splitlines() == [
        f"5 events of job {JOB}: 3 new and stored, 1 stored before",
        "1 of them were left out: they have neither an id nor a URL",
    ]
    assert captured.err == f"no worker handles them; next: receiver replay --job {JOB}\n"
    found = [one.delivery for one in stored()]
    assert [(one.type, one.success, one.origin) for one in found[1:]] == [
        ("crawl.page", True, Origin.IMPORT),
        ("crawl.page", False, Origin.IMPORT),
        ("crawl.completed", True, Origin.IMPORT),
    ]
    assert found[1].headers == (("content-type", "application/json"), ("x-receiver-origin", "import"))

    assert invoke("jobs", "fetch", JOB) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith(f"5 events of job {JOB}: 0 new and stored, 4 stored before\n")
    assert captured.err == ""
    assert backfill("--yes") == 0
    assert capsys.readouterr().out.startswith("0 events to import")
    assert [one.delivery for one in stored()] == found


@pytest.mark.parametrize("to", [(), ("--to", "found")])
def test_a_job_is_fetched_without_a_store(
    to: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command makes the store, and needs the family of the job."""
    monkeypatch.setenv("RECEIVER_STORE", "sqlite:///other.db")

    assert invoke("jobs", "fetch", JOB, *to) == 1
    assert "add --family or --monitor" in capsys.readouterr().err
    assert not Path("other.db").exists()
    assert invoke("jobs", "fetch", JOB, "--family", "crawl", *to) == 0
    assert ("4 new and stored" if not to else "wrote 2 documents") in capsys.readouterr().out
    assert Path("other.db").exists() == (not to)


def test_a_job_that_cannot_be_fetched_leaves_no_folder(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder that was there stays. Only the error is said."""
    service.answers = {}
    Path("there").mkdir()

    for folder in ("made/below", "there"):
        assert invoke("jobs", "fetch", JOB, "--family", "crawl", "--to", folder) == 1
        assert "stopped" not in capsys.readouterr().err

    assert not Path("made").exists()
    assert Path("there").exists()


def test_a_job_that_cannot_be_fetched_leaves_the_store_as_it_was(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message has the reason, and the exit code is 1."""
    service.answers[PATH]["status"] = "scraping"
    assert invoke("jobs", "fetch", JOB) == 1
    assert f"job {JOB}: it is not over yet" in capsys.readouterr().err

    service.answers = {}
    assert invoke("jobs", "fetch", JOB) == 1
    assert "expired" in capsys.readouterr().err
    assert len(stored()) == 1


def test_documents_become_files(bare_environment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each document of the job becomes a file as the service has it. The same folder is refused the next time."""
    assert invoke("jobs", "fetch", JOB[:20], "--to", "found") == 0

    files = sorted(Path("found").iterdir())
    assert [one.name for one in files] == ["000001.json", "000002.json"]
    assert [json.loads(one.read_bytes()) for one in files] == [document(1), document(2)]
    assert capsys.readouterr().out.splitlines() == [
        "wrote 2 documents to found",
        "1 page failed, and has no document",
    ]
    assert invoke("jobs", "fetch", JOB, "--to", "found") == 2
    assert "found is not empty" in capsys.readouterr().err


def test_a_job_that_is_gone_gives_no_files(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    """The message has the reason, and the exit code is 1."""
    service.answers = {}

    assert invoke("jobs", "fetch", JOB, "--to", "found") == 1
    assert "expired" in capsys.readouterr().err
