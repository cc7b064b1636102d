"""Narrow a selective filter to the rows that an index returns."""

from receiver.core.deliveries import DeliveryFilter
from receiver.core.work import WorkFilter
from receiver.stores.sql.connection import SqlConnection, Values
from receiver.stores.sql.statements.reads import Reads

NOTHING = "AND 1 = 0"
"""A condition that nothing meets."""
SCAN_LIMIT = 10_000
"""If an index returns more, reading deliveries one by one soon finds matches."""


def among_few(
    connection: SqlConnection, reads: Reads, wanted: DeliveryFilter, *, scan_limit: int
) -> tuple[str, Values]:
    """Return a condition on `d` that all wanted deliveries of this moment meet, and its values; "" for none."""
    if wanted.text is not None:
        reads.dialect.require_index(connection)
    if matches_no_handler(connection, reads, wanted):
        return NOTHING, {}
    for statement, values in reads.filters.indexed_seqs(wanted):
        found = connection.execute(f"{statement} LIMIT {scan_limit + 1}", values).fetchall()
        if len(found) <= scan_limit:
            seqs = sorted({seq for (seq,) in found})
            return f"AND {reads.dialect.among('d.seq', 'few')}", {"few": reads.dialect.array(seqs)}
    return "", {}


def among_few_work(
    connection: SqlConnection, reads: Reads, wanted: WorkFilter, *, scan_limit: int
) -> tuple[str, Values]:
    """Return the same for work items, called `w`."""
    if matches_no_handler(connection, reads, wanted):
        return NOTHING, {}
    for statement, values in reads.filters.indexed_work(wanted):
        found = connection.execute(f"{statement} LIMIT {scan_limit + 1}", values).fetchall()
        if len(found) <= scan_limit:
            ids = sorted(work_id for (work_id,) in found)
            return f"AND {reads.dialect.among('w.id', 'few')}", {"few": reads.dialect.array(ids)}
    return "", {}


def matches_no_handler(connection: SqlConnection, reads: Reads, wanted: DeliveryFilter | WorkFilter) -> bool:
    """Tell whether the filter asks for handlers of which none ever had a work item."""
    if wanted.handler is None:
        return False
    known, values = reads.filters.known_handlers(wanted)
    return connection.execute(known, values).fetchone() is None
