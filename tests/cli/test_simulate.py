"""`receiver simulate` and its questions, run as a user runs them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from receiver.cli.main import receiver, run
from tests.doubles import LONG

EXAMPLES = Path(__file__).parents[2] / "examples"
SCENARIO = """
seed = 7
[arrivals]
rate = 1
duration = "10m"
[endpoint]
latency = { p50 = "200ms", p99 = "12s" }
error_rate = 0.02
capacity = 50
[[outage]]
from = "1m"
to = "9m"
kind = "hang"
"""

pytestmark = pytest.mark.usefixtures("bare_environment")


@pytest.fixture
def scenario(bare_environment: Path) -> str:
    path = bare_environment / "scenario.toml"
    path.write_text(SCENARIO)
    return path.name


def invoke(*args: str) -> int:
    return run(receiver.main, ["simulate", *args])


def objects(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_an_outage_is_summarised_in_a_sentence_with_bars(capsys: pytest.CaptureFixture[str]) -> None:
    """The default is one delivery a second for an hour."""
    assert invoke("--outage", "10m..32m") == 0

    shown = capsys.readouterr().out
    assert "60 of 3,600 deliveries fail for good (1.67 %)." in shown
    assert "failed        60  █" in shown
    assert "1/s for 1h, evenly spaced" in shown
    assert any("█" in line and line.rstrip().endswith("outage") for line in shown.splitlines())


def test_a_simulation_without_losses_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """Late deliveries differ from lost ones."""
    assert invoke("--at", "0s", "--at", "5m") == 0
    assert invoke("--at", "0s", "--latency", "1m") == 0

    shown = capsys.readouterr().out
    assert "Nothing is lost: all 2 deliveries get through." in shown
    assert "1 of 1 deliveries fail for good (100 %); 1 of them arrived all the same, too late." in shown


def test_json_is_one_object_with_every_figure(capsys: pytest.CaptureFixture[str]) -> None:
    """It has at least the documented figures."""
    assert invoke("--json", "--outage", "10m..32m") == 0

    (figures,) = objects(capsys)
    assert figures["deliveries"] == 3600
    assert (figures["delivered"], figures["failed"], figures["lost"]) == (3540, 60, 60)
    assert figures["by_attempt"] == [2280, 60, 300, 900]
    assert (figures["late"], figures["duplicates"]) == (0, 0)
    assert figures["time_to_delivery_s"] == {"p50": 0.2, "p99": 1260.2, "max": 1260.2}
    assert figures["peak_rate_per_s"] == 4
    assert figures["out_of_order"] == 1257


def test_the_trace_has_every_attempt(capsys: pytest.CaptureFixture[str]) -> None:
    """The attempts match the closed form with time-outs, and standard output has nothing else."""
    assert invoke("--at", "0s", "--outage", "0s..1h:hang", "--trace") == 0

    assert objects(capsys) == [
        {
            "delivery": 1,
            "attempt": number,
            "started_s": start,
            "ended_s": start + 10,
            "outcome": "timeout",
            "state": to,
        }
        for number, start, to in (
            (1, 0, "retry 1"),
            (2, 70, "retry 2"),
            (3, 380, "retry 3"),
            (4, 1290, "failed"),
        )
    ]


def test_a_trace_in_a_file_leaves_standard_output_to_the_figures(
    capsys: pytest.CaptureFixture[str], scenario: str
) -> None:
    """The file has one line per attempt."""
    assert invoke(scenario, "--json", "--trace", "attempts.jsonl") == 0

    (figures,) = objects(capsys)
    assert len(Path("attempts.jsonl").read_bytes().splitlines()) == figures["attempts"]


def test_the_same_scenario_gives_the_same_bytes_in_another_process(scenario: str) -> None:
    """This holds for figures and trace with random latency and errors, though hashes of texts differ."""
    program = [sys.executable, "-m", "receiver", "simulate", scenario, "--json", "--trace"]
    results = []
    for number in (1, 2):
        name = f"{number}.jsonl"
        done = subprocess.run(
            [*program, name], capture_output=True, timeout=LONG, check=True, env={"PYTHONHASHSEED": str(number)}
        )
        results.append((done.stdout, Path(name).read_bytes()))

    assert results[0] == results[1]
    assert json.loads(results[0][0])["late"] > 0


def test_flags_replace_the_settings_of_the_file(capsys: pytest.CaptureFixture[str], scenario: str) -> None:
    """Each key is replaced alone; outages are replaced together."""
    flags = ("--latency", "100ms", "--error-rate", "0", "--outage", "0s..30s", "--outage", "60s..70s:status=500")
    assert invoke(scenario, "--json", "--rate", "60/min", "--duration", "5m", *flags) == 0

    (figures,) = objects(capsys)
    assert figures["deliveries"] == 300
    assert figures["outcomes"] == {"ok": 300, "refused": 30, "status": 20, "timeout": 0, "late": 0}


def test_every_setting_is_a_flag(capsys: pytest.CaptureFixture[str]) -> None:
    """The summary shows all values."""
    flags = [
        "--seed",
        "3",
        "--at",
        "5s",
        "--rate",
        "10/h",
        "--duration",
        "2h",
        "--poisson",
        "--job",
        "crawl:2@1m:2/s",
    ]
    flags += ["--latency", "1s..5s", "--error-rate", "0.1", "--capacity", "7", "--outage", "1.5m..3m:hang"]
    assert invoke(*flags, "--timeout", "5s", "--pauses", "1s,2s,3s") == 0

    shown = " ".join(capsys.readouterr().out.split())
    assert "1 at exact moments; 0.00277778/s for 2h, at random spaced; crawl with 2 pages at 1m, 2/s" in shown
    assert "answers in 1s (median), 5s (p99), 500 for 10 %, 7 at once" in shown
    assert "1m30s..3m (hang)" in shown
    assert "waits 5s, again after 1s, 2s, 3s seed 3" in shown


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--outage", "10m"], "10m is not an outage; write 10m..32m"),
        (
            ["--outage", "10m..32m:off"],
            "--outage: outage[0].kind is \"off\": it has to be 'refuse', 'hang' or 'status'",
        ),
        (["--outage", "10m..5m"], "10m..5m ends before it begins; write 5m..10m"),
        (["--outage", "5m..5m"], '--outage: outage[0].to is "5m": an outage ends after it begins'),
        (["--speed", "abc"], "'abc' is not a valid number."),
        (["--outage", "1m..5m:status=x"], "is not an outage"),
        (["--rate", "5/y"], "5/y is not a rate; write 5/s, 300/min or 10/h"),
        (["--rate", "0"], "--rate: arrivals.rate is 0.0: it has to be 0.001 or more"),
        (["--job", "crawl"], "crawl is not a job; write crawl:200"),
        (["--job", "crowl:3"], '--job: arrivals.jobs[0].family is "crowl"'),
        (["--at", "90"], '--at: arrivals.at[0] is "90": a duration is a number with its unit'),
        (["--at", "0s", "--duration", "1h"], '--duration: arrivals.duration is "1h": it goes with a rate'),
        (["--capacity", "0"], "--capacity: endpoint.capacity is 0"),
        (["--pauses", "1m"], "--pauses: sender.pauses has too few values"),
        (["--json", "--trace"], "give --trace a FILE"),
        (["--trace", "scenario.toml"], "scenario.toml is a scenario and would be overwritten: put it first"),
        (["--html", "no/such/folder.html"], "cannot write no/such/folder.html: No such file or directory"),
        (["nothing.toml"], "nothing.toml"),
        (["survive", "--capacity", "3"], "No such option"),
        (["survivee"], "'survivee' is neither a file nor a subcommand; did you mean survive?"),
        (["capcity", "--rate", "5/s"], "did you mean capacity?"),
        (["storm.toml"], "'storm.toml': No such file or directory"),
        (["maintenance"], "--length"),
        (["maintenance", "--length", "0s"], "it must be longer than 0"),
        (["capacity", "--at", "0s"], "deliveries at more than one moment"),
    ],
)
def test_wrong_use_is_reported_with_an_example(
    args: list[str], words: str, capsys: pytest.CaptureFixture[str], scenario: str
) -> None:
    """The exit code is 2, standard output is empty, and the scenario does not change."""
    assert invoke(*args) == 2

    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in " ".join(captured.err.split())
    assert Path(scenario).read_text() == SCENARIO


def test_a_wrong_file_is_named_with_the_key(capsys: pytest.CaptureFixture[str]) -> None:
    """Each mistake is one line."""
    Path("bad.toml").write_text("sead = 1\narrivals.rate = 0\n")

    assert invoke("bad.toml") == 2

    first, second = capsys.readouterr().err.splitlines()
    assert "bad.toml: arrivals.rate is 0: it has to be 0.001 or more" in first
    assert 'bad.toml: there is no key "sead"' in second


def test_page_and_picture_are_written(capsys: pytest.CaptureFixture[str]) -> None:
    """The summary is printed too."""
    assert invoke("--outage", "10m..32m", "--html", "page.html", "--svg", "picture.svg") == 0

    assert Path("page.html").read_text().startswith("<!doctype html>")
    assert Path("picture.svg").read_text().startswith("<svg ")
    assert "deliveries fail" in capsys.readouterr().out


def test_survive_prints_simulation_and_theory(capsys: pytest.CaptureFixture[str]) -> None:
    """Each line has both, and a sentence has the rule."""
    assert invoke("survive", "--rate", "1/min") == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == [
        "refuses",
        "connections",
        "45s",
        "before",
        "the",
        "next",
        "delivery",
        "21m45s",
        "21m45s",
    ]
    assert lines[-2].startswith("An endpoint that refuses connections for at most 21m loses nothing")
    assert lines[-1].startswith("An endpoint that hangs for at most 21m30s loses nothing")


def test_survive_has_json(capsys: pytest.CaptureFixture[str]) -> None:
    """Each line of the table is one object."""
    assert invoke("survive", "--at", "1m", "--json") == 0

    answers = objects(capsys)
    assert {
        "kind": "hang",
        "next_delivery_in_s": 0.0,
        "failed_before": 0,
        "simulated_s": 1290.0,
        "theory_s": 1290.0,
    } in answers
    assert all(one["simulated_s"] == one["theory_s"] for one in answers)


def test_maintenance_gives_its_advice_in_one_sentence(capsys: pytest.CaptureFixture[str], scenario: str) -> None:
    """The traffic comes from a scenario or from flags."""
    assert invoke("maintenance", "--length", "22m", "--from", "10m", "--duration", "50m") == 0
    assert invoke("maintenance", "--length", "3m", "--traffic", scenario, "--error-rate", "0") == 0

    split, whole = capsys.readouterr().out.splitlines()
    assert split == (
        "22m in one part loses 60 of 3,000 deliveries; in 2 parts of 1m, 21m with 1m up between them it loses "
        "nothing, and is over after 23m."
    )
    assert whole == "3m in one part loses 0 of 600 deliveries: there is no need to split it."


def test_maintenance_that_always_loses_is_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 1, and the JSON has no split."""
    rate = ("--rate", "0.1", "--duration", "20m", "--pauses", "1s,1s,1s")
    assert invoke("maintenance", "--length", "3m", *rate) == 1
    assert invoke("maintenance", "--length", "3m", *rate, "--json") == 1

    sentence, fields = capsys.readouterr().out.splitlines()
    assert sentence.startswith("3m in one part loses 18 of 120 deliveries; each of ")
    assert json.loads(fields)["best"] is None


def test_capacity_is_found_by_halving(capsys: pytest.CaptureFixture[str]) -> None:
    """Each trial is a line, and the answer has the theory."""
    flags = ("--latency", "2s", "--outage", "1m..20m")
    assert invoke("capacity", *flags) == 0
    assert invoke("capacity", *flags, "--json") == 0

    lines = capsys.readouterr().out.splitlines()
    tried = [json.loads(line) for line in lines if line.startswith("{")]
    smallest = min(one["capacity"] for one in tried if one["drains"])
    assert f"Below {smallest} at once it never drains. The traffic alone keeps 2 busy, and 8 if" in " ".join(lines)
    assert len(tried) == sum("at once:" in line for line in lines)


@pytest.mark.parametrize("question", ["survive", "maintenance", "capacity"])
def test_subcommands_are_listed_and_have_help(question: str, capsys: pytest.CaptureFixture[str]) -> None:
    """They come after the options, and their usage can be typed."""
    assert run(receiver.main, ["simulate", "--help"], prog_name="receiver") == 0
    assert run(receiver.main, ["simulate", question, "--help"], prog_name="receiver") == 0

    listed, own = capsys.readouterr().out.split("Subcommands:")[1].split("Usage: ")
    assert f"  {question} " in listed
    assert own.startswith(f"receiver simulate {question} [OPTIONS]\n")


def test_a_closed_pipe_ends_the_trace_with_success() -> None:
    """Every other command does the same."""
    program = f"{sys.executable} -m receiver simulate --trace | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["/bin/bash", "-c", program], capture_output=True, text=True, timeout=LONG, check=True)

    assert done.stdout.splitlines()[1:] == ["0"]
    assert done.stderr == ""


def test_the_picture_among_the_examples_is_what_the_command_makes() -> None:
    """The README shows this picture."""
    assert invoke("--outage", "10m..35m", "--svg", "outage.svg") == 0

    assert Path("outage.svg").read_bytes() == (EXAMPLES / "outage.svg").read_bytes()
