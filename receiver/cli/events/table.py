"""The columns of events, as `receiver events list` and `receiver tail` show them."""

from receiver.cli.common.columns import NOTHING, Column, job_column, moment_column
from receiver.cli.common.tables import Listing
from receiver.core.text import counted, short_id, short_job_id
from receiver.core.types import DeliveryState
from receiver.core.views import EventRow, event_summary

_STYLES = {DeliveryState.NEW: "yellow", DeliveryState.WORKING: "cyan", DeliveryState.DEAD: "red"}


def reported(success: bool | None) -> str:
    """Return what the service reports about its page or job. Whether handlers succeeded is told by the state."""
    return NOTHING if success is None else "ok" if success else "error"


def _error_reported(row: EventRow) -> str | None:
    return "the service reported an error" if row.summary.success is False else None


def _subject(row: EventRow) -> str:
    return row.subject.text or ("(pruned)" if not row.summary.has_body else NOTHING)


def _subject_in_table(row: EventRow) -> str:
    """Return a URL without its scheme; a job is named by the beginning of its id, which `--job` takes."""
    job_id = row.summary.job_id
    if job_id is None or row.subject.url is not None:
        return _subject(row).removeprefix("https://")
    return _subject(row).replace(f"of job {job_id}", f"of job {short_job_id(job_id)}", 1)


_COLUMNS: tuple[Column[EventRow], ...] = (
    moment_column("received", lambda row: row.summary.received_at),
    Column("type", lambda row: row.summary.type, 24, 15, most=23),
    Column("id", lambda row: row.summary.key, 36, 8, most=15, in_table=lambda row: short_id(row.summary.key)),
    job_column(lambda row: row.summary.job_id, rank=3),
    Column("state", lambda row: row.summary.state.value, 7, 7),
    Column("reported", lambda row: reported(row.summary.success), 8, 8, rank=1, below=_error_reported),
    Column(
        "duplicates",
        lambda row: f"+{row.summary.duplicates}" if row.summary.duplicates else NOTHING,
        10,
        10,
        rank=2,
        right=True,
        below=lambda row: counted(row.summary.duplicates, "duplicate") if row.summary.duplicates else None,
    ),
    Column("size", lambda row: str(row.summary.size), 9, 9, rank=4, right=True),
    Column("subject", _subject, 0, 12, most=48, in_table=_subject_in_table, head=0.5),
)
EVENTS = Listing("event", _COLUMNS, event_summary, lambda row: _STYLES.get(row.summary.state, ""))
