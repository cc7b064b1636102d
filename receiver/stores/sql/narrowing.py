"""Narrow a selective filter to the rows that an index returns."""

from receiver.core.deliveries import DeliveryFilter
from receiver.stores.sql.connection import SqlConnection, Values
from receiver.stores.sql.statements.reads import Reads

SCAN_LIMIT = 10_000
"""If an index returns more, reading deliveries one by one soon finds matches."""


def among_few(
    connection: SqlConnection, reads: Reads, wanted: DeliveryFilter, *, scan_limit: int = SCAN_LIMIT
) -> tuple[str, Values]:
    """Return a condition on `d` that all wanted deliveries of this moment meet, and its values; "" for none."""
    if wanted.text is not None:
        reads.dialect.require_index(connection)
    for statement, values in reads.filters.indexed_seqs(wanted):
        found = connection.execute(f"{statement} LIMIT {scan_limit + 1}", values).fetchall()
        if len(found) <= scan_limit:
            seqs = sorted({seq for (seq,) in found})
            return f"AND {reads.dialect.among('d.seq', 'few')}", {"few": reads.dialect.array(seqs)}
    return "", {}
