"""The shortened ids that `--job` takes, in every command that has it."""

import json
from pathlib import Path

import pytest

from receiver.cli.main import receiver, run
from tests.cli.kept import DEAD, delivery, fill
from tests.cli.replaying import Command, keep, write_handlers

pytestmark = pytest.mark.usefixtures("configured")

COMMANDS = (
    ("events", "list", "--json"),
    ("events", "export"),
    ("jobs", "list", "--json"),
    ("work-items", "list", "--json"),
    ("work-items", "retry", "--dry-run"),
    ("work-items", "bury", "--dry-run", "--reason", "old"),
    ("drift",),
    ("replay", "--dry-run"),
    ("backfill", "--dry-run"),
)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """A store with two jobs whose ids begin alike, and handlers for a replay."""
    monkeypatch.setenv("RECEIVER_API_KEY", "fc-none")
    fill(
        lambda store: store.item(DEAD, key="a", job_id="job-1a"),
        lambda store: store.item(DEAD, key="b", job_id="job-1b"),
    )
    write_handlers("@router.on('*')\ndef all(event): ...\n", monkeypatch)
    return Command(monkeypatch, capsys)


@pytest.mark.parametrize("words", COMMANDS)
def test_an_id_without_a_match_is_an_error(words: tuple[str, ...], command: Command) -> None:
    """The exit code is 1, and the message is one line."""
    assert command.exactly(*words, "--job", "other") == 1
    assert "receiver: no job matched 'other'" in command.err
    assert command.out == ""


@pytest.mark.parametrize("words", COMMANDS)
def test_an_ambiguous_id_is_an_error_that_names_the_jobs(words: tuple[str, ...], command: Command) -> None:
    """Nothing is chosen by guess."""
    assert command.exactly(*words, "--job", "job-1") == 1
    assert "several jobs have an id that begins with 'job-1': job-1a, job-1b" in command.err


@pytest.mark.parametrize("words", [words for words in COMMANDS if words[0] != "backfill"])
def test_a_beginning_that_one_job_has_is_enough(words: tuple[str, ...], command: Command) -> None:
    """The command does the same as with the whole id."""
    assert command.exactly(*words, "--job", "job-1b") == 0
    with_whole_id = command.out, command.err

    keep(delivery("c", job_id="other"))

    assert command.exactly(*words, "--job", "oth") == 0
    assert command.exactly(*words, "--job", "job-1b") == 0
    assert len(command.out) == len(with_whole_id[0])


def test_an_export_has_the_events_of_the_shortened_job(command: Command) -> None:
    """A wrong id leaves no empty bundle behind."""
    keep(delivery("c", job_id="other"))

    assert command.exactly("events", "export", "bundle", "--job", "ot") == 0
    assert command.exactly("events", "export", "none", "--job", "x") == 1

    lines = [json.loads(line) for line in Path("bundle").read_text().splitlines()]
    assert [line["job_id"] for line in lines[1:]] == ["other"]
    assert not Path("none").exists()


def test_a_bundle_has_its_own_jobs(command: Command) -> None:
    """A replay of a bundle looks up the id there."""
    assert command.exactly("events", "export", "bundle", "--job", "job-1a") == 0

    assert command.exactly("replay", "bundle", "--dry-run", "--job", "job") == 0

    assert command.out.startswith("1 event to replay here")


def test_the_same_id_works_for_jobs_show(capsys: pytest.CaptureFixture[str]) -> None:
    """There the id is an argument."""
    keep(delivery("a", job_id="job-1a"))

    assert run(receiver.main, ["jobs", "show", "job", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["job_id"] == "job-1a"
