"""The times of log lines, as flags of commands."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from receiver.cli.common.output import with_local_times
from receiver.core.clock import iso, local_time
from receiver.core.units import parse_moment
from tests.doubles import NOON


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=5, minutes=30)), timezone(-timedelta(hours=8))])
def test_the_time_of_a_log_line_can_be_pasted_into_since(zone: timezone) -> None:
    """It is one word, and the same moment in every zone."""
    moment = datetime(2026, 11, 22, 10, 29, 26, tzinfo=zone)
    shown = local_time(moment)

    assert len(shown.split()) == 1
    assert parse_moment(shown, NOON) == moment


def test_a_view_for_people_has_local_times() -> None:
    """Its moments are those of lists and of the log; all other fields stay."""
    fields = {"received_at": iso(NOON), "ended_at": None, "id": iso(NOON)}

    assert with_local_times(fields) == {"received_at": local_time(NOON), "ended_at": None, "id": iso(NOON)}
