"""Filters that fit a few of many deliveries: where an index knows all that can fit, only those are looked at."""

import json
import sqlite3
from collections.abc import Iterator

from receiver.core.deliveries import DeliveryFilter
from receiver.core.types import DeliveryState
from receiver.stores.sqlite import report_statements as statements
from receiver.stores.sqlite.filters import as_glob
from receiver.stores.sqlite.search import require_index

_FEW = 10_000
"""Above it, going through deliveries one by one soon finds one that fits."""


def among_few(connection: sqlite3.Connection, wanted: DeliveryFilter) -> tuple[str, dict[str, object]]:
    """Return a condition on `d` that all wanted deliveries of this moment meet, and its values; "" for none."""
    require_index(connection, wanted)
    for statement, values in _indexes(wanted):
        found = connection.execute(f"{statement} LIMIT {_FEW + 1}", values).fetchall()
        if len(found) <= _FEW:
            seqs = sorted({seq for (seq,) in found})
            return "AND d.seq IN (SELECT value FROM json_each(:few))", {"few": json.dumps(seqs)}
    return "", {}


def _indexes(wanted: DeliveryFilter) -> Iterator[tuple[str, dict[str, object]]]:
    if wanted.failed:
        yield statements.FAILED_SEQS, {"handler": as_glob(wanted.handler or "*")}
    match wanted.state:
        case DeliveryState.NEW:
            yield statements.NEW_SEQS, {}
        case DeliveryState.WORKING:
            yield statements.OPEN_SEQS, {}
        case DeliveryState.DEAD:
            yield statements.DEAD_SEQS, {}
