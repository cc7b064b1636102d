"""`receiver start` for every family, and what `--set`, `--json-body` and `--estimate` say about a request."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from receiver.cli.main import receiver, run
from tests.cases import for_each
from tests.service.client.stub import Stub

pytestmark = pytest.mark.usefixtures("stub")
JOB = "019f2c10-0001-7a00-8b00-000000001eef"
PAGE = "https://example.com"
HOOK = {"url": "https://hooks.example.com/webhooks"}
Answers = dict[str, tuple[int, Any]]


def invoke(*args: str) -> int:
    return run(receiver.main, list(args))


@pytest.fixture(autouse=True)
def started(answers: Answers) -> None:
    """The service starts every job."""
    for path in ("crawl", "batch/scrape", "extract", "agent"):
        answers[f"POST /v2/{path}"] = (200, {"success": True, "id": JOB, "urlTrace": []})


@for_each(
    ("args", "path", "body"),
    [
        (("batch_scrape", PAGE, PAGE), "/v2/batch/scrape", {"urls": [PAGE, PAGE], "webhook": HOOK}),
        (("batch_scrape", PAGE), "/v2/batch/scrape", {"urls": [PAGE], "webhook": HOOK}),
        (
            ("extract", PAGE, "--prompt", "prices"),
            "/v2/extract",
            {"urls": [PAGE], "prompt": "prices", "webhook": HOOK},
        ),
        (("extract", "--prompt", "prices"), "/v2/extract", {"prompt": "prices", "webhook": HOOK}),
        (
            ("agent", "find prices", PAGE, "--max-credits", "50", "--event", "agent.action"),
            "/v2/agent",
            {"prompt": "find prices", "urls": [PAGE], "maxCredits": 50, "webhook": {**HOOK, "events": ["action"]}},
        ),
    ],
)
def test_every_family_is_started(
    stub: Stub, capsys: pytest.CaptureFixture[str], args: tuple[str, ...], path: str, body: dict[str, Any]
) -> None:
    """The output is the job's id. `batch` is another name of `batch_scrape`."""
    assert invoke("start", *args) == 0

    assert capsys.readouterr().out == f"{JOB}\n"
    assert stub.connections[-1].path == path
    assert stub.connections[-1].body == body


@for_each(
    ("args", "fields"),
    [
        (("--set", "maxDiscoveryDepth=0"), {"maxDiscoveryDepth": 0}),
        (("--set", "max_discovery_depth=0"), {"maxDiscoveryDepth": 0}),
        (("--set", "allowSubdomains=true", "--set", "delay=0.5"), {"allowSubdomains": True, "delay": 0.5}),
        (("--set", "prompt=only the blog = news"), {"prompt": "only the blog = news"}),
        (("--set", 'prompt="7"'), {"prompt": "7"}),
        (("--set", 'includePaths=["blog/.*"]'), {"includePaths": ["blog/.*"]}),
        (
            ("--set", "scrapeOptions.maxAge=0", "--set", "scrapeOptions.location.country=DE"),
            {"scrapeOptions": {"maxAge": 0, "location": {"country": "DE"}}},
        ),
        (("--limit", "5", "--set", "limit=7"), {"limit": 5}),
        (("--set", "limit=null"), {}),
    ],
)
def test_any_field_can_be_set(stub: Stub, args: tuple[str, ...], fields: dict[str, Any]) -> None:
    """A value is JSON, or else a text. An option of its own goes first, and null is like leaving it out."""
    assert invoke("start", "crawl", PAGE, *args) == 0

    assert stub.connections[-1].body == {"url": PAGE, **fields, "webhook": HOOK}


def test_fields_come_from_a_file(stub: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands on the command line replaces them. The file can be standard input."""
    file = tmp_path / "body.json"
    file.write_text(json.dumps({"url": PAGE, "limit": 5, "scrapeOptions": {"formats": ["links"], "maxAge": 0}}))

    assert (
        invoke("start", "crawl", "--json-body", str(file), "--set", "scrapeOptions.mobile=true", "--limit", "6")
        == 0
    )
    assert stub.connections[-1].body == {
        "url": PAGE,
        "limit": 6,
        "scrapeOptions": {"formats": ["links"], "maxAge": 0, "mobile": True},
        "webhook": HOOK,
    }

    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"prompt": "find"}')))
    assert invoke("start", "agent", "--json-body", "-") == 0
    assert stub.connections[-1].body == {"prompt": "find", "webhook": HOOK}


def test_the_events_can_go_elsewhere_or_nowhere(
    stub: Stub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Then this receiver needs no address. Its own options are refused."""
    monkeypatch.delenv("RECEIVER_PUBLIC_URL")

    assert invoke("start", "crawl", PAGE, "--set", "webhook=https://other.example.com/") == 0
    assert stub.connections[-1].body == {"url": PAGE, "webhook": {"url": "https://other.example.com/"}}
    assert invoke("start", "crawl", PAGE, "--set", "webhook=null") == 0
    assert stub.connections[-1].body == {"url": PAGE}
    assert invoke("start", "crawl", PAGE, "--set", "webhook=null", "--event", "page") == 2
    assert "the fields have a webhook" in capsys.readouterr().err
    assert len(stub.connections) == 2


@for_each(
    ("args", "words"),
    [
        (("--set", "maxage"), "'maxage' is not KEY=VALUE"),
        (("--set", "=5"), "'=5' is not KEY=VALUE"),
        (("--set", "a..b=5"), "'a..b=5' is not KEY=VALUE"),
        (("--set", "url=a", "--set", "url.b=5"), "url.b: url is no object"),
        (("--set", "maxDiscoveryDeph=5"), "maxDiscoveryDeph: there is no such field; is it maxDiscoveryDepth?"),
        (("--set", "scrapeOptions.formtas=1"), "scrapeOptions.formtas: there is no such field; is it formats?"),
        (("--set", "scrapeOptions.location.contry=DE"), "there is no such field; is it country?"),
        (("--set", 'scrapeOptions.formats=[{"type":"html","x":1}]'), "there is no such field\n"),
        (("--set", "zzz\x1b=5"), "zzz\\x1b: there is no such field\n"),
        (("--set", "make=5"), "make: there is no such field"),
        (("--set", "limit=many"), "limit: write a whole number"),
        (("--set", "limit=NaN"), "limit: write a whole number"),
        (("--set", "scrapeOptions=" + "[" * 100_000), "scrapeOptions: "),
        (("--json-body", "list.json"), "there is no JSON object in this file"),
        (("--json-body", "cut.json"), "there is no JSON object in this file"),
        (("--json-body", "binary.json"), "there is no JSON object in this file"),
        (("--json-body", "missing.json"), "No such file"),
    ],
)
def test_fields_that_cannot_be_are_refused(
    stub: Stub, capsys: pytest.CaptureFixture[str], args: tuple[str, ...], words: str
) -> None:
    """It is wrong use with exit code 2, and nothing is sent."""
    Path("list.json").write_text("[1]")
    Path("cut.json").write_text('{"limit": ')
    Path("binary.json").write_bytes(b"\xff\xfe")

    assert invoke("start", "crawl", PAGE, *args) == 2
    assert words in capsys.readouterr().err
    assert stub.connections == []


@for_each(
    ("args", "lines"),
    [
        (
            ("start", "crawl", PAGE, "--limit", "1000", "--set", "scrapeOptions.proxy=basic"),
            ["1 to 1,000 credits", "  1 credit per page"],
        ),
        (("scrape", PAGE), ["1 credit", "  1 credit per page"]),
        (("start", "extract", "--prompt", "p"), ["1 credit or more"]),
        (("start", "agent", "p", "--max-credits", "9"), ["1 to 9 credits"]),
        (
            (
                "monitors",
                "create",
                "m",
                "--every",
                "hourly",
                "--set",
                'targets=[{"type":"search","queries":["q"]}]',
                "--set",
                "judgeEnabled=false",
            ),
            ["0 to 2 credits"],
        ),
    ],
)
def test_an_estimate_sends_nothing(
    stub: Stub,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    args: tuple[str, ...],
    lines: list[str],
) -> None:
    """It needs neither a key nor an address, and has a reason on each further line."""
    monkeypatch.delenv("RECEIVER_API_KEY", raising=False)
    monkeypatch.delenv("RECEIVER_PUBLIC_URL", raising=False)

    assert invoke(*args, "--estimate") == 0
    assert capsys.readouterr().out.splitlines()[: len(lines)] == lines
    assert stub.connections == []


def test_an_estimate_for_scripts_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    """`high` is null where nothing bounds the cost. An invalid request has no estimate."""
    assert invoke("start", "extract", "--prompt", "p", "--estimate", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["low"], found["high"]) == (1, None)
    assert len(found["reasons"]) == 1
    assert invoke("start", "crawl", PAGE, "--limit", "0", "--estimate") == 2
