"""`receiver replay --enqueue` and `--to`, run as a user runs them."""

import hashlib
import hmac
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from receiver.core.types import HandlerName, HandlerSwitch
from tests.cli.endpoint import Endpoint, served
from tests.cli.kept import BODY, DEAD, DONE, WAITING, Filling, delivery, fill, items
from tests.cli.replaying import Command, keep, keep_jobs, write_handlers
from tests.process.harness import SECRET

pytestmark = pytest.mark.usefixtures("configured")

HANDLERS = """
@router.on("crawl.*")
def one(event): raise AssertionError("it runs elsewhere")

@router.on("crawl.page", lane=lambda event: event.job_id)
async def laned(event): ...
"""

LATER = """
@router.on("crawl.*")
def one(event): ...

@router.later("crawl.*")
def ask(event): ...
"""

ONE = HandlerName("replayed.one")


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command, with two handlers."""
    write_handlers(HANDLERS, monkeypatch)
    return Command(monkeypatch, capsys)


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    """A web server that takes everything."""
    monkeypatch.setenv("RECEIVER_SECRETS", SECRET)
    with served() as server:
        yield server


# --- --enqueue


def test_work_is_made_for_the_workers(command: Command) -> None:
    """Each matching handler gets a new work item with the trigger `replay`; older items stay."""
    keep(delivery("a"), delivery("b", 1, type="agent.action", body=b'{"type":"agent.action"}'))

    for _ in range(2):
        assert command("--enqueue") == 0

    assert "2 events to enqueue" in command.out
    assert command.out.endswith("enqueued 2 work items; workers run them as soon as they can\n")
    assert [(item.key, item.handler, item.state.value) for item in items()] == [
        ("a", "replayed.one", "waiting"),
        ("a", "replayed.laned", "waiting"),
    ] * 2
    assert command.exactly("work-items", "list", "--json") == 0
    assert len(command.out.splitlines()) == 4


def test_the_plan_says_what_runs_anyway(command: Command) -> None:
    """New work items would do a second time what still waits. Work of other handlers does not count."""
    keep(delivery("a"), delivery("b", 1))
    assert command("--enqueue", "--handler", "*.one") == 0
    assert "will run besides" not in command.out

    assert command("--enqueue", "--handler", "*.laned") == 0
    assert "will run besides" not in command.out

    assert command("--enqueue", "--handler", "*.one", "--dry-run") == 0
    assert command.out.endswith(
        "  2 work items for such events are not done yet, and will run besides\n"
        "  `receiver work-items retry` runs waiting ones at once, and makes no second ones\n"
    )
    assert command("--handler", "*.one", "--dry-run") == 0
    assert "will run besides" not in command.out, "nothing is made here"


@pytest.mark.parametrize(
    ("choice", "besides"),
    [
        (("--until", "2026-08-04T12:00:30Z"), "  1 work item for such events is not done yet"),
        (("--limit", "1"), "  up to 2 work items for such events are not done yet"),
        (("--after", "1"), "  up to 2 work items for such events are not done yet"),
        (("--where", "type == 'crawl.page'"), "  up to 2 work items for such events are not done yet"),
    ],
)
def test_the_plan_does_not_say_for_certain_what_runs_beside_some(
    command: Command, choice: tuple[str, str], besides: str
) -> None:
    """A work item has no mark that tells whether its event is one of those."""
    keep(delivery("a"), delivery("b", 1))
    assert command("--enqueue", "--handler", "*.one") == 0

    assert command("--enqueue", "--handler", "*.one", "--dry-run", *choice) == 0
    assert [line for line in command.out.splitlines() if "will run besides" in line] == [
        f"{besides}, and will run besides"
    ]


def test_nothing_runs_beside_events_that_are_done_or_dead(command: Command) -> None:
    """The work that waits is that of other events."""

    async def some(store: Filling) -> None:
        await store.item(DEAD, ONE)
        await store.item(DONE, ONE)
        await store.item(WAITING, ONE)

    fill(some)
    for state in ("dead", "done"):
        assert command("--enqueue", "--handler", "*.one", "--dry-run", "--state", state) == 0
        assert "1 event to enqueue" in command.out
        assert "will run besides" not in command.out


def test_work_of_handlers_that_get_nothing_does_not_run_besides(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No delivery runs a handler of `router.later`, so a replay makes no work for it."""
    write_handlers(LATER, monkeypatch)

    async def some(store: Filling) -> None:
        await store.item(DONE, ONE)
        await store.item(WAITING, HandlerName("replayed.ask"))

    fill(some)
    assert command("--enqueue", "--dry-run") == 0
    assert "2 events to enqueue" in command.out
    assert "will run besides" not in command.out


def test_work_is_made_for_the_chosen_handlers(command: Command) -> None:
    """Only the chosen events count."""
    keep_jobs(6)

    assert command("--enqueue", "--handler", "*.one", "--limit", "2", "--where", "metadata.a == '1'") == 0
    assert [(item.key, item.handler) for item in items()] == [("k4", "replayed.one"), ("k5", "replayed.one")]


@pytest.mark.parametrize(
    "arguments",
    [
        ["replay", "--yes", "--enqueue"],
        ["replay", "--yes", "--record", "--handler", "*.laned"],
        ["work-items", "bury", "--state", "waiting", "--reason", "too late", "--yes"],
    ],
)
def test_the_write_ahead_log_is_empty_afterwards(command: Command, arguments: list[str]) -> None:
    """Otherwise the next command would first read up to 256 MiB."""
    keep(delivery("a"))
    assert command("--enqueue") == 0

    assert command.exactly(*arguments) == 0

    assert not Path("kept.db-wal").exists()


def test_work_of_a_disabled_handler_is_skipped(command: Command) -> None:
    """New deliveries are handled the same way."""
    keep(delivery("a"))

    async def disable(store: Filling) -> None:
        await store.controls.switch("replayed.one", HandlerSwitch.DISABLED)  # type: ignore[arg-type]

    fill(disable)
    assert command("--enqueue", "--handler", "*.one") == 0
    assert [item.state.value for item in items()] == ["skipped"]


def test_json_leaves_standard_output_alone(command: Command) -> None:
    """The command lists nothing."""
    keep(delivery("a"))

    assert command("--enqueue", "--json") == 0
    assert command.out == ""
    assert "enqueued 2 work items" in command.err


# --- --to


def test_exact_bytes_are_sent_with_a_new_signature(command: Command, endpoint: Endpoint) -> None:
    """They keep their order, and no handler runs."""
    keep(delivery("a"), delivery("b", 1, body=b'{"type" : "crawl.page", "webhookId":"b"}'))

    assert command("--to", endpoint.url, "--handlers", "none:none") == 0

    assert [body for _, _, body in endpoint.requests] == [BODY, b'{"type" : "crawl.page", "webhookId":"b"}']
    for _, headers, body in endpoint.requests:
        expected = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
        assert headers["x-firecrawl-signature"] == f"sha256={expected}"
    assert "2 events to send" in command.out
    assert "by handler" not in command.out
    assert SECRET not in command.out + command.err


def test_new_ids_make_new_deliveries(command: Command, endpoint: Endpoint) -> None:
    """Each run makes new ids."""
    keep(*[delivery(key, n, body=f'{{"type":"t","webhookId":"{key}"}}'.encode()) for n, key in enumerate("ab")])

    for _ in range(2):
        assert command("--to", endpoint.url, "--new-ids", "--rate", "1000") == 0

    ids = {payload["webhookId"] for payload in endpoint.payloads}
    assert len(ids) == 4
    assert not ids & {"a", "b"}


def test_refusals_are_reported_and_the_rest_is_sent(command: Command, endpoint: Endpoint) -> None:
    """The exit code is 1, because a retry cannot help."""
    keep_jobs(4)
    endpoint.statuses = iter([200, 401])

    assert command("--to", endpoint.url, "--json") == 1

    assert [json.loads(line)["status"] for line in command.out.splitlines()] == [200, 401, 200, 200]
    assert "receiver: 1 not accepted: 401" in command.err
    assert "to go on" not in command.err


@pytest.mark.parametrize("failing", range(4))
def test_a_receiver_that_cannot_store_stops_the_replay(failing: int, command: Command, endpoint: Endpoint) -> None:
    """The printed command sends the refused delivery and the later ones that were open."""
    keep(*[delivery(f"k{n}", n, body=f'{{"type":"t","n":{n}}}'.encode()) for n in range(4)])
    endpoint.statuses = iter([*[200] * failing, 503])

    assert command("--to", endpoint.url) == 1
    assert "receiver: 1 not accepted: 503" in command.err
    assert len(endpoint.requests) <= failing + 2
    del endpoint.requests[failing:]

    assert command.exactly(*command.way_on) == 0
    assert [payload["n"] for payload in endpoint.payloads] == [0, 1, 2, 3]


def test_equal_and_empty_bodies_are_distinguished(command: Command, endpoint: Endpoint) -> None:
    """Several of them may be open at one time."""
    keep(*[delivery(f"k{n}", n, body=b"") for n in range(20)])

    assert command("--to", endpoint.url, "--rate", "1000") == 0
    assert len(endpoint.requests) == 20


def test_a_receiver_that_does_not_run_is_reported(command: Command) -> None:
    """The message has the command that continues."""
    keep_jobs(2)
    with served() as server:
        url = server.url

    assert command("--to", url) == 1
    assert f"nothing listens at {url}" in command.err
    assert command.way_on[:3] == ["replay", "--until", "2026-08-04T12:01:00.000001Z"]


def test_a_wrong_address_is_refused(command: Command) -> None:
    """The message says why."""
    keep_jobs(2)

    assert command("--to", "ftp://x") == 2
    assert "must be http://HOST:PORT/PATH" in command.err
