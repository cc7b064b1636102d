"""`receiver drift`, run as a user runs it, on a real database."""

import json
from typing import Any

import pytest

from receiver.cli.main import receiver, run
from tests.cli.kept import Filling, delivery, fill, on_a_terminal
from tests.doubles import appended

pytestmark = pytest.mark.usefixtures("configured")


def found(capsys: pytest.CaptureFixture[str], *args: str) -> list[dict[str, Any]]:
    assert run(receiver.main, ["drift", "--json", *args]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.fixture
def drifted(configured: None) -> None:
    """Two pages with a new field, one with a field of another form, an unknown type, and two that are known."""

    async def run_all(store: Filling) -> None:
        bodies = {
            "known": b'{"type":"crawl.page","data":[]}',
            "new-1": b'{"type":"crawl.page","data":[{"tone":1}]}',
            "new-2": b'{"type":"crawl.page","data":[{"tone":2}]}',
            "form": b'{"type":"crawl.page","data":[{"metadata":{"statusCode":"200","mine":1}}]}',
            "odd": b'{"type":"odd\\u001b[2J.thing"}',
            "last": b'{"type":"crawl.completed"}',
        }
        for minutes, (key, body) in enumerate(bodies.items()):
            kind = json.loads(body)["type"].replace("\x1b", "\\x1b")
            await appended(store.log, delivery(key, minutes, type=kind, body=body))

    fill(run_all)


@pytest.mark.usefixtures("drifted")
def test_unknown_types_and_fields_are_listed_with_an_event(capsys: pytest.CaptureFixture[str]) -> None:
    """The newest is first. The exit code is 0, because nothing failed."""
    odd, form, tone = found(capsys)

    assert tone == {
        "type": "crawl.page",
        "kind": "field",
        "path": "data[].tone",
        "count": 2,
        "first_at": "2026-08-04T12:01:00.000000Z",
        "last_at": "2026-08-04T12:02:00.000000Z",
        "delivery_id": "new-2",
    }
    assert (form["kind"], form["path"], form["delivery_id"]) == ("form", "data[].metadata.statusCode", "form")
    assert (odd["kind"], odd["path"], odd["delivery_id"]) == ("type", None, "odd")


@pytest.mark.usefixtures("drifted")
@pytest.mark.parametrize(
    ("filters", "examples"),
    [
        (("--type", "crawl.*"), ["form", "new-2"]),
        (("--until", "2026-08-04T12:02:00Z"), ["new-1"]),
        (("--since", "2026-08-04T12:04:00Z"), ["odd"]),
        (("--limit", "3"), ["odd", "form"]),
        (("--limit", "1"), []),
    ],
)
def test_filters_choose_the_events(
    filters: tuple[str, ...], examples: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """--limit takes the newest."""
    assert [one["delivery_id"] for one in found(capsys, *filters)] == examples


@pytest.mark.usefixtures("drifted")
def test_people_get_a_line_for_each_and_the_number_of_events(capsys: pytest.CaptureFixture[str]) -> None:
    """No text in it can control a terminal."""
    assert run(receiver.main, ["drift"]) == 0

    seen = capsys.readouterr()
    head, odd, form, tone = seen.out.splitlines()
    assert head.split()[:3] == ["kind", "type", "path"]
    assert odd.startswith("unknown type ")
    assert form.split()[:4] == ["other", "form", "crawl.page", "data[].metadata.statusCode"]
    assert tone.split()[:5] == ["unknown", "field", "crawl.page", "data[].tone", "2"]
    assert "\x1b" not in seen.out
    assert seen.err == "6 events read\n"


@pytest.mark.usefixtures("drifted")
def test_without_drift_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """The remark is on standard error; standard output is empty."""
    assert run(receiver.main, ["drift", "--type", "*.completed"]) == 0

    seen = capsys.readouterr()
    assert (seen.out, seen.err) == ("", "1 event read; no drift\n")


@pytest.mark.usefixtures("drifted")
@pytest.mark.parametrize("columns", [80, 160])
def test_on_a_terminal_it_is_a_table(columns: int) -> None:
    """The table fits in the terminal."""
    code, seen = on_a_terminal("drift", columns=columns)

    assert code == 0
    assert seen.splitlines()[1].split()[:3] == ["kind", "type", "path"]
    assert max(len(line) for line in seen.splitlines()) <= columns


def test_a_body_that_cannot_be_read_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    """The command goes on."""
    fill(lambda store: appended(store.log, delivery("bad", body=b"{")))

    assert run(receiver.main, ["drift"]) == 0
    assert capsys.readouterr().err == "1 event read; 1 could not be read; no drift\n"
