"""What a monitor's check saw: pages, changes, judgments, and the check itself."""

from typing import Any

from pydantic import Field, StrictBool, StrictInt

from receiver.events.documents.shape import Items, JsonObject, Moment, Number, OrEmpty, ServiceModel


class MeaningfulChange(ServiceModel):
    """One change that matters for the monitor's goal, in the judge's words."""

    repr_fields = ("type",)

    type: str | None = None
    """`added`, `removed` or `changed`."""
    before: str | None = None
    after: str | None = None
    reason: str | None = None


class Judgment(ServiceModel):
    """Whether a change matters for the monitor's goal."""

    repr_fields = ("meaningful", "confidence")

    meaningful: StrictBool | None = None
    confidence: str | None = None
    """`high`, `medium` or `low`."""
    reason: str | None = None
    meaningful_changes: Items[MeaningfulChange] = Field(default_factory=list)


class ValueChange(ServiceModel):
    """One extracted value before and now; null is a value that was not there."""

    previous: Any = None
    current: Any = None


class MonitorDiff(ServiceModel):
    """What changed on a monitored page: as text, as extracted values, or both.

    A check read from the service can carry a tree of files under `json` instead; it is in `model_extra`.
    """

    text: str | None = None
    """A unified diff."""
    json_: OrEmpty[dict[str, ValueChange]] = Field(default_factory=dict, alias="json")
    """The changed values by their JSON path, such as `jobs[1].price`."""


class Snapshot(ServiceModel):
    """What was extracted from a page at this check."""

    json_: JsonObject = Field(default_factory=dict, alias="json")


class CheckedPage(ServiceModel):
    """One page as a monitor's check saw it. An event fills the first fields, the service's record the others."""

    repr_fields = ("url", "status")

    monitor_id: str | None = None
    check_id: str | None = None
    url: str | None = None
    status: str | None = None
    """`same`, `new`, `changed` or `error`. Inside a check also `removed`, for which no event is sent."""
    previous_scrape_id: str | None = None
    """None for search targets, like the current one."""
    current_scrape_id: str | None = None
    error: str | None = None
    is_meaningful: StrictBool | None = None
    """None when the judge did not run."""
    judgment: Judgment | None = None
    diff: MonitorDiff | None = None

    id: str | None = None
    target_id: str | None = None
    status_code: StrictInt | None = None
    """The page's own HTTP status."""
    metadata: JsonObject = Field(default_factory=dict)
    created_at: Moment | None = None
    snapshot: Snapshot | None = None
    """Only where a monitor extracts."""


class CheckSummary(ServiceModel):
    """How many pages a check saw, by their status."""

    repr_fields = ("total_pages", "same", "changed", "new", "removed", "error")

    total_pages: StrictInt = 0
    same: StrictInt = 0
    changed: StrictInt = 0
    new: StrictInt = 0
    removed: StrictInt = 0
    error: StrictInt = 0


class MonitorCheck(ServiceModel):
    """One run of a monitor. An event fills the first five fields, the service's own record the others too."""

    repr_fields = ("monitor_id", "check_id", "status")

    monitor_id: str | None = None
    check_id: str | None = None
    """In an event; the record has `id`."""
    status: str | None = None
    """`completed`, `partial` (some pages failed) or `failed`.

    In a record also `queued`, `running`, `skipped_overlap` and `skipped_no_credits`.
    """
    summary: OrEmpty[CheckSummary] = Field(default_factory=CheckSummary)
    pages: Items[CheckedPage] = Field(default_factory=list)
    """In the oldest form of the event, and in a record that was asked for by its id. At most 100 of them."""

    id: str | None = None
    trigger: str | None = None
    """`scheduled` or `manual`."""
    created_at: Moment | None = None
    updated_at: Moment | None = None
    scheduled_for: Moment | None = None
    started_at: Moment | None = None
    finished_at: Moment | None = None
    estimated_credits: Number | None = None
    reserved_credits: Number | None = None
    actual_credits: Number | None = None
    billing_status: str | None = None
    """`not_applicable`, `reserved`, `confirmed`, `released` or `failed`."""
    error: str | None = None
    notification_status: JsonObject = Field(default_factory=dict)
    target_results: Items[Any] = Field(default_factory=list)
    """One object per target; its keys depend on the target's type."""
    next: str | None = None
    """Of a record read with its pages: where the next ones are."""

    @property
    def finished(self) -> bool:
        """Whether the check has ended. One that was skipped has."""
        return self.status not in (None, "queued", "running")
