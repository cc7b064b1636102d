"""`receiver start`, `scrape` and `monitors`, run as a user runs them, with a service on a socket."""

import json
from typing import Any

import pytest

from receiver.cli.common import service
from receiver.cli.main import receiver, run
from tests.cli.kept import on_a_terminal
from tests.service.client.calling import KEY
from tests.service.client.stub import Stub

pytestmark = pytest.mark.usefixtures("stub")
JOB = "019f2c10-0001-7a00-8b00-000000001eef"
MONITOR = {"id": "mon-1", "name": "Prices", "status": "active", "schedule": {"cron": "0 * * * *"}, "newKey": [1]}


def invoke(*args: str) -> int:
    return run(receiver.main, list(args))


def test_a_crawl_is_started_with_this_receiver_as_its_webhook(
    stub: Stub, answers: dict[str, tuple[int, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Standard output has only the id, for scripts; the next command is on standard error."""
    answers["POST /v2/crawl"] = (200, {"success": True, "id": JOB, "url": "https://api/…"})

    code = invoke(
        *("start", "crawl", "https://example.com", "--limit", "50"),
        *("--event", "page", "--event", "crawl.completed", "--metadata", "customer=a=b"),
    )

    assert code == 0
    captured = capsys.readouterr()
    assert captured.out == f"{JOB}\n"
    assert captured.err == f"next: receiver jobs show {JOB}, once its first event has arrived\n"
    assert stub.connections[0].body == {
        "url": "https://example.com",
        "limit": 50,
        "webhook": {
            "url": "https://hooks.example.com/webhooks",
            "metadata": {"customer": "a=b"},
            "events": ["page", "completed"],
        },
    }


@pytest.mark.parametrize("webhook", ["null", '{"url": "https://other.example/in"}'])
def test_the_next_command_for_a_job_without_events_here_asks_the_service(
    stub: Stub, answers: dict[str, tuple[int, Any]], capsys: pytest.CaptureFixture[str], webhook: str
) -> None:
    """`jobs show` would never know the job."""
    answers["POST /v2/batch/scrape"] = (200, {"id": JOB, "url": "u"})

    assert invoke("start", "batch_scrape", "https://example.com/1", "--set", f"webhook={webhook}") == 0

    assert capsys.readouterr().err == f"next: receiver jobs fetch {JOB} --family batch_scrape, once it is over\n"


def test_a_batch_says_which_urls_were_left_out(
    stub: Stub, answers: dict[str, tuple[int, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    """This holds for JSON too."""
    answers["POST /v2/batch/scrape"] = (200, {"id": JOB, "url": "u", "invalidURLs": ["http://b\x1b[2J"]})

    assert invoke("start", "batch_scrape", "https://example.com/1", "http://b", "--json") == 0

    captured = capsys.readouterr()
    assert json.loads(captured.out) == {"job_id": JOB, "url": "u", "invalid_urls": ["http://b\x1b[2J"]}
    assert "left out, not a valid URL: http://b\\x1b[2J\n" in captured.err
    assert stub.connections[0].body == {
        "urls": ["https://example.com/1", "http://b"],
        "webhook": {"url": "https://hooks.example.com/webhooks"},
    }


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("crawl", "example.com"), "url: write a whole address, with https://"),
        (("crawl", "https://example.com", "--limit", "0"), "limit: "),
        (("crawl", "https://example.com", "--event", "action"), "crawl has no event 'action'"),
        (("crawl", "https://example.com", "--metadata", "customer"), "is not NAME=VALUE"),
        (("crawl", "https://example.com", "--set", "delay=61"), "delay: it has to be 60 or less"),
        (
            ("crawl", "https://example.com", "--set", "scrapeOptions.formats=markdown"),
            "scrapeOptions.formats: write a list",
        ),
        (("crawl",), "Missing argument 'URL'"),
        (("batch_scrape",), "Missing argument 'URL...'"),
        (("extract",), "give urls, prompt, or both"),
        (("agent",), "Missing argument 'PROMPT'"),
        (("agent", "find", "--max-credits", "0"), "maxCredits: "),
        (("agent", "find", "--event", "page"), "agent has no event 'page'"),
    ],
)
def test_an_invalid_request_is_not_sent(
    stub: Stub, capsys: pytest.CaptureFixture[str], args: tuple[str, ...], words: str
) -> None:
    """It is wrong use with exit code 2."""
    assert invoke("start", *args) == 2
    assert words in capsys.readouterr().err
    assert stub.connections == []


@pytest.mark.parametrize(
    ("setting", "args"),
    [
        ("API_KEY", ("start", "crawl", "https://example.com")),
        ("API_KEY", ("scrape", "https://example.com")),
        ("API_KEY", ("monitors", "list")),
        ("API_KEY", ("monitors", "show", "mon-1")),
        ("API_KEY", ("monitors", "run", "mon-1")),
        ("API_KEY", ("monitors", "pause", "mon-1")),
        ("API_KEY", ("monitors", "delete", "mon-1", "--yes")),
        ("API_KEY", ("monitors", "create", "Prices", "https://example.com", "--every", "hourly")),
        ("API_KEY", ("jobs", "cancel", "019f2c10", "--family", "crawl")),
    ],
)
def test_a_missing_setting_is_named(
    stub: Stub,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    setting: str,
    args: tuple[str, ...],
) -> None:
    """The exit code is 2, and nothing is sent. A service on this machine needs no public URL."""
    monkeypatch.delenv(f"RECEIVER_{setting}")
    monkeypatch.setenv("RECEIVER_BASE_URL", "https://api.firecrawl.dev")

    assert invoke(*args) == 2
    assert f"no RECEIVER_{setting} is set" in capsys.readouterr().err
    assert stub.connections == []


@pytest.mark.parametrize(
    "args",
    [
        ("start", "crawl", "https://example.com"),
        ("start", "batch_scrape", "https://example.com"),
        ("monitors", "create", "Prices", "https://example.com", "--every", "hourly"),
    ],
)
def test_a_service_elsewhere_needs_a_public_url(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], args: tuple[str, ...]
) -> None:
    """Nothing is sent there. One on this machine, such as the emulator, reaches the receiver without it."""
    monkeypatch.setenv("RECEIVER_API_KEY", KEY)
    monkeypatch.setenv("RECEIVER_BASE_URL", "https://api.example.com")
    monkeypatch.delenv("RECEIVER_PUBLIC_URL", raising=False)

    assert invoke(*args) == 2
    assert "no RECEIVER_PUBLIC_URL is set" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (401, {"error": f"Unauthorized: {KEY}"}, "check RECEIVER_API_KEY"),
        (402, {"error": "Payment required"}, "not enough credits"),
        (403, {"error": "This site is not supported"}, "the service refuses this site"),
        (429, {"error": "Rate limit exceeded, retry after 90s"}, "try again after 90 s"),
        (500, {"error": "oh\x1b[2J", "code": "UNKNOWN_ERROR"}, "the service has a fault: try again later"),
        (500, {"error": "no host", "code": "SCRAPE_SITE_ERROR"}, "the service could not scrape this page"),
    ],
)
def test_a_refusal_of_the_service_has_advice(
    answers: dict[str, tuple[int, Any]], capsys: pytest.CaptureFixture[str], status: int, body: Any, words: str
) -> None:
    """The message is one safe line without the key, and the exit code is 1."""
    answers["POST /v1/scrape"] = (status, body)

    assert invoke("scrape", "https://example.com") == 1

    (line,) = capsys.readouterr().err.splitlines()
    assert words in line
    assert KEY not in line
    assert "\x1b" not in line


@pytest.mark.parametrize(
    ("status", "body", "may_run"),
    [(500, {"error": "oh"}, True), (200, {"success": True}, True), (402, {"error": "no"}, False), (307, {}, False)],
)
@pytest.mark.parametrize(
    ("kind", "path"), [("crawl", "crawl"), ("batch_scrape", "batch/scrape"), ("agent", "agent")]
)
def test_a_start_with_an_unknown_result_is_reported(
    stub: Stub,
    answers: dict[str, tuple[int, Any]],
    capsys: pytest.CaptureFixture[str],
    kind: str,
    path: str,
    status: int,
    body: Any,
    may_run: bool,
) -> None:
    """A second start would cost again, so the command does not try it."""
    answers[f"POST /v2/{path}"] = (status, body)

    assert invoke("start", kind, "https://example.com") == 1

    assert ("the service may have started the job" in capsys.readouterr().err) is may_run
    assert len(stub.connections) == 1


def test_an_answer_of_another_server_has_advice_about_the_address(
    answers: dict[str, tuple[int, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Such an answer is a redirect, or the page of another server."""
    answers["POST /v1/scrape"] = (301, {})

    assert invoke("scrape", "https://example.com") == 1
    assert "a redirect, which is not followed: is RECEIVER_BASE_URL the address" in capsys.readouterr().err


def test_an_unreachable_service_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message says what to check. An invalid address is wrong use."""
    monkeypatch.setenv("RECEIVER_BASE_URL", "ftp://127.0.0.1")

    assert invoke("scrape", "https://example.com") == 2
    assert "RECEIVER_BASE_URL: the address must begin with https://" in capsys.readouterr().err


def test_a_page_is_written_as_markdown(
    stub: Stub, answers: dict[str, tuple[int, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Control characters are escaped, and lines stay. A remark says that the page answered 404."""
    found = {"markdown": "# A\n\tb\x1b[2J", "metadata": {"statusCode": 404}}
    answers["POST /v1/scrape"] = (200, {"success": True, "data": found})

    assert invoke("scrape", "https://example.com") == 0

    captured = capsys.readouterr()
    assert captured.out == "# A\n\tb\\x1b[2J\n"
    assert captured.err == "the page answered 404\n"
    assert stub.connections[0].body == {"url": "https://example.com"}


def test_every_requested_format_is_written(
    stub: Stub, answers: dict[str, tuple[int, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Values that are not text become JSON. The exit code is 1 if a format is missing. --json has all fields."""
    found = {"html": "<p>", "links": ["https://a"], "someNewKey": {"a": 1}, "warning": "slow"}
    answers["POST /v1/scrape"] = (200, {"success": True, "data": found})
    formats = ("--format", "html", "--format", "links", "--format", "rawHtml")

    assert invoke("scrape", "https://example.com", *formats) == 1
    captured = capsys.readouterr()
    assert captured.out == '<p>\n["https://a"]\n'
    assert captured.err == "slow\nthe document has no rawHtml\n"
    assert stub.connections[0].body["formats"] == ["html", "links", "rawHtml"]

    assert invoke("scrape", "https://example.com", "--format", "html", "--json") == 0
    assert json.loads(capsys.readouterr().out) == found

    assert invoke("scrape", "https://example.com", "--format", "htm") == 2
    assert "formats" in capsys.readouterr().err


def test_monitors_are_listed(
    stub: Stub, answers: dict[str, tuple[int, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Aligned lines, one JSON object per line, or a table on a terminal."""
    answers["GET /v2/monitor"] = (200, {"success": True, "data": [MONITOR]})

    assert invoke("monitors", "list") == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["mon-1", "active", "-", "-", "Prices"]
    assert invoke("monitors", "list", "--json", "--limit", "7") == 0
    assert json.loads(capsys.readouterr().out) == {
        "id": "mon-1",
        "name": "Prices",
        "status": "active",
        "schedule": "0 * * * *",
        "last_run_at": None,
        "next_run_at": None,
        "current_check": None,
    }
    assert [one.path for one in stub.connections] == [
        "/v2/monitor?limit=100&offset=0",
        "/v2/monitor?limit=7&offset=0",
    ]
    code, seen = on_a_terminal("monitors", "list")
    assert code == 0
    assert "Prices" in seen


def test_a_service_that_ignores_the_offset_ends_the_list(
    stub: Stub, answers: dict[str, tuple[int, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    """It would give the same monitors for ever."""
    answers["GET /v2/monitor"] = (200, {"success": True, "data": [MONITOR] * 100})

    assert invoke("monitors", "list", "--json") == 1
    assert "the service gives the same monitors for every offset" in capsys.readouterr().err
    assert len(stub.connections) == 2


def test_all_monitors_are_read(
    stub: Stub,
    answers: dict[str, tuple[int, Any]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The command reads page by page. On a terminal it stops and says so."""
    answers["GET /v2/monitor"] = (200, {"success": True, "data": [MONITOR] * 51})

    assert invoke("monitors", "list") == 0
    assert capsys.readouterr().out.count("mon-1") == 51

    with monkeypatch.context() as terminal:
        terminal.setattr("sys.stdout.isatty", lambda: True)
        assert invoke("monitors", "list", "--wide") == 0
    captured = capsys.readouterr()
    assert captured.out.count("mon-1") == 50
    assert captured.err == "only the newest 50 are shown; --limit N shows N, and a pipe gets all\n"

    answers["GET /v2/monitor"] = (200, {"success": True, "data": []})
    assert invoke("monitors", "list") == 0
    assert capsys.readouterr().err == "the account has no monitor\n"


def test_a_monitor_is_shown_with_all_its_fields(
    answers: dict[str, tuple[int, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    """This includes fields that our models do not know."""
    answers["GET /v2/monitor/mon-1"] = (200, {"success": True, "data": MONITOR})

    assert invoke("monitors", "show", "mon-1") == 0
    out = capsys.readouterr().out.splitlines()
    assert 'schedule  {"cron": "0 * * * *"}' in out
    assert "newKey    [1]" in out
    assert invoke("monitors", "show", "mon-1", "--json") == 0
    assert json.loads(capsys.readouterr().out) == MONITOR


def test_a_monitor_is_run(answers: dict[str, tuple[int, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    """The output is the id of the check. A paused monitor is reported."""
    check = {"id": JOB, "status": "queued", "summary": None}
    answers["POST /v2/monitor/mon-1/run"] = (200, {"success": True, "id": JOB, "data": check})

    assert invoke("monitors", "run", "mon-1") == 0
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == (
        f"{JOB}\n",
        f"next: receiver jobs show {JOB}, once its first event has arrived\n",
    )
    assert invoke("monitors", "run", "mon-1", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"job_id": JOB, "monitor_id": "mon-1", "status": "queued"}

    answers["POST /v2/monitor/mon-1/run"] = (409, {"success": False, "error": "Monitor is paused"})
    assert invoke("monitors", "run", "mon-1") == 1
    assert "Monitor is paused: one that is paused has to be resumed" in capsys.readouterr().err


def test_a_page_is_scraped_by_version_2(
    stub: Stub, answers: dict[str, tuple[int, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Its formats may have options. A format that fills another key of the document is found there."""
    answers["POST /v2/scrape"] = (200, {"success": True, "data": {"answer": "yes", "json": {"a": 1}}})
    formats = [{"type": "question", "question": "Is it?"}, {"type": "json", "prompt": "p"}]
    given = ("--set", f"formats={json.dumps(formats)}", "--set", "maxAge=0")

    assert invoke("scrape", "https://example.com", "--v2", *given) == 0

    assert capsys.readouterr().out == 'yes\n{"a":1}\n'
    assert stub.connections[0].body == {"url": "https://example.com", "formats": formats, "maxAge": 0}


def test_every_field_of_a_scrape_can_be_set(stub: Stub, answers: dict[str, tuple[int, Any]]) -> None:
    """A field of the other version is refused."""
    answers["POST /v1/scrape"] = (200, {"success": True, "data": {"json": 1}})
    given = ("--format", "json", "--set", "jsonOptions.prompt=prices", "--set", "maxAge=0")

    assert invoke("scrape", "https://example.com", *given) == 0
    assert stub.connections[0].body == {
        "url": "https://example.com",
        "formats": ["json"],
        "jsonOptions": {"prompt": "prices"},
        "maxAge": 0,
    }
    assert invoke("scrape", "https://example.com", "--v2", *given) == 2
    assert invoke("scrape") == 2


def test_a_person_at_a_terminal_is_told_that_the_command_waits(
    stub: Stub,
    answers: dict[str, tuple[int, Any]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A client repeats a call for up to a minute. A log or a pipe gets no remark."""
    answers["GET /v2/monitor"] = (200, {"success": True, "data": []})
    monkeypatch.setattr(service, "QUIET_SECONDS", 0)
    assert invoke("monitors", "list") == 0
    assert "waiting" not in capsys.readouterr().err

    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert invoke("monitors", "list") == 0
    assert "waiting for 127.0.0.1; Ctrl-C stops\n" in capsys.readouterr().err
