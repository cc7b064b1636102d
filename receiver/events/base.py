"""What every event has: the envelope of a webhook delivery."""

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import BeforeValidator, FailFast, Field, StrictBool

from receiver.events.documents.shape import JsonObject, ServiceModel


def _as_list(value: object) -> object:
    if isinstance(value, list):
        return value
    return [] if value is None else [value]


T = TypeVar("T")

Data = Annotated[list[T], FailFast(), BeforeValidator(_as_list)]
"""The items of an event: one object becomes a list of one, a missing or null value an empty list."""


class Event(ServiceModel):
    """One event of the service, as its webhook documentation describes the payload.

    The fields are those of the envelope; what a sender adds is in `model_extra`. Events do not change once
    made. In tests they can be made by hand: `CrawlPage(job_id="1", data=[Document(markdown="# Hi")])`.
    """

    repr_fields = ("type", "job_id", "webhook_id", "success")

    type_name: ClassVar[str] = ""
    """The one `type` this class stands for; empty for a base class and for `UnknownEvent`."""

    success: StrictBool | None = None
    """Whether the page, check or job went well. None when the sender does not say."""
    type: str
    """`family.kind`, such as `crawl.page`."""
    job_id: str | None = Field(None, alias="id")
    """The crawl, batch, extract or agent job; for monitors the check. Read from `id`, else from v0's `jobId`."""
    v0_job_id: str | None = Field(None, alias="jobId")
    """The name that v0 jobs give their id. `job_id` has it too."""
    webhook_id: str | None = None
    """One per delivery, the same on its retries. Senders before September 2025 give none."""
    data: Data[Any] = Field(default_factory=list)
    """The items of this event, always a list."""
    error: str | None = None
    """Why it failed. A check that is partial has `success` false and no error."""
    metadata: JsonObject = Field(default_factory=dict)
    """What was configured as the webhook's `metadata`, empty when nothing was."""

    def model_post_init(self, context: Any, /) -> None:
        """Complete what two keys of the wire say together."""
        if self.job_id is None and self.v0_job_id is not None:
            self.__dict__["job_id"] = self.v0_job_id  # the event is frozen for everyone else
        self.__pydantic_fields_set__.add("type")  # an event made by hand goes on the wire with its type

    def __repr_args__(self) -> Iterable[tuple[str, Any]]:
        yield from super().__repr_args__()
        yield "items", len(self.data)


class TerminalEvent(Event):
    """The last event of a job, whatever its family: it completed, failed or was cancelled.

    A handler of this class hears of every job's end. Two things the service does not promise: that no page
    event of the job comes later, and that this event comes at all (ask for the job's status then). A crawl or
    batch that was cancelled ends as completed. For a monitor it is the end of one check, not of the monitor.
    """


class UnknownEvent(Event):
    """An event of a type this version does not know. Its items are as they came.

    New types appear without notice, and so do other payloads with the same signature header, such as
    `threat_protection.check_batch`, which has neither data nor ids: see `model_extra`.
    """
