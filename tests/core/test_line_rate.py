"""Tests of log lines that are summed up above a rate."""

import asyncio
import logging
from collections.abc import Callable, Iterator

import pytest

from receiver.runtime.log_lines import MAX_LINES, LineRate, event_log
from tests.doubles import event_of

log = event_log(__name__)


@pytest.fixture
def rate(caplog: pytest.LogCaptureFixture) -> Iterator[LineRate]:
    with caplog.at_level(logging.INFO):
        yield LineRate(log, "deliveries_received")


def sums(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    return [
        (vars(record)["count"], vars(record)["kinds"])
        for record in caplog.records
        if event_of(record) == "deliveries_received"
    ]


async def test_each_line_is_written_up_to_the_rate(rate: LineRate, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is summed up then."""
    assert all(rate.allows("crawl.page") for _ in range(MAX_LINES))

    rate.flush()
    assert sums(caplog) == []


async def test_lines_above_the_rate_are_counted_by_kind(rate: LineRate, caplog: pytest.LogCaptureFixture) -> None:
    """The most frequent kind comes first, and a sum is logged once."""
    for _ in range(MAX_LINES):
        rate.allows("crawl.page")

    assert not any(rate.allows(kind) for kind in ["crawl.completed", "crawl.page", "crawl.page"])

    rate.flush()
    rate.flush()
    assert sums(caplog) == [(3, "crawl.page 2, crawl.completed 1")]


async def test_of_several_lines_as_many_are_allowed_as_the_rate_leaves(
    rate: LineRate, caplog: pytest.LogCaptureFixture
) -> None:
    """The others are counted, and never more than were wanted."""
    assert rate.allows("crawl.page", MAX_LINES - 1) == MAX_LINES - 1
    assert rate.allows("crawl.page", 4) == 1
    assert rate.allows("crawl.completed", 2) == 0
    assert rate.allows("crawl.page") == 0

    rate.flush()
    assert sums(caplog) == [(6, "crawl.page 4, crawl.completed 2")]


async def test_several_lines_that_just_fit_are_all_allowed(
    rate: LineRate, caplog: pytest.LogCaptureFixture
) -> None:
    assert rate.allows("crawl.page", MAX_LINES) == MAX_LINES

    rate.flush()
    assert sums(caplog) == []


async def test_a_sum_names_ten_kinds(rate: LineRate, caplog: pytest.LogCaptureFixture) -> None:
    """The line stays short, whatever types a sender makes up."""
    for _ in range(MAX_LINES + 2):
        rate.allows("crawl.page")
    for number in range(1_000):
        rate.allows(f"made-up-{number}")

    rate.flush()
    [(count, kinds)] = sums(caplog)
    assert (count, kinds.count(","), kinds.split(", ")[0]) == (1_002, 10, "crawl.page 2")
    assert kinds.endswith(", others 991")


async def test_the_sum_is_logged_when_the_second_is_over(
    rate: LineRate, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No further line has to come for that, and the next second has lines of its own."""
    moment = [100.0]
    later: list[tuple[float, Callable[[], None]]] = []
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "time", lambda: moment[0])
    monkeypatch.setattr(loop, "call_at", lambda when, call: later.append((when, call)))
    for _ in range(MAX_LINES + 2):
        rate.allows("crawl.page")

    [(when, call)] = later
    moment[0] = when
    call()

    assert when == 101.0
    assert sums(caplog) == [(2, "crawl.page 2")]
    assert rate.allows("crawl.page")
