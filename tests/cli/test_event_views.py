"""What `receiver events show` makes of an event and of its work."""

import json

import pytest

from receiver.cli.events.list import readable
from receiver.core.clock import local_time
from receiver.core.deliveries import DeliveryDetail, DeliverySummary
from receiver.core.types import DeliveryKey, DeliveryState, HandlerName, WorkState
from receiver.core.views import event_detail
from receiver.core.work import WorkSummary
from tests.cli.kept import HEADERS, NOON


def detail(body: bytes, *work: WorkSummary, state: DeliveryState = DeliveryState.NEW) -> DeliveryDetail:
    summary = DeliverySummary(1, DeliveryKey("key-1"), "crawl.page", None, None, None, NOON, len(body), 0, state)
    return DeliveryDetail(summary, HEADERS, body, work)


@pytest.mark.parametrize(
    ("data", "items"), [("[]", 0), ("null", 0), ("{}", 1), ("[1,2,3]", 3), ("[null]", 1), ('"x"', 1)]
)
def test_items_are_counted_in_every_form_of_data(data: str, items: int) -> None:
    """An object is one item, null is none, as in the typed event."""
    assert event_detail(detail(b'{"type":"x","data":%s}' % data.encode()))["items"] == items


def test_a_long_body_is_cut_with_a_hint_at_raw() -> None:
    """The number of lines and their width are bounded."""
    many = readable(detail(json.dumps({"data": list(range(10_000))}).encode()))
    wide = readable(detail(json.dumps({"data": "x" * 100_000}).encode()))

    for lines in (many, wide):
        assert len(lines) < 90
        assert max(map(len, lines)) < 200
        assert "receiver events raw key-1" in lines[-1]


def test_a_short_body_is_shown_in_full() -> None:
    """It is indented, and its letters are not escaped."""
    lines = readable(detail('{"type":"é"}'.encode()))

    assert lines[-4:] == ["body", "  {", '    "type": "é"', "  }"]


def test_the_view_for_people_says_why_there_is_no_work() -> None:
    """An event without a matching handler differs from a new event."""
    work = WorkSummary(
        id=17,
        key=DeliveryKey("key-1"),
        type="crawl.page",
        job_id=None,
        received_at=NOON,
        handler=HandlerName("h.one"),
        state=WorkState.WAITING,
        attempts=2,
        lane=None,
        due_at=NOON,
        last_error="it broke\nbadly",
        note=None,
    )
    waiting = "\n".join(readable(detail(b"{}", work, state=DeliveryState.WORKING)))

    assert "  17      h.one  " in waiting
    assert f"attempts 2  due {local_time(NOON)}  it broke\\nbadly" in waiting
    assert "  no work item yet" in readable(detail(b"{}"))
    assert "  no work item: no handler matched" in readable(detail(b"{}", state=DeliveryState.DONE))
