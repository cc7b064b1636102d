"""Results of monitors: checks, their pages, changes and judgments."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StrictBool, StrictInt

from receiver.events.documents.shape import Items, JsonObject, Moment, Number, OrEmpty, ServiceModel

_FINAL_STATES = frozenset({"completed", "partial", "failed", "skipped_overlap", "skipped_no_credits"})


class MeaningfulChange(ServiceModel):
    """One change that matters for the monitor's goal, in the judge's words."""

    repr_fields = ("type",)

    type: str | None = None
    """`added`, `removed` or `changed`."""
    before: str | None = None
    """What the page said before; None for something that was added."""
    after: str | None = None
    """What the page says now; None for something that was removed."""
    reason: str | None = None
    """Why the change matters, in the judge's words."""


class Judgment(ServiceModel):
    """Whether a change matters for the monitor's goal."""

    repr_fields = ("meaningful", "confidence")

    meaningful: StrictBool | None = None
    """Whether any of the changes matters for the goal."""
    confidence: str | None = None
    """`high`, `medium` or `low`."""
    reason: str | None = None
    """Why it does or does not, in the judge's words."""
    meaningful_changes: Items[MeaningfulChange] = Field(default_factory=list)
    """The changes that matter. The service may leave them out."""


class ValueChange(ServiceModel):
    """One extracted value before and now. None stands for a missing value."""

    previous: Any = None
    """The value in the earlier scrape: any JSON."""
    current: Any = None
    """The value in this scrape: any JSON."""


def _require_objects(value: object) -> object:
    # pydantic would describe each wrong value. Millions of them would take gigabytes.
    if isinstance(value, Mapping) and not all(isinstance(one, Mapping | ValueChange) for one in value.values()):
        raise ValueError("not an object of changes")
    return value


_ValueChanges = Annotated[OrEmpty[dict[str, ValueChange]], BeforeValidator(_require_objects)]


class MonitorDiff(ServiceModel):
    """The changes of a monitored page: as text, as extracted values, or both.

    A check from the service's API can have a tree of files under `json` instead; it is in `model_extra`.
    """

    text: str | None = None
    """A unified diff."""
    json_: Annotated[_ValueChanges, Field(alias="json")] = Field(default_factory=dict)
    """The changed values by their JSON path, such as `jobs[1].price`."""


class Snapshot(ServiceModel):
    """The values extracted from a page at this check."""

    json_: Annotated[JsonObject, Field(alias="json")] = Field(default_factory=dict)
    """The whole extraction, by the names of the schema."""


class CheckedPage(ServiceModel):
    """One page in a monitor's check. An event fills the first fields, the service's record the others."""

    repr_fields = ("url", "status")

    monitor_id: str | None = None
    """UUID of the monitor. Only in an event."""
    check_id: str | None = None
    """UUID of the check, the same as the event's `job_id`. Only in an event."""
    url: str | None = None
    """Absolute URL of the page."""
    status: str | None = None
    """`same`, `new`, `changed` or `error`; inside a check also `removed`, for which no event is sent."""
    previous_scrape_id: str | None = None
    """UUID of the earlier scrape. None without one, and for search targets."""
    current_scrape_id: str | None = None
    """UUID of this check's scrape. None for search targets."""
    error: str | None = None
    """Why the page could not be checked; None when it could."""
    is_meaningful: StrictBool | None = None
    """Whether the change matters for the goal; None when the judge did not run."""
    judgment: Judgment | None = None
    """What the judge says of the change; None when it did not run."""
    diff: MonitorDiff | None = None
    """What changed; None for a page that is the same, new or in error."""

    id: str | None = None
    """UUID of this page in the service's record of the check."""
    target_id: str | None = None
    """UUID of the monitor's target that the page belongs to."""
    status_code: StrictInt | None = None
    """The page's own HTTP status."""
    metadata: JsonObject = Field(default_factory=dict)
    """Such as `title`, `contentType` and `creditsUsed`; of a search hit also `searchStatus`."""
    created_at: Moment | None = None
    """When the page was recorded, in UTC."""
    snapshot: Snapshot | None = None
    """The extracted values; only for a monitor that extracts."""


class CheckSummary(ServiceModel):
    """How many pages a check saw, by their status."""

    repr_fields = ("total_pages", "same", "changed", "new", "removed", "error")

    total_pages: StrictInt = 0
    """All pages of the check."""
    same: StrictInt = 0
    """Pages whose content is unchanged."""
    changed: StrictInt = 0
    """Pages whose content changed."""
    new: StrictInt = 0
    """Pages that no earlier check saw."""
    removed: StrictInt = 0
    """Pages that an earlier check saw and this one did not find."""
    error: StrictInt = 0
    """Pages that could not be checked."""


class MonitorCheck(ServiceModel):
    """One run of a monitor. An event fills the first five fields; the service's record also fills the others."""

    repr_fields = ("monitor_id", "check_id", "status")

    monitor_id: str | None = None
    """UUID of the monitor."""
    check_id: str | None = None
    """UUID of the check, in an event. In the service's record it is `id`."""
    status: str | None = None
    """`completed`, `partial` (some pages failed) or `failed`.

    In a record also `queued`, `running`, `skipped_overlap` and `skipped_no_credits`.
    """
    summary: OrEmpty[CheckSummary] = Field(default_factory=CheckSummary)
    """How many pages the check saw, by their status."""
    pages: Items[CheckedPage] = Field(default_factory=list)
    """At most 100 pages. Only the oldest form of the event and the record of one check have them."""

    id: str | None = None
    """UUID of the check, in the service's record. In an event it is `check_id`."""
    trigger: str | None = None
    """`scheduled` or `manual`."""
    created_at: Moment | None = None
    """When the record was made, in UTC."""
    updated_at: Moment | None = None
    """When the record was changed last, in UTC."""
    scheduled_for: Moment | None = None
    """When the check was due by the schedule, in UTC."""
    started_at: Moment | None = None
    """When the check began, in UTC; None while it is queued."""
    finished_at: Moment | None = None
    """When the check ended, in UTC; None before."""
    estimated_credits: Number | None = None
    """Credits that the check was expected to cost."""
    reserved_credits: Number | None = None
    """Credits that the service set aside for it."""
    actual_credits: Number | None = None
    """Credits that it did cost."""
    billing_status: str | None = None
    """`not_applicable`, `reserved`, `confirmed`, `released` or `failed`."""
    error: str | None = None
    """Why the check failed; None for one that did not."""
    notification_status: JsonObject = Field(default_factory=dict)
    """How each notification went, under `webhook`, `email` and `slack`."""
    target_results: Items[Any] = Field(default_factory=list)
    """One object per target; its keys depend on the target's type."""
    next: str | None = None
    """URL of the next pages, in the record of one check; None on the last page."""

    @property
    def finished(self) -> bool:
        """Whether the check has ended or was skipped. A status that is not documented is no end."""
        return self.status in _FINAL_STATES
