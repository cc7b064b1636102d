"""The columns of events, as `receiver events list` and `receiver tail` show them."""

from receiver.cli.common.tables import Column, Listing, moment_column
from receiver.core.deliveries import DeliverySummary
from receiver.core.text import short_id
from receiver.core.types import DeliveryState
from receiver.core.views import event_summary

_STYLES = {DeliveryState.NEW: "yellow", DeliveryState.WORKING: "cyan", DeliveryState.DEAD: "red"}


def _success(row: DeliverySummary) -> str:
    return "-" if row.success is None else "ok" if row.success else "failed"


_COLUMNS: tuple[Column[DeliverySummary], ...] = (
    moment_column("received", lambda row: row.received_at),
    Column("type", lambda row: row.type, 24, 23),
    Column("id", lambda row: row.key, 36, 15, in_table=lambda row: short_id(row.key)),
    Column("job_id", lambda row: row.job_id or "-", 36, 8, most=36, rank=3),
    Column("state", lambda row: row.state.value, 7, 7),
    Column("success", _success, 7, 7),
    Column("size", lambda row: str(row.size), 9, 9, rank=2, right=True),
    Column("duplicates", lambda row: f"+{row.duplicates}" if row.duplicates else "", 0, 10, rank=1),
)
EVENTS = Listing("event", _COLUMNS, event_summary, lambda row: _STYLES.get(row.state, ""))
