"""The estimate of how much memory a body takes as an event."""

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.body_cost import COSTLY_BODY, MAX_BODY_COST, MAX_OBJECTS, NEVER_REFUSED, body_cost
from receiver.errors import CostlyBody, GiveUp, Malformed
from receiver.events import parse_event
from tests.doubles import COSTLY

COUNT = 2_000

ITEMS = {
    "documents": ("crawl.page", "{}"),
    "documents with metadata": ("crawl.page", '{"metadata":{}}'),
    "pages of a monitor": ("monitor.page", "{}"),
    "pages of a check": ("monitor.check.completed", "{}"),
    "extractions": ("extract.completed", "{}"),
    "scrapes in actions": ("crawl.page", '{"actions":{"scrapes":[{}]}}'),
    "tracked changes": (
        "crawl.page",
        '{"changeTracking":{"diff":{"json":{"files":[{"chunks":[{"changes":[{}]}]}]}}}}',
    ),
    "values of a wrong form": ("crawl.page", '{"metadata":1,"links":1,"markdown":1,"actions":1}'),
    "plain objects": ("new.thing", "{}"),
    "plain lists": ("new.thing", "[]"),
    "numbers": ("new.thing", "1000.5"),
    "texts": ("new.thing", '"text"'),
    "wide texts": ("new.thing", '"🐎 and more text"'),
    "escaped wide texts": ("new.thing", '"\\ud83d\\udc0e and more text"'),
}
CHANGES = {"objects": "{}", "values of a wrong form": "1"}


def memory_of(body: bytes) -> int:
    """Return the most memory that reading a body takes, without what the first one makes for all."""
    parse_event(body)
    tracemalloc.start()
    try:
        parse_event(body)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ITEMS)
def test_the_cost_is_not_less_than_what_reading_takes(name: str) -> None:
    """Items of every kind that a sender can repeat."""
    kind, item = ITEMS[name]
    body = f'{{"type":"{kind}","data":[{",".join([item] * COUNT)}]}}'.encode()

    assert memory_of(body) <= body_cost(body)


@pytest.mark.parametrize("name", CHANGES)
def test_changed_values_take_no_more_than_their_cost(name: str) -> None:
    """Wrong values are not described one by one."""
    changes = ",".join(f'"{number}":{CHANGES[name]}' for number in range(COUNT))
    body = f'{{"type":"monitor.page","data":[{{"diff":{{"json":{{{changes}}}}}}}]}}'.encode()

    assert memory_of(body) <= body_cost(body)


@pytest.mark.parametrize("text", ["{[,:", '"{', "\\", '\\"{', "\\\\", "{" * 70_000, "\\" * 70_001, '"' * 70_001])
def test_characters_inside_of_texts_do_not_count(text: str) -> None:
    """A page of HTML is full of braces and escaped quotation marks."""
    texts = [text] * (600_000 // len(text))
    body, other = (json.dumps(one).encode() for one in (texts, ["x"] * len(texts)))

    assert body_cost(other) > COSTLY_BODY or len(text) > 1_000
    assert body_cost(body) - len(body) == pytest.approx(body_cost(other) - len(other), abs=200_000)


@given(st.lists(st.text('"\\{a'), max_size=20))
def test_a_body_counts_the_same_in_chunks(texts: list[str]) -> None:
    """Wherever a chunk ends, braces in texts do not count, and braces outside do."""
    inside = ["{" * 70_000, *texts, "{" * 60_000, *texts]
    value: list[Any] = [*inside, {}, *texts, {}]
    body = json.dumps(value).encode()

    cost = body_cost(body)

    assert 2 * 2_400 < cost - len(body) < 2 * 2_400 + 100 * (len(value) + 2)


def test_a_body_of_too_many_values_is_not_read() -> None:
    """The error names size and limit, and is final for a handler."""
    assert body_cost(COSTLY) > MAX_BODY_COST
    with pytest.raises(
        CostlyBody, match=r"0\.6 MiB is not read.* more than 256 MiB .*`receiver events raw`"
    ) as found:
        parse_event(COSTLY)

    assert isinstance(found.value, Malformed)
    assert isinstance(found.value, GiveUp)


def test_a_long_page_is_read() -> None:
    """A body of the greatest length that is accepted by default may be one page of HTML."""
    body = json.dumps({"type": "crawl.page", "data": [{"rawHtml": "<a href='{}'>{}, [é]</a>" * 1_000_000}]})

    assert body_cost(body.encode()) < MAX_BODY_COST


def test_the_error_names_the_most_objects_that_fit() -> None:
    """One more than these is refused, though each has two bytes; the error says how many fit."""
    body = b'{"type":"new.thing","data":[%s{}]}' % (b"{}," * (MAX_OBJECTS - 1))

    with pytest.raises(CostlyBody, match="at most 111,848 objects fit"):
        parse_event(body)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_another_encoding_hides_no_value(encoding: str) -> None:
    """A quotation mark within a text, which is escaped, ends no text in any encoding."""
    text = '{"type":"x","a":"\\"","data":[' + "{}," * 200_000 + "{}]}"

    assert body_cost(text.encode(encoding)) > MAX_BODY_COST
    with pytest.raises(CostlyBody):
        parse_event(text.encode(encoding))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-32-be"])
@pytest.mark.parametrize("densest", ["{", "[", ":", ",", '"', "\u20ac", "\\u"])
def test_a_body_that_is_not_estimated_is_affordable(densest: str, encoding: str) -> None:
    """Whatever a short body holds, it could not be refused."""
    body = ('{"' + densest * NEVER_REFUSED).encode(encoding)[:NEVER_REFUSED]

    assert body_cost(body) <= MAX_BODY_COST
