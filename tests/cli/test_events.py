"""`receiver events`, run as a user runs it, on a real database."""

import asyncio
import io
import json
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from receiver.cli.common.tables import ListForm
from receiver.cli.events.list import EVENTS
from receiver.cli.main import receiver, run
from receiver.core.clock import local_time
from receiver.core.deliveries import Delivery, DeliveryFilter, DeliverySummary
from receiver.core.subjects import Subject
from receiver.core.types import DeliveryKey, DeliveryState, HandlerName, Headers, WorkState
from receiver.core.units import parse_moment
from receiver.core.views import EventRow
from receiver.stores import open_store
from tests.cli.kept import BODY, DEAD, DONE, NOON, SAVE, STORE, TELL, delivery, fill, made, on_a_terminal
from tests.doubles import appended

TITLES = ["received", "type", "id", "job_id", "state", "reported", "duplicates", "size", "subject"]
NOT_ROUTED = "new: not routed yet; a worker chooses the handlers of a new event"
pytestmark = pytest.mark.usefixtures("configured")


async def stored(*deliveries: Delivery) -> None:
    async with open_store(STORE).log() as log:
        for one in deliveries:
            await appended(log, one)


@pytest.fixture
def kept(configured: None) -> None:
    """Three deliveries, the last without much of an envelope."""
    asyncio.run(
        stored(
            delivery("aaa-1"),
            delivery("aab-2", 1, type="agent.action", job_id="job-2", success=False),
            delivery("aaa-1"),
            delivery(
                "sha256:ffff", 2, type="odd", job_id=None, webhook_id=None, success=None, body=b'{"type":"odd"}'
            ),
        )
    )


def invoke(*args: str) -> int:
    return run(receiver.main, ["events", *args])


def listed(capsys: pytest.CaptureFixture[str], *args: str) -> list[dict[str, Any]]:
    assert invoke("list", "--json", *args) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def shown(capsys: pytest.CaptureFixture[str], key: str) -> dict[str, Any]:
    assert invoke("show", key, "--json") == 0
    read: dict[str, Any] = json.loads(capsys.readouterr().out)
    return read


@pytest.mark.usefixtures("kept")
def test_the_listing_as_json_has_one_object_per_delivery_newest_first(capsys: pytest.CaptureFixture[str]) -> None:
    """Each object has all fields; a field that the envelope lacks is null."""
    assert listed(capsys) == [
        {
            "id": "sha256:ffff",
            "type": "odd",
            "job_id": None,
            "webhook_id": None,
            "success": None,
            "received_at": "2026-08-04T12:02:00.000000Z",
            "size": 14,
            "duplicates": 0,
            "state": "new",
            "origin": "sender",
            "has_body": True,
            "url": None,
            "subject": None,
        },
        {
            "id": "aab-2",
            "type": "agent.action",
            "job_id": "job-2",
            "webhook_id": "aab-2",
            "success": False,
            "received_at": "2026-08-04T12:01:00.000000Z",
            "size": len(BODY),
            "duplicates": 0,
            "state": "new",
            "origin": "sender",
            "has_body": True,
            "url": None,
            "subject": "slow",
        },
        {
            "id": "aaa-1",
            "type": "crawl.page",
            "job_id": "job-1",
            "webhook_id": "aaa-1",
            "success": True,
            "received_at": "2026-08-04T12:00:00.000000Z",
            "size": len(BODY),
            "duplicates": 1,
            "state": "new",
            "origin": "sender",
            "has_body": True,
            "url": None,
            "subject": "slow",
        },
    ]


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize(
    ("filters", "ids"),
    [
        (("--type", "crawl.page"), ["aaa-1"]),
        (("--type", "*.a*"), ["aab-2"]),
        (("--job", "job-2"), ["aab-2"]),
        (("--since", "2026-08-04T12:01:00Z"), ["sha256:ffff", "aab-2"]),
        (("--until", "2026-08-04T12:01:00Z"), ["aaa-1"]),
        (("--since", "2026-08-04T14:01:00+02:00", "--until", "2026-08-04T12:02:00Z"), ["aab-2"]),
        (("--until", "1s"), ["sha256:ffff", "aab-2", "aaa-1"]),
        (("--state", "new", "--limit", "2"), ["sha256:ffff", "aab-2"]),
        (("--state", "done"), []),
        (("--type", "crawl.page", "--job", "job-2"), []),
    ],
)
def test_filters_narrow_the_listing_together(
    filters: tuple[str, ...], ids: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """--since includes its moment, --until does not; the zone of a moment counts."""
    assert [line["id"] for line in listed(capsys, *filters)] == ids


@pytest.mark.usefixtures("configured")
@pytest.mark.parametrize(
    ("filters", "ids"),
    [
        (("--handler", "*.save"), ["key-2", "key-1"]),
        (("--handler", "handlers.*"), ["key-3", "key-2", "key-1"]),
        (("--handler", "none"), []),
        (("--failed",), ["key-3", "key-1"]),
        (("--failed", "--handler", "*.save"), ["key-1"]),
        (("--failed", "--type", "agent.*"), []),
    ],
)
def test_handler_and_failed_narrow_listings_and_bundles(
    filters: tuple[str, ...], ids: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """--handler chooses events with work for these handlers, and --failed those that failed with them."""
    fill(
        lambda store: store.item(DEAD, SAVE),
        lambda store: store.item(DONE, SAVE),
        lambda store: store.item(DEAD, TELL),
    )

    assert [line["id"] for line in listed(capsys, *filters)] == ids
    assert invoke("export", *filters) == 0
    _, *lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["id"] for line in lines] == ids[::-1]


@pytest.mark.parametrize(
    ("written", "moment"),
    [
        ("2026-08-04T12:00:00Z", NOON),
        ("2026-08-04 13:30+01:30", NOON),
        ("30m", NOON - timedelta(minutes=30)),
        ("2h", NOON - timedelta(hours=2)),
        ("7d", NOON - timedelta(days=7)),
        ("1w", NOON - timedelta(days=7)),
        ("1h30m", NOON - timedelta(minutes=90)),
        ("90s", NOON - timedelta(seconds=90)),
    ],
)
def test_a_moment_is_iso_8601_or_a_duration_before_now(written: str, moment: datetime) -> None:
    """The result is an aware moment in UTC."""
    assert parse_moment(written, NOON) == moment
    assert parse_moment(written, NOON).tzinfo is UTC


@pytest.mark.parametrize("written", ["2026-08-04T12:00:00", "2026-08-04 12:00"])
def test_a_moment_without_a_zone_is_local_time(written: str) -> None:
    """It is the time of the machine's clock."""
    assert parse_moment(written, NOON) == datetime(2026, 8, 4, 12).astimezone()


@pytest.mark.parametrize("written", ["yesterday", "", "7", "m", "-5m", "1y", "9" * 30 + "w", "2026-13-01"])
@pytest.mark.parametrize("option", ["--since", "--until"])
def test_an_invalid_timestamp_is_wrong_use(written: str, option: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The message shows valid timestamps."""
    assert invoke("list", option, written) == 2
    assert "write 2026-08-04T08:00:00Z" in " ".join(capsys.readouterr().err.split())


@pytest.mark.usefixtures("kept")
def test_the_listing_for_people_has_aligned_lines_when_piped(capsys: pytest.CaptureFixture[str]) -> None:
    """Below a header each event is a line with whole ids; `-` stands for a missing value."""
    assert invoke("list") == 0

    out, err = capsys.readouterr()
    head, *lines = out.splitlines()
    times = [local_time(NOON + timedelta(minutes=minutes)) for minutes in (2, 1, 0)]
    assert head.split() == TITLES
    assert [line.split() for line in lines] == [
        [times[0], "odd", "sha256:ffff", "-", "new", "-", "-", "14", "-"],
        [times[1], "agent.action", "aab-2", "job-2", "new", "error", "-", str(len(BODY)), "slow"],
        [times[2], "crawl.page", "aaa-1", "job-1", "new", "ok", "+1", str(len(BODY)), "slow"],
    ]
    assert len({line.index(" new ") for line in lines} | {head.index(" state ")}) == 1
    assert err == ""


def test_a_listing_on_a_terminal_ends_after_fifty_and_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe gets all, for a count of its lines. With --limit there is no remark."""
    asyncio.run(stored(*(delivery(f"key-{number}") for number in range(51))))

    assert invoke("list") == 0
    out, err = capsys.readouterr()
    assert (len(out.splitlines()), err) == (1 + 51, "")

    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert invoke("list", "--wide") == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 1 + 50
    assert "only the newest 50 are shown; --limit N" in err

    assert invoke("list", "--limit", "20", "--wide") == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 1 + 20
    assert "only the newest" not in err

    assert len(listed(capsys)) == 51


def test_exactly_fifty_events_need_no_remark(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a cut there is no remark."""
    asyncio.run(stored(*(delivery(f"key-{number}") for number in range(50))))

    assert invoke("list") == 0
    out, err = capsys.readouterr()
    assert (len(out.splitlines()), err) == (1 + 50, "")


@pytest.mark.usefixtures("kept")
def test_an_empty_listing_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """The remark is on standard error, and the exit code is 0."""
    assert invoke("list", "--type", "nothing.*") == 0
    assert capsys.readouterr() == ("", "no event matched\n")


@pytest.mark.usefixtures("kept")
def test_the_listing_on_a_terminal_is_a_table() -> None:
    """It has titles, and as many columns as fit. The others are named, or told below their rows if they matter."""
    wide = on_a_terminal("events", "list", columns=140)[1].splitlines()
    narrow = on_a_terminal("events", "list", columns=60)[1].splitlines()

    assert wide[0].split() == TITLES
    assert wide[2].split()[1:] == ["agent.action", "aab-2", "job-2", "new", "error", "-", str(len(BODY)), "slow"]
    assert wide[4:] == [NOT_ROUTED]
    assert narrow[0].split() == ["received", "type", "id", "state", "subject"]
    assert narrow[3] == "    the service reported an error"
    assert narrow[5:] == [
        "    1 duplicate",
        "columns without room: job_id, size; --wide shows all,",
        "  --columns chooses",
        NOT_ROUTED,
    ]
    assert max(map(len, narrow[:-2])) <= 60


def test_no_text_from_outside_can_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """This holds for the listing, the table, the details of one event, and JSON on a terminal."""
    evil = "\x1b]0;owned\x07\x9b2J\u202e[red]"
    body = json.dumps({"type": evil, "error": evil, "metadata": {evil: evil}}, ensure_ascii=False).encode()
    headers: Headers = (("x-" + evil, evil),)
    asyncio.run(stored(delivery("evil", type=evil, job_id=evil, headers=headers, body=body)))

    invoke("list")
    invoke("show", "evil")
    table, rows, detail = [
        on_a_terminal("events", *args)[1] for args in (["list"], ["list", "--json"], ["show", "evil", "--json"])
    ]
    seen = capsys.readouterr().out + table + rows + detail

    assert [char for char in seen if not char.isprintable() and char != "\n"] == []
    assert "\\x1b]0;owned\\x07\\x9b2J\\u202e" in seen
    assert json.loads(rows)["job_id"] == evil
    assert json.loads(detail)["metadata"] == {evil: evil}


def test_json_in_a_pipe_is_not_escaped_for_a_terminal(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """It stays as it was: only what JSON demands is escaped."""
    asyncio.run(stored(delivery("odd", job_id="\x9b2J\u202eé")))

    assert invoke("show", "odd", "--json") == 0

    assert '"job_id":"\x9b2J\u202eé"'.encode() in capsysbinary.readouterr().out


@pytest.mark.usefixtures("kept")
def test_raw_writes_the_exact_bytes(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """The body is not parsed, changed or extended, not even by a line end."""
    assert invoke("raw", "aaa-1") == 0
    assert capsysbinary.readouterr().out == BODY


def test_raw_writes_to_a_terminal_only_with_force() -> None:
    """The exact bytes could control it: without --force it is wrong use, in one line, and nothing is written."""
    asyncio.run(stored(delivery("evil", body=b"\x07owned")))

    code, seen = on_a_terminal("events", "raw", "evil")
    assert code == 2
    assert "owned" not in seen
    assert (
        "Error: standard output is a terminal, and the body could control it: write it to a file (> FILE)" in seen
    )
    assert on_a_terminal("events", "raw", "evil", "--force") == (0, "\x07owned")


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("prefix", ["aab-2", "aab", "aab-"])
def test_an_id_may_be_shortened(prefix: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Any beginning works that only one event has."""
    assert shown(capsys, prefix)["id"] == "aab-2"


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("command", ["show", "raw"])
@pytest.mark.parametrize("prefix", ["aa", "nothing"])
def test_an_unknown_or_ambiguous_id_is_an_error(
    command: str, prefix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is 1, the message has the id, and standard output is empty."""
    assert invoke(command, prefix) == 1

    out, err = capsys.readouterr()
    assert out == ""
    assert repr(prefix) in err


@pytest.mark.usefixtures("kept")
def test_show_as_json_has_more_fields_than_the_listing(capsys: pytest.CaptureFixture[str]) -> None:
    """It adds error, metadata and number of items of the body, the headers, and the work."""
    (line,) = listed(capsys, "--type", "crawl.page")

    assert shown(capsys, "aaa-1") == line | {
        "error": "slow",
        "metadata": {"a": "1"},
        "headers": {"content-type": "application/json", "x-a": "1, 2"},
        "items": 2,
        "unreadable": None,
        "work": [],
    }


def test_an_event_whose_body_is_away_is_shown_without_it(capsys: pytest.CaptureFixture[str]) -> None:
    """With the reason, which is all that `raw` has to say."""
    asyncio.run(stored(delivery("key", body=b'{"type":"crawl.page","x":"' + b"a" * 10_000 + b'"}')))
    [file] = Path().glob("kept.db-bodies-*")
    file.unlink()
    reason = (
        f"the body of delivery key cannot be read: {file.resolve()}: No such file or directory; put the file back"
    )

    assert invoke("show", "key") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if reason in line] == lines[-1:]
    assert "  content-type: application/json" in lines
    assert shown(capsys, "key")["unreadable"].startswith(reason)
    assert invoke("raw", "key") == 3
    out, err = capsys.readouterr()
    assert (out, err.removeprefix("receiver: ").startswith(reason)) == ("", True)


def test_show_has_the_work_of_every_handler(capsys: pytest.CaptureFixture[str]) -> None:
    """Each line has the id for `work-items show`, the reason for a wait, and the next time."""
    fill(lambda store: store.item(WorkState.HELD, HandlerName("h.one"), key="key", note="its pages"))

    read = shown(capsys, "key")
    assert read["state"] == "working"
    assert read["work"] == [
        {
            "id": 1,
            "handler": "h.one",
            "state": "held",
            "attempts": 0,
            "lane": None,
            "due_at": "2026-08-04T12:02:00.000000Z",
            "last_error": None,
            "note": "its pages",
            "behind": None,
        }
    ]


def test_state_narrows_the_listing(capsys: pytest.CaptureFixture[str]) -> None:
    """--state dead lists the events that need a person."""
    made(WorkState.DEAD)

    assert [line["id"] for line in listed(capsys, "--state", "dead")] == ["key-1"]
    assert listed(capsys, "--state", "done") == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no JSON",
        b"[]",
        b'{"type":"x"}',
        b'{"type":"x","metadata":{"a":NaN}}',
        b'{"type":"x","error":' + b"[" * 900 + b"]" * 900 + b"}",
        b'{"type":"x","metadata":%s}' % (b"9" * 5000),
        b'{"type":"x","error":"cut \\ud83d here"}',
        b"\xff\xfe\x00",
    ],
)
@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_any_body_can_be_shown(
    body: bytes, flags: tuple[str, ...], capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """The output is valid UTF-8 and strict JSON: no NaN, and a lone surrogate as an escape."""
    asyncio.run(stored(delivery("key", body=body)))

    assert invoke("show", "key", *flags) == 0

    out = capsysbinary.readouterr().out.decode("utf-8")
    if flags:
        json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


@pytest.mark.parametrize("command", [("list",), ("list", "--json"), ("show", "x"), ("raw", "x")])
def test_without_a_database_no_file_is_made(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 3, the message is one line, and the folder stays empty."""
    assert invoke(*command, "--store", "sqlite:///nowhere.db") == 3

    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "nowhere.db" in err
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("limit", ["0", "-1", "x"])
def test_a_limit_is_one_or_more(limit: str) -> None:
    """Other values are wrong use."""
    assert invoke("list", "--limit", limit) == 2


class ManyReports:
    """Reports of many deliveries. `behind` is how many at most had been read and not yet written."""

    def __init__(self, number: int, output: io.BytesIO) -> None:
        self.number = number
        self.output = output
        self.behind = 0

    async def rows(self, wanted: DeliveryFilter) -> AsyncIterator[EventRow]:
        for seq in range(self.number):
            self.behind = max(self.behind, seq - self.output.getvalue().count(b"\n"))
            summary = DeliverySummary(
                seq, DeliveryKey("key-1"), "crawl.page", None, None, None, NOON, 0, 0, DeliveryState.NEW
            )
            yield EventRow(summary, Subject())


@pytest.mark.parametrize("as_json", [True, False])
def test_a_listing_is_written_while_it_is_read(as_json: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A million events need the memory of a few hundred."""
    output = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(output, write_through=True))
    reports = ManyReports(2000, output)

    asyncio.run(EVENTS.write(reports.rows, DeliveryFilter(limit=2000), ListForm(as_json=as_json)))
    sys.stdout.flush()

    assert output.getvalue().count(b"\n") == 2000 + (not as_json)
    assert reports.behind <= 200
