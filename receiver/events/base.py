"""The fields that every event has: the envelope of a webhook delivery."""

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import BeforeValidator, Field, StrictBool

from receiver.events.documents.shape import ItemList, JsonObject, ServiceModel


def as_list(value: object) -> object:
    """Read one value as a list of one, and null as an empty list."""
    if isinstance(value, list):
        return value
    return [] if value is None else [value]


T = TypeVar("T")

Data = Annotated[ItemList[T], BeforeValidator(as_list)]
"""The items of an event. One object is read as a list of one, a missing or null value as an empty list."""


class Event(ServiceModel):
    """One event of the service, as its webhook documentation describes the payload.

    The fields are those of the envelope; keys that a sender adds are in `model_extra`. Events are immutable. Tests
    can make them by hand: `CrawlPage(job_id="1", data=[Document(markdown="# Hi")])`.
    """

    repr_fields = ("type", "job_id", "webhook_id", "success")

    type_name: ClassVar[str] = ""
    """The `type` of this class; empty for a base class and for `UnknownEvent`."""

    success: StrictBool | None = None
    """Whether the page, check or job succeeded. None when the sender does not say."""
    type: str
    """`family.kind`, such as `crawl.page`."""
    job_id: Annotated[str | None, Field(alias="id")] = None
    """UUID of the crawl, batch, extract or agent job, or of the monitor's check. From `id`, else v0's `jobId`."""
    v0_job_id: Annotated[str | None, Field(alias="jobId")] = None
    """The id of a v0 job, under its own key. `job_id` has it too."""
    webhook_id: str | None = None
    """UUID of the delivery, the same on its retries. Senders before September 2025 give none."""
    data: Data[Any] = Field(default_factory=list)
    """The items of this event, always a list."""
    error: str | None = None
    """Why it failed. A partial check has `success` false and no error."""
    metadata: JsonObject = Field(default_factory=dict)
    """The `metadata` of the webhook's configuration, empty without any."""

    def model_post_init(self, context: Any, /) -> None:
        """Fill in what follows from other fields."""
        if self.job_id is None and self.v0_job_id is not None:
            self.__dict__["job_id"] = self.v0_job_id  # assignment is refused: the event is frozen
        self.__pydantic_fields_set__.add("type")  # so that an event made by hand is written with its type

    def __repr_args__(self) -> Iterable[tuple[str, Any]]:
        yield from super().__repr_args__()
        yield "items", len(self.data)


class TerminalEvent(Event):
    """The last event of a job of any family: the job completed, failed or was cancelled.

    A handler of this class gets the end of every job. Page events of the job can still come later, and this event
    can be missing (ask for the job's status then). A cancelled crawl or batch ends as completed. For a monitor this
    is the end of one check, not of the monitor.
    """


class UnknownEvent(Event):
    """An event of a type that this version does not know. Its items are plain JSON values.

    New types appear without notice. Other payloads come with the same signature header, such as
    `threat_protection.check_batch`. It has neither data nor ids; its keys are in `model_extra`.
    """
