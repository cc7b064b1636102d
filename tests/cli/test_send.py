"""`receiver send`, run as a user runs it, against a server that keeps what it gets."""

import hashlib
import hmac
import io
import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from receiver.cli.main import receiver, run
from receiver.cli.send import default_url
from receiver.errors import ConfigurationError
from receiver.service.samples import load_sample, sample_names
from receiver.settings import load_settings
from tests.cli.endpoint import Endpoint, served

SECRET = "a-secret-nobody-sees"


@pytest.fixture(autouse=True)
def unconfigured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("RECEIVER_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    with served() as server:
        monkeypatch.setenv("RECEIVER_SECRETS", SECRET)
        monkeypatch.setenv("RECEIVER_PORT", str(server.server_port))
        yield server


def invoke(*args: str) -> int:
    return run(receiver.main, ["send", *args])


def types(endpoint: Endpoint) -> list[str]:
    return [payload["type"] for payload in endpoint.payloads]


def test_a_sample_goes_signed_to_the_receiver_of_the_settings(
    endpoint: Endpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    """It sends one signed request, and prints a line with an arrow and a summary."""
    assert invoke("crawl.page") == 0

    ((path, headers, body),) = endpoint.requests
    digest = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    assert path == "/webhooks"
    assert headers["x-firecrawl-signature"] == f"sha256={digest}"
    delivery, summary = capsys.readouterr().out.splitlines()
    webhook_id = endpoint.payloads[0]["webhookId"]
    assert delivery.split()[:5] == ["→", "crawl.page", webhook_id[:8], "200", "accepted"]
    assert summary == f"1 delivery to {endpoint.url}: 1 accepted"


def test_another_address_can_be_given(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings then give only the secret."""
    monkeypatch.setenv("RECEIVER_PORT", "1")

    assert invoke("crawl.page", "--to", f"http://127.0.0.1:{endpoint.server_port}/other?x=1") == 0
    assert endpoint.requests[0][0] == "/other?x=1"


def test_nothing_is_signed_without_a_secret(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """A receiver on a developer's machine has none."""
    monkeypatch.delenv("RECEIVER_SECRETS")

    assert invoke("crawl.page") == 0
    assert "x-firecrawl-signature" not in endpoint.requests[0][1]


def test_the_static_header_goes_along_when_one_is_configured(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request has its first value and the signature."""
    monkeypatch.setenv("RECEIVER_TOKEN_HEADER", "X-Token")
    monkeypatch.setenv("RECEIVER_TOKENS", "token-1,token-2")

    assert invoke("crawl.page") == 0
    assert endpoint.requests[0][1]["x-token"] == "token-1"


@pytest.mark.parametrize("name", sample_names())
def test_every_sample_can_be_sent(endpoint: Endpoint, name: str) -> None:
    """Each is of the type that its recorded form has."""
    assert invoke(name) == 0
    assert types(endpoint) == [load_sample(name)["type"]]


def test_a_family_is_sent_as_the_story_of_a_job(endpoint: Endpoint, capsys: pytest.CaptureFixture[str]) -> None:
    """The order is started, the pages, completed, and all have one job id."""
    assert invoke("crawl", "--pages", "4") == 0

    assert types(endpoint) == ["crawl.started", *["crawl.page"] * 4, "crawl.completed"]
    assert len({payload["id"] for payload in endpoint.payloads}) == 1
    assert capsys.readouterr().out.splitlines()[-1] == f"6 deliveries to {endpoint.url}: 6 accepted"


def test_a_count_repeats_with_fresh_ids(endpoint: Endpoint) -> None:
    """This holds for single events and for whole jobs."""
    assert invoke("batch_scrape", "--pages", "1", "--count", "3") == 0

    assert Counter(types(endpoint)) == {
        "batch_scrape.started": 3,
        "batch_scrape.page": 3,
        "batch_scrape.completed": 3,
    }
    assert len({payload["webhookId"] for payload in endpoint.payloads}) == 9
    assert len({payload["id"] for payload in endpoint.payloads}) == 3


def test_several_deliveries_are_sent_at_one_time(endpoint: Endpoint) -> None:
    """Each arrives once."""
    assert invoke("crawl.page", "--count", "40", "--concurrency", "8") == 0

    assert len({payload["webhookId"] for payload in endpoint.payloads}) == 40


def test_a_rate_sends_everything_too(endpoint: Endpoint) -> None:
    """The tests of the sender check the rate."""
    assert invoke("crawl.page", "--count", "5", "--rate", "1000") == 0

    assert len(endpoint.requests) == 5


def test_a_seed_repeats_a_command_to_the_byte(endpoint: Endpoint) -> None:
    """Another command with the same seed makes other deliveries, without conflicts."""
    invoke("crawl", "--pages", "2", "--seed", "5")
    invoke("crawl", "--pages", "2", "--seed", "5")
    invoke("extract", "--seed", "5")
    invoke("crawl", "--pages", "3", "--seed", "5")

    bodies = [body for _, _, body in endpoint.requests]
    assert bodies[:4] == bodies[4:8]
    assert len({payload["webhookId"] for payload in endpoint.payloads}) == 4 + 2 + 5


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("404", 404),
        ("true", True),
        ("null", None),
        ('"404"', "404"),
        ('{"a":[1]}', {"a": [1]}),
        ("two words", "two words"),
        ("", ""),
        ("a=b", "a=b"),
        ("NaN", "NaN"),
        ("1e999", "1e999"),
    ],
)
def test_a_changed_value_is_json_or_text(endpoint: Endpoint, written: str, value: object) -> None:
    """A value that is not JSON is text."""
    assert invoke("crawl.page", "--set", f"data.0.metadata.statusCode={written}", "--set", "metadata.new=1") == 0

    payload = endpoint.payloads[0]
    assert payload["data"][0]["metadata"]["statusCode"] == value
    assert payload["metadata"]["new"] == 1


def test_a_wrong_path_sends_nothing(endpoint: Endpoint, capsys: pytest.CaptureFixture[str]) -> None:
    """It is wrong use, and the message names the part that does not exist."""
    assert invoke("crawl.page", "--set", "data.0.metdata.statusCode=404") == 2

    assert not endpoint.requests
    assert "data.0 has no 'metdata'" in capsys.readouterr().err


def test_a_key_that_no_event_has_is_reported_with_similar_ones(
    endpoint: Endpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would be sent, and change nothing."""
    assert invoke("crawl.page", "--set", "data.0.metadata.statusCod=404") == 2

    assert not endpoint.requests
    said = capsys.readouterr().err
    assert "no event has a key 'statusCod'; did you mean statusCode?" in said
    assert "write +data.0.metadata.statusCod=VALUE" in said


def test_a_new_key_is_added_with_a_plus(endpoint: Endpoint) -> None:
    """As for a receiver that has to live with what it does not know. Known keys may be new in a sample."""
    assert invoke("crawl.page", "--set", "+data.0.metadata.statusCod=404", "--set", "error=late") == 0

    assert endpoint.payloads[0]["data"][0]["metadata"]["statusCod"] == 404
    assert endpoint.payloads[0]["error"] == "late"


def test_an_unknown_type_is_reported_with_similar_ones(
    endpoint: Endpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message also says how to list them all."""
    assert invoke("crawl.paeg") == 2

    message = capsys.readouterr().err
    assert not endpoint.requests
    assert "'crawl.paeg'; did you mean crawl.page" in message
    assert "receiver send --list" in message


@pytest.mark.parametrize("body", [b'{ "type": "crawl.page" }\n', b"\xff\x00 no JSON at all", b""])
def test_a_file_is_sent_unchanged(endpoint: Endpoint, body: bytes) -> None:
    """Not one byte is read, changed or added."""
    Path("body").write_bytes(body)

    assert invoke("--file", "body", "--count", "2") == 0
    assert [kept for _, _, kept in endpoint.requests] == [body, body]


def test_a_file_can_come_from_standard_input(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """`events raw ID | send --file -` works so."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"type":"x"}')))

    assert invoke("--file", "-") == 0
    assert endpoint.requests[0][2] == b'{"type":"x"}'


@pytest.mark.parametrize(
    "args",
    [
        (),
        ("crawl.page", "--file", "body"),
        ("--file", "body", "--set", "a=1"),
        ("--file", "body", "--pages", "2"),
        ("--file", "nowhere"),
        ("crawl.page", "--pages", "2"),
        ("crawl.page", "--set", "success"),
        ("crawl.page", "--set", "=1"),
        ("crawl.page", "--count", "0"),
        ("crawl.page", "--rate", "0"),
        ("crawl.page", "--rate", "nan"),
        ("crawl.page", "--rate", "1e-300"),
        ("crawl.page", "--to", "127.0.0.1:8000"),
        ("\udcff",),
    ],
)
def test_wrong_use_sends_nothing(
    endpoint: Endpoint, args: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is 2, with a message."""
    Path("body").write_bytes(b"{}")

    assert invoke(*args) == 2
    assert not endpoint.requests
    assert capsys.readouterr().err


@pytest.mark.parametrize(
    ("status", "code", "told"),
    [
        (401, "unauthenticated", "another secret"),
        (413, "too_large", "longer than"),
        (503, "unavailable", "cannot store now"),
    ],
)
def test_a_refusal_is_exit_code_1_and_explained_once(
    endpoint: Endpoint, status: int, code: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message has the number of deliveries, and not the secret."""
    endpoint.status, endpoint.content = status, json.dumps({"error": code, "detail": "..."}).encode()

    assert invoke("crawl.page", "--count", "3") == 1

    shown = capsys.readouterr()
    assert shown.out.count(f"{status} {code}") == 3
    assert shown.out.splitlines()[-1].endswith(f": 3 {code}")
    assert shown.err.count(told) == 1
    assert shown.err.startswith(f"receiver: 3 not accepted: {status}: ")
    assert SECRET not in shown.out + shown.err


def test_a_receiver_that_does_not_run_is_explained(endpoint: Endpoint, capsys: pytest.CaptureFixture[str]) -> None:
    """With the command that starts it. Port 1 of this machine listens nowhere."""
    assert invoke("crawl.page", "--to", "http://127.0.0.1:1/webhooks") == 1

    assert (
        "nothing listens at http://127.0.0.1:1/webhooks; start it with `receiver dev` or `receiver serve`"
        in capsys.readouterr().err
    )


def test_json_has_one_object_per_delivery(endpoint: Endpoint, capsys: pytest.CaptureFixture[str]) -> None:
    """Standard output has nothing else."""
    endpoint.content = b'{"status":"duplicate","id":"the-key"}'

    assert invoke("crawl.page", "--count", "2", "--json") == 0

    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line.pop("seconds") >= 0 for line in lines] == [True, True]
    assert (
        lines
        == [
            {
                "type": "crawl.page",
                "id": "the-key",
                "ok": True,
                "status": 200,
                "answer": "duplicate",
                "meaning": None,
            }
        ]
        * 2
    )


def test_no_text_of_a_server_can_control_the_terminal(
    endpoint: Endpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same holds for a file: escape sequences are shown as text."""
    endpoint.content = json.dumps({"status": "\x1b[2Jgone\u202e", "id": "\x1b]0;title\x07"}).encode()
    Path("body").write_text(json.dumps({"type": "\x1b[31mred", "webhookId": "x"}))

    assert invoke("--file", "body") == 0

    shown = capsys.readouterr().out.replace("\n", "")
    assert shown.isprintable()
    assert "\\x1b[2Jgone\\u202e" in shown


def test_the_list_names_every_job_and_every_sample(capsys: pytest.CaptureFixture[str]) -> None:
    """People get names, and programs one object per line."""
    assert invoke("--list") == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert invoke("--list", "--json") == 0
    entries = [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    assert set(names) == {"crawl", "batch_scrape", "extract", "agent", "monitor", *sample_names()}
    assert [entry["name"] for entry in entries] == names
    assert {entry["kind"] for entry in entries} == {"job", "event"}


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8000/hooks"),
        ("0.0.0.0", "http://127.0.0.1:8000/hooks"),
        ("::", "http://[::1]:8000/hooks"),
        ("::1", "http://[::1]:8000/hooks"),
        ("localhost", "http://localhost:8000/hooks"),
        ("", "http://127.0.0.1:8000/hooks"),
    ],
)
def test_the_default_address_is_that_of_the_settings(host: str, url: str) -> None:
    """An address that means all of them is not one to connect to."""
    assert default_url(load_settings(host=host, port=8000, path="/hooks")) == url


def test_a_free_port_needs_an_address() -> None:
    """The message says how to give it."""
    with pytest.raises(ConfigurationError, match="--to URL"):
        default_url(load_settings(port=0))
