"""The bodies in which callers rate answers."""

from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field, JsonValue

from receiver.emulator.wire.bodies import RequestPolicy, read_body
from receiver.emulator.wire.scrape import SenderFields
from receiver.requests.base import Many, Request

Json = dict[str, Any]
_Text = Annotated[str, Field(max_length=10_000)]


class ValuableSource(Request):
    """A useful hit, and why it was useful."""

    url: _Text
    reason: _Text | None = None


class MissingContent(Request):
    """Something that an answer lacked."""

    topic: _Text
    description: _Text | None = None


class SearchFeedbackBody(Request, SenderFields):
    """The body of POST /v2/search/{id}/feedback."""

    rating: Literal["good", "partial", "bad"]
    valuable_sources: Many[ValuableSource] | None = None
    missing_content: Many[MissingContent] | None = None
    query_suggestions: _Text | None = None


class EndpointFeedbackBody(SearchFeedbackBody):
    """The body of POST /v2/feedback."""

    endpoint: Literal["search", "scrape", "parse", "map"]
    job_id: UUID
    """The id in the answer; of a scrape, the scrapeId in its metadata."""
    issues: Many[_Text] | None = None
    tags: Many[_Text] | None = None
    note: _Text | None = None
    url: _Text | None = None
    page_numbers: Many[int] | None = None
    metadata: dict[str, JsonValue] | None = None


def read_search_feedback(body: Json, policy: RequestPolicy) -> SearchFeedbackBody:
    """Return the rating of a search."""
    return read_body(SearchFeedbackBody, body, policy)


def read_endpoint_feedback(body: Json, policy: RequestPolicy) -> EndpointFeedbackBody:
    """Return the rating of an answer."""
    return read_body(EndpointFeedbackBody, body, policy)
