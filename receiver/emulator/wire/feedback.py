"""Reads what callers say of answers."""

from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field, JsonValue

from receiver.emulator.wire.issues import read_body
from receiver.emulator.wire.policy import RequestPolicy
from receiver.emulator.wire.scrape import SenderFields
from receiver.requests.base import Many, Request

Json = dict[str, Any]
_Text = Annotated[str, Field(max_length=10_000)]


class ValuableSource(Request):
    """A hit that was of use."""

    url: _Text
    """Its address."""
    reason: _Text | None = None
    """Why it was of use."""


class MissingContent(Request):
    """Something that an answer did not have."""

    topic: _Text
    """What it is about."""
    description: _Text | None = None
    """More of it."""


class SearchFeedbackBody(Request, SenderFields):
    """The body of POST /v2/search/{id}/feedback."""

    rating: Literal["good", "partial", "bad"]
    """How the answer was."""
    valuable_sources: Many[ValuableSource] | None = None
    """Hits that were of use."""
    missing_content: Many[MissingContent] | None = None
    """What was not there."""
    query_suggestions: _Text | None = None
    """How the search could do better."""


class EndpointFeedbackBody(SearchFeedbackBody):
    """The body of POST /v2/feedback."""

    endpoint: Literal["search", "scrape", "parse", "map"]
    """What was called."""
    job_id: UUID
    """The id in the answer; of a scrape, the scrapeId in its metadata."""
    issues: Many[_Text] | None = None
    """Faults of the answer, by name."""
    tags: Many[_Text] | None = None
    """Words to find it by."""
    note: _Text | None = None
    """More of it."""
    url: _Text | None = None
    """The page it is about."""
    page_numbers: Many[int] | None = None
    """The pages of a file it is about."""
    metadata: dict[str, JsonValue] | None = None
    """Whatever the caller adds."""


def read_search_feedback(body: Json, policy: RequestPolicy) -> SearchFeedbackBody:
    """Return what is said of a search."""
    return read_body(SearchFeedbackBody, body, policy)


def read_endpoint_feedback(body: Json, policy: RequestPolicy) -> EndpointFeedbackBody:
    """Return what is said of an answer."""
    return read_body(EndpointFeedbackBody, body, policy)
