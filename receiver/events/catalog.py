"""From bytes to events: the class of each type."""

from collections.abc import Mapping
from functools import cached_property

from pydantic import ValidationError
from pydantic_core import SchemaValidator
from pydantic_core.core_schema import tagged_union_schema

from receiver.core.body_cost import MAX_BODY_COST, MAX_OBJECTS, NEVER_REFUSED, body_cost
from receiver.core.envelope import NotJson, TooDeep, load_json
from receiver.errors import CostlyBody, Malformed
from receiver.events.agent import AgentAction, AgentCancelled, AgentCompleted, AgentFailed, AgentStarted
from receiver.events.base import Event, UnknownEvent, as_list
from receiver.events.batch_scrape import (
    BatchScrapeCompleted,
    BatchScrapeFailed,
    BatchScrapePage,
    BatchScrapeStarted,
)
from receiver.events.crawl import CrawlCancelled, CrawlCompleted, CrawlFailed, CrawlPage, CrawlStarted
from receiver.events.documents.pages import text_as_diff
from receiver.events.documents.shape import null_as_list, null_as_object, strict_schema
from receiver.events.extract import ExtractCompleted, ExtractFailed, ExtractStarted
from receiver.events.monitor import MonitorCheckCompleted, MonitorPage

_LEAVE_FITTING = (as_list, null_as_list, null_as_object, text_as_diff)
"""Functions that change only values which the schemas below them refuse."""


class StrictReader:
    """Reads the events of some classes.

    This takes three quarters of the time of parsing a small body first and then making the event: there are no
    values of Python in between, as no function of ours is called.
    """

    def __init__(self, classes: Mapping[str, type[Event]]) -> None:
        self._classes = classes

    def read(self, body: bytes) -> Event | None:
        """Return the event that the parsed body would become. None if it may be one that only others can read."""
        try:
            event: Event = self._validator.validate_json(body, by_alias=True, by_name=False)
        except ValidationError:
            return None
        if event.job_id is None:
            event.model_post_init(None)
        return event

    @cached_property
    def _validator(self) -> SchemaValidator:
        """The validator of all classes. Making it takes some milliseconds, and few commands read events."""
        schemas = {name: strict_schema(one, _LEAVE_FITTING) for name, one in self._classes.items()}
        for schema in schemas.values():
            del schema["post_init"]  # it takes 4 % of the time, and changes only an event without an `id`
        return SchemaValidator(tagged_union_schema(schemas, discriminator="type"))


EVENT_CLASSES: dict[str, type[Event]] = {
    event_class.type_name: event_class
    for event_class in (
        CrawlStarted,
        CrawlPage,
        CrawlCompleted,
        CrawlFailed,
        CrawlCancelled,
        BatchScrapeStarted,
        BatchScrapePage,
        BatchScrapeCompleted,
        BatchScrapeFailed,
        ExtractStarted,
        ExtractCompleted,
        ExtractFailed,
        AgentStarted,
        AgentAction,
        AgentCompleted,
        AgentFailed,
        AgentCancelled,
        MonitorPage,
        MonitorCheckCompleted,
    )
}
"""The class of every known type. Any other type is an `UnknownEvent`."""

_MEBIBYTE = 1024 * 1024
_strict = StrictReader(EVENT_CLASSES)


def parse_event(body: bytes) -> Event:
    """Return the event in the body of a delivery.

    Any JSON object with a `type` is an event. Values with another form than documented are in `model_extra`. Raises
    `Malformed` for everything else, without quoting the body, and `CostlyBody` for a body with so many values that
    its event would take more than 256 MiB of memory.
    """
    if len(body) <= NEVER_REFUSED:
        if (event := _strict.read(body)) is not None:
            return event
    elif body_cost(body, precise_from=MAX_BODY_COST) > MAX_BODY_COST:
        raise CostlyBody(
            f"the body of {len(body) / _MEBIBYTE:.1f} MiB is not read: as an event it would take more than "
            f"{MAX_BODY_COST // _MEBIBYTE} MiB of memory; at most {MAX_OBJECTS:,} objects fit, and fewer with "
            "texts and fields; `receiver events raw` writes the body"
        )
    try:
        payload = load_json(body)
    except TooDeep as exc:
        raise Malformed("the body is nested too deeply to be read") from exc
    except NotJson as exc:
        raise Malformed("the body is not JSON; send the payload exactly as the service makes it") from exc
    if not isinstance(payload, dict):
        raise Malformed("the body is JSON, but not an object; a payload is an object with a `type`")
    event_type = payload.get("type")
    if not isinstance(event_type, str) or not event_type:
        raise Malformed("the body has no `type`; a payload is an object with a `type` such as `crawl.page`")
    return EVENT_CLASSES.get(event_type, UnknownEvent).read(payload)
