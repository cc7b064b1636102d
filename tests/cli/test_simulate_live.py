"""`receiver simulate --to`: wrong use, how requests are put on the wire, and the report in words."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from receiver.cli.main import receiver, run
from receiver.cli.simulate.command import FAULTS_OF_SENDER
from receiver.cli.simulate.live import Played, Poster, as_json, print_played
from receiver.core.signing import verify
from receiver.service.sender import Sender
from receiver.service.simulator.endpoint import ResponseKind
from receiver.service.simulator.faults import FaultKind, SimulatedRequest
from receiver.service.simulator.ledger import Findings, Wrong
from receiver.service.simulator.live import EndpointReply
from receiver.service.simulator.report import report_on
from receiver.service.simulator.scenario import ArrivalPattern, Scenario

URL = "http://receiver.test/webhooks"
BODY = b'{"type":"crawl.page","webhookId":"one"}'

pytestmark = pytest.mark.usefixtures("bare_environment")


def invoke(*args: str) -> int:
    return run(receiver.main, ["simulate", *args])


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--speed", "60"], "--speed needs --to URL"),
        (["--play-outages"], "--play-outages needs --to URL"),
        (["--no-check"], "--no-check needs --to URL"),
        (["--store", "sqlite:///x.db"], "--store needs --to URL"),
        *[([f"--{fault}", "0.5"], f"--{fault} needs --to URL") for fault in FAULTS_OF_SENDER],
        (["--to", URL, "--html", "page.html"], "do not go with --to"),
        (["--to", URL, "--speed", "0"], "'--speed'"),
        (["--to", "nowhere", "--no-check"], "http://HOST:PORT/PATH"),
        (["--to", URL, "--json", "--trace"], "give --trace a FILE"),
        (["--to", URL, "--forged", "0.5"], "a receiver that accepts unsigned deliveries accepts forged ones too"),
        (["--to", URL, "--slow", "2"], "--slow: faults.slow is 2.0: it has to be 1 or less"),
    ],
)
def test_wrong_use_is_reported_before_anything_is_sent(
    args: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is 2, and standard output is empty."""
    assert invoke(*args) == 2

    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in " ".join(captured.err.split())


def test_faults_can_be_part_of_the_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    """A simulation says that it ignores faults. An unknown fault is named."""
    Path("some.toml").write_text("arrivals.at = ['0s']\n[faults]\nduplicates = 0.1\n")
    Path("wrong.toml").write_text("[faults]\nduplicate = 0.1\n")

    assert invoke("some.toml", "--json") == 0
    assert invoke("wrong.toml") == 2

    captured = capsys.readouterr()
    assert json.loads(captured.out)["delivered"] == 1
    assert "a simulation has no faults of the sender" in captured.err
    assert 'no key "faults.duplicate"; did you mean duplicates?' in captured.err


def test_a_live_run_says_what_it_ignores(capsys: pytest.CaptureFixture[str]) -> None:
    """These are the outages, the endpoint, and a time-out that is shorter than the receiver's deadline."""
    arguments = ["--at", "0s", "--outage", "1h..2h", "--latency", "1s", "--speed", "60", "--pauses", "1ms,1ms,1ms"]
    assert invoke("--to", "http://127.0.0.1:9/webhooks", "--no-check", *arguments) == 1

    captured = capsys.readouterr()
    assert "the sender ignores the outages" in captured.err
    assert "latency, errors and capacity are ignored" in captured.err
    assert "at 60 times the speed the sender waits 167ms for an answer, and RECEIVER_ACK_DEADLINE" in captured.err
    assert "receiver: 4 not accepted: nothing listens at http://127.0.0.1:9/webhooks" in captured.err
    assert "1 of 1 deliveries fail for good (100 %)." in captured.out
    assert "60 times; real delays 167ms" in captured.out
    assert "1 sent complete, given up after the last retry" in captured.out
    assert "The store was not checked." in captured.out


async def posted(
    request: SimulatedRequest, answer: Callable[[httpx.Request], httpx.Response]
) -> tuple[EndpointReply, list[tuple[bytes, str]]]:
    """Send one request; return the reply, and the bodies and signatures that arrived."""
    came: list[tuple[bytes, str]] = []

    def handle(received: httpx.Request) -> httpx.Response:
        came.append((received.content, received.headers["X-Firecrawl-Signature"]))
        return answer(received)

    transport = httpx.MockTransport(handle)
    async with (
        Sender(URL, secret="right", transport=transport) as sender,
        Sender(URL, secret="wrong", transport=transport) as forger,
    ):
        return await Poster(sender, forger)(request), came


@pytest.mark.parametrize(
    ("way", "body", "signed", "secret"),
    [
        (FaultKind.WHOLE, BODY, BODY, "right"),
        (FaultKind.SLOW, BODY, BODY, "right"),
        (FaultKind.CUT, BODY[:19], BODY[:19], "right"),
        (FaultKind.CLIPPED, BODY[:19], BODY, "right"),
        (FaultKind.FORGED, BODY, BODY, "wrong"),
    ],
)
async def test_each_way_of_sending_has_its_bytes_and_its_signature(
    way: FaultKind, body: bytes, signed: bytes, secret: str
) -> None:
    """A cut body has its own signature or that of the whole. A forged one has that of another secret."""
    upload = timedelta(microseconds=1) if way is FaultKind.SLOW else timedelta(0)
    _, [(came, signature)] = await posted(SimulatedRequest(BODY, way, upload), lambda _: httpx.Response(200))

    assert came == body
    assert verify(signed, signature, [secret])


def failing(error: Exception) -> Callable[[httpx.Request], httpx.Response]:
    def fail(_: httpx.Request) -> httpx.Response:
        raise error

    return fail


@pytest.mark.parametrize(
    ("answer", "outcome", "status", "known"),
    [
        (lambda _: httpx.Response(200, json={"status": "accepted"}), ResponseKind.OK, 200, False),
        (lambda _: httpx.Response(200, json={"status": "duplicate"}), ResponseKind.OK, 200, True),
        (lambda _: httpx.Response(503), ResponseKind.STATUS, 503, False),
        (lambda _: httpx.Response(302), ResponseKind.STATUS, 302, False),
        (failing(httpx.ConnectError("x")), ResponseKind.REFUSED, None, False),
        (failing(httpx.ReadError("x")), ResponseKind.TIMEOUT, None, False),
    ],
)
async def test_each_answer_has_its_outcome(
    answer: Callable[[httpx.Request], httpx.Response], outcome: ResponseKind, status: int | None, known: bool
) -> None:
    """If the connection ends before the answer, the request may have arrived."""
    reply, _ = await posted(SimulatedRequest(BODY), answer)

    assert reply[:3] == (outcome, status, known)


def played(created: int = 2, *, interrupted: bool = False) -> Played:
    scenario = Scenario(arrivals=ArrivalPattern(at=(timedelta(0), timedelta(seconds=1))))
    return Played(scenario, URL, 60, report_on(scenario), created, {"slow": 1, "forged": 0}, interrupted)


def test_a_complete_store_is_reported_in_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    """It also counts deliveries of other senders."""
    print_played(played(), Findings(stored=2, duplicates=1, unanswered=1, quarantined=3, others=4), checked=True)

    shown = capsys.readouterr().out
    assert "Nothing is lost: all 2 deliveries get through." in shown
    assert "faults       slow 1\n" in shown
    assert (
        "The store has 2 of this run, with 1 duplicate, and 3 in quarantine; 1 of them were never acknowledged."
    ) in shown
    assert "Other senders sent 4 meanwhile." in shown
    assert "Nothing is missing, and nothing is there by mistake." in shown


@pytest.mark.parametrize("kind", Wrong)
def test_every_fault_is_reported_with_examples(kind: Wrong, capsys: pytest.CaptureFixture[str]) -> None:
    """It shows three examples, safe for a terminal, as text and as JSON."""
    findings = Findings()
    findings.add(kind, ["a\x1b[2J", "b", "c", "d"])
    print_played(played(3, interrupted=True), findings, checked=True)
    fields = as_json(played(3, interrupted=True), findings, checked=True)

    shown = capsys.readouterr().out
    assert "Stopped: 1 delivery of 3 were unfinished." in shown
    assert r"a\x1b[2J, b, c, …" in shown
    assert "Everything that should be there" not in shown
    assert fields["wrong"] == {kind.value: {"count": 4, "examples": ["a\x1b[2J", "b", "c"]}}
    assert (fields["interrupted"], fields["unfinished"]) == (True, 1)


def test_json_leaves_out_what_a_sender_cannot_know() -> None:
    """A sender cannot know how many arrived too late."""
    fields = as_json(played(), Findings(), checked=False)

    assert "late" not in fields
    assert fields["outcomes"] == {"ok": 2, "refused": 0, "status": 0, "timeout": 0}
    assert fields["store"] is None
